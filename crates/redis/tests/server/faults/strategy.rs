//! The limiters under load, and what each may grant without a fault.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use tollgate::clock::QuantaClock;
use tollgate::{Clock, Quota, Tick};
use tollgate_redis::{Batched, Leased, RedisLimiter, RedisMembership, Share, Store, Windows};

use super::observed_membership::{Change, ObservedMembership};
use super::topology::{self, Topology};
use crate::harness::PATIENCE;
use crate::proxy::Proxy;

pub(crate) const PROCESSES: u64 = 2;
pub(crate) const KEY: &str = "k";
/// Cells a second, in a bucket.
pub(crate) const RATE: u64 = 100;
pub(crate) const BURST: u64 = 200;
const LIFETIME: Duration = Duration::from_millis(100);
/// The time between two heartbeats.
pub(crate) const INTERVAL_MILLIS: u64 = 50;
/// The limit of a window that no episode sees the end of, and the unsent cells that a process may
/// have.
const LIMIT: u64 = 600;
const UNSENT: u64 = 20;
const HOUR: Duration = Duration::from_secs(3_600);

/// How requests are decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strategy {
    RedisLimiter,
    Leased,
    Batched,
    Share,
}

impl Strategy {
    pub(crate) const ALL: [Self; 4] =
        [Self::RedisLimiter, Self::Leased, Self::Batched, Self::Share];

    /// The largest number of cells that a span of this length may see.
    pub(crate) fn bound(self, micros: u64) -> u64 {
        match self {
            Self::RedisLimiter | Self::Leased | Self::Share => BURST + RATE * micros / 1_000_000,
            Self::Batched => LIMIT - 1 + PROCESSES * UNSENT,
        }
    }

    /// The cells that a server that has lost everything may grant anew.
    pub(crate) fn fresh(self) -> u64 {
        match self {
            Self::Share => 0,
            _ => self.bound(0),
        }
    }

    /// One limiter for each process, with a connection and a clock of its own.
    pub(crate) fn clients(self, topology: &Topology) -> Vec<Client> {
        let links = topology.links(self).into_iter().cycle();
        let clients = links.zip(0..PROCESSES).map(|(link, _)| self.client(link, "shared"));
        let clients: Vec<_> = clients.collect();
        let began = Instant::now();
        while !clients.iter().all(|client| client.has_part_of(PROCESSES)) {
            assert!(began.elapsed() < PATIENCE, "nodes do not count each other");
            std::thread::sleep(Duration::from_millis(1));
        }
        clients
    }

    pub(crate) fn client(self, link: &Proxy, name: &str) -> Client {
        let store = topology::store(link);
        let clock = Arc::new(Shifted::default());
        let quota = Quota::per_second(RATE).burst(BURST);
        let redis_limiter = RedisLimiter::builder(&store, name, quota);
        let gate = match self {
            Self::RedisLimiter => Gate::RedisLimiter(redis_limiter.build().expect("a limiter")),
            Self::Leased => {
                let redis_limiter = redis_limiter.leases(LIFETIME).build().expect("a limiter");
                let leased = Leased::builder(redis_limiter).clock(Arc::clone(&clock)).max_lease(40);
                // An episode is short, so the limiter must recover soon after a fault.
                let leased = leased.memory(Duration::from_millis(50));
                let leased = leased.max_pause(Duration::from_millis(50));
                Gate::Leased(leased.build().expect("a limiter"))
            }
            Self::Batched => {
                let windows = Windows::first_hit(&store, name, HOUR).expect("a window");
                let batched = Batched::builder(windows, LIMIT).max_unsent(UNSENT);
                Gate::Batched(batched.build().expect("a limiter"))
            }
            Self::Share => {
                let membership = RedisMembership::new(&store, name).expect("a name");
                let membership = ObservedMembership::new(membership, &clock);
                let share = Share::builder(membership.clone(), quota).clock(Arc::clone(&clock));
                Gate::Share(
                    share.interval(Duration::from_millis(INTERVAL_MILLIS)).build().expect("a node"),
                    membership,
                )
            }
        };
        Client { gate, store, clock, next: Arc::default() }
    }
}

#[derive(Clone)]
enum Gate {
    RedisLimiter(RedisLimiter),
    Leased(Leased<RedisLimiter, Arc<Shifted>>),
    Batched(Batched<Windows>),
    Share(Share<ObservedMembership, Arc<Shifted>>, ObservedMembership),
}

/// A limiter as one process has it.
#[derive(Clone)]
pub(crate) struct Client {
    gate: Gate,
    store: Store,
    clock: Arc<Shifted>,
    next: Arc<AtomicU64>,
}

impl Client {
    /// Whether a cell of the common key is granted.
    pub(crate) async fn is_granted(&self, round: u64) -> bool {
        match round {
            0 => self.ask(KEY.as_bytes()).await,
            _ => self.ask(format!("{KEY}{round}").as_bytes()).await,
        }
    }

    /// Whether all clients switch to a new key after each round. There is then a full burst to spend
    /// whenever a fault changes a node's part.
    pub(crate) fn asks_in_rounds(&self) -> bool {
        matches!(self.gate, Gate::Share(..))
    }

    /// Whether the node's part is the quota divided by this many nodes. True for other strategies.
    fn has_part_of(&self, live: u64) -> bool {
        match &self.gate {
            Gate::Share(share, _) => share.stats().live == Some(live),
            _ => true,
        }
    }

    /// The cells that nodes which came or went have added, and when.
    pub(crate) fn changes(&self) -> Vec<Change> {
        match &self.gate {
            Gate::Share(_, membership) => membership.changes(),
            _ => Vec::new(),
        }
    }

    /// The number of nodes that this one's part is divided by.
    pub(crate) fn live(&self) -> u64 {
        match &self.gate {
            Gate::Share(_, membership) => membership.live(),
            _ => 1,
        }
    }

    async fn ask(&self, key: &[u8]) -> bool {
        match &self.gate {
            Gate::RedisLimiter(gate) => {
                gate.check(key).await.is_ok_and(|decision| decision.is_ok())
            }
            Gate::Leased(gate) => gate.check(key).await.is_ok_and(|answer| answer.decision.is_ok()),
            Gate::Batched(gate) => {
                gate.check(key).await.is_ok_and(|answer| answer.decision.is_ok())
            }
            Gate::Share(gate, _) => gate.check(key).decision.is_ok(),
        }
    }

    /// Asks for a new key. Returns whether the server has answered since. For a node: whether it
    /// has a part.
    pub(crate) async fn is_answered(&self) -> bool {
        if let Gate::Share(share, _) = &self.gate {
            return share.stats().live.is_some();
        }
        let before = self.store.stats().answered;
        let key = format!("fresh {}", self.next.fetch_add(1, SeqCst));
        self.ask(key.as_bytes()).await;
        // Batches are sent every 10 ms.
        tokio::time::sleep(Duration::from_millis(20)).await;
        self.store.stats().answered > before
    }

    pub(crate) fn shift_clock(&self, by: i64) {
        self.clock.ahead_nanos.fetch_add(by, SeqCst);
    }
}

/// A process's clock that can be shifted.
#[derive(Debug, Default)]
pub(crate) struct Shifted {
    clock: QuantaClock,
    ahead_nanos: AtomicI64,
}

impl Clock for Shifted {
    fn now(&self) -> Tick {
        // An hour in, so that it can go back.
        let begun = self.clock.now().saturating_add(HOUR);
        let ahead = self.ahead_nanos.load(SeqCst);
        Tick::from_nanos(begun.as_nanos().saturating_add_signed(ahead))
    }
}
