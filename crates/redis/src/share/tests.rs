//! The sum of all nodes' parts, and how long a dead node's part is unused.

#![allow(clippy::disallowed_types, reason = "a test's list may have a lock")]

use core::time::Duration;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use proptest::prelude::*;
use tollgate::{Clock, Quota};

use super::*;
use crate::lease::simulation::{Local, MILLI, Rng, SECOND, SLOWER, simulate, sleep};
use crate::sync::RelaxedCounter;
use crate::{Origin, Unavailable};

/// In simulated time.
const INTERVAL: u64 = 100 * MILLI;

/// When each member joined, and its last heartbeat.
#[derive(Debug, Default)]
struct Members {
    heard: Mutex<HashMap<String, (u64, u64)>>,
    /// The mistake: newcomers are reported as old members.
    hides_newcomers: bool,
}

impl Members {
    fn heartbeat(&self, id: &str, now: u64, lifetime: u64) -> Heartbeat {
        let mut members = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        members.retain(|_, (_, heard)| *heard + lifetime > now);
        let (came, _) = members.get(id).copied().unwrap_or((now, now));
        members.insert(id.into(), (came, now));
        // The node's time is slowed down, and so is what it receives.
        let member_for = match self.hides_newcomers {
            true => Duration::MAX,
            false => Duration::from_nanos(now - came) * SLOWER,
        };
        Heartbeat { live: members.len() as u64, member_for }
    }

    fn forget_all(&self) {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// The list as a node reaches it.
#[derive(Debug)]
struct SimulatedMembership {
    members: Arc<Members>,
    real: Local,
    rng: Mutex<Rng>,
    latency: u64,
    lost_per_mille: Arc<RelaxedCounter>,
}

impl SimulatedMembership {
    fn draw(&self, max: u64) -> u64 {
        self.rng.lock().unwrap_or_else(PoisonError::into_inner).within(0..max)
    }
}

impl Membership for SimulatedMembership {
    async fn heartbeat(&self, id: &str, lifetime: Duration) -> Result<Heartbeat, Unavailable> {
        sleep(self.draw(self.latency)).await;
        if self.draw(1_000) < self.lost_per_mille.read() {
            return Err(Unavailable::Disconnected);
        }
        let lifetime = u64::try_from((lifetime / SLOWER).as_nanos()).expect("short");
        let heartbeat = self.members.heartbeat(id, self.real.nanos(), lifetime);
        sleep(self.draw(self.latency)).await;
        match self.draw(1_000) < self.lost_per_mille.read() {
            true => Err(Unavailable::TimedOut),
            false => Ok(heartbeat),
        }
    }

    async fn leave(&self, id: &str) -> Result<(), Unavailable> {
        self.members.heard.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
        Ok(())
    }
}

/// A slowed clock, shared by a node's heartbeats and its limiter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slowed(pub(super) Local);

impl Clock for Slowed {
    fn now(&self) -> tollgate::Tick {
        tollgate::Tick::from_nanos(self.0.nanos().saturating_mul(u64::from(SLOWER)))
    }
}

type Node = Share<SimulatedMembership, Slowed>;

struct World {
    members: Arc<Members>,
    real: Local,
    rng: Rng,
    latency: u64,
    lost_per_mille: u64,
}

impl World {
    fn new(seed: u64, latency: u64, lost_per_mille: u64) -> Self {
        let rng = Rng::new(seed);
        Self { members: Arc::default(), real: Local::real(), rng, latency, lost_per_mille }
    }

    fn node(&mut self, quota: Quota) -> Node {
        self.mortal(quota).0
    }

    /// A node, and the share of its messages that are lost, in thousandths.
    fn mortal(&mut self, quota: Quota) -> (Node, Arc<RelaxedCounter>) {
        let lost = Arc::new(RelaxedCounter::default());
        lost.set(self.lost_per_mille);
        let remote = SimulatedMembership {
            members: Arc::clone(&self.members),
            real: self.real,
            rng: Mutex::new(Rng::new(self.rng.draw())),
            latency: self.latency,
            lost_per_mille: Arc::clone(&lost),
        };
        let clock = Slowed(self.real.skewed(self.rng.within(0..1 << 50)));
        let interval = Duration::from_nanos(INTERVAL) * SLOWER;
        let builder = Share::builder(remote, quota).clock(clock).interval(interval);
        (builder.capacity(100).build().expect("in range"), lost)
    }
}

/// The sum of all parts, in 840ths of the quota. 840 is divisible by 1 to 8.
fn sum(nodes: &[Node]) -> u64 {
    nodes.iter().filter_map(|node| node.stats().live).map(|live| 840_u64.div_ceil(live)).sum()
}

/// Nodes come, go, and lose messages; the list is lost. Returns the largest sum of their parts, and
/// the sum at the end, after a while without faults.
fn sums(seed: u64, latency: u64, lost: u64, hides_newcomers: bool) -> (u64, u64) {
    simulate(async move {
        let mut world = World::new(seed, latency, lost);
        world.members = Arc::new(Members { hides_newcomers, ..Members::default() });
        let quota = Quota::per_second(840);
        let (mut nodes, mut worst) = (vec![world.mortal(quota)], 0);
        let sum = |nodes: &[(Node, _)]| {
            nodes.iter().map(|(node, _)| sum(core::slice::from_ref(node))).sum::<u64>()
        };
        for _ in 0..600 {
            sleep(world.rng.within(1..INTERVAL / 5)).await;
            match world.rng.within(0..100) {
                0..3 if nodes.len() < 8 => nodes.push(world.mortal(quota)),
                3 if nodes.len() > 1 => drop(nodes.swap_remove(0)),
                4 => world.members.forget_all(),
                _ => {}
            }
            worst = worst.max(sum(&nodes));
        }
        nodes.iter().for_each(|(_, lost)| lost.set(0));
        sleep(8 * INTERVAL).await;
        (worst, sum(&nodes))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn parts_never_sum_to_more_than_the_quota(
        seed: u64,
        latency in 1..INTERVAL / 4,
        lost in prop_oneof![Just(0_u64), Just(100), Just(400)],
    ) {
        let (worst, end) = sums(seed, latency, lost, false);
        prop_assert!(worst <= 840, "{} of 840", worst);
        prop_assert_eq!(end, 840, "the whole quota is used without faults");
    }
}

#[test]
fn the_test_would_notice_newcomers_that_do_not_wait() {
    let exceeds = |seed: &u64| sums(*seed, MILLI, 0, true).0 > 840;
    let count = (0..20).filter(exceeds).count();
    assert!(count >= 15, "only {count} of 20");
}

#[test]
fn a_dead_nodes_part_is_unused_for_four_intervals_at_most() {
    simulate(async {
        let mut world = World::new(3, 2 * MILLI, 0);
        let quota = Quota::per_second(840);
        let nodes: Vec<_> = (0..4).map(|_| world.node(quota)).collect();
        let (dead, lost) = world.mortal(quota);
        sleep(5 * INTERVAL).await;
        assert!(nodes.iter().all(|node| node.stats().live == Some(5)));
        assert_eq!(sum(&nodes) + sum(core::slice::from_ref(&dead)), 840);
        lost.set(1_000);
        sleep(3 * INTERVAL - 10 * MILLI).await;
        assert_eq!(dead.stats().live, None, "it stopped before others count it as dead");
        sleep(INTERVAL + 20 * MILLI).await;
        assert!(nodes.iter().all(|node| node.stats().live == Some(4)));
        // A node that ends in order leaves the list within an interval; the others learn of it in the next.
        let mut nodes = nodes;
        drop(nodes.pop());
        sleep(2 * INTERVAL + 20 * MILLI).await;
        assert!(nodes.iter().all(|node| node.stats().live == Some(3)));
    });
}

/// While the same nodes are alive, no span sees more than the burst and the rate.
#[test]
fn all_nodes_together_grant_the_quota() {
    simulate(async {
        let mut world = World::new(5, MILLI, 0);
        let quota = Quota::per_second(100).burst(40);
        let nodes: Vec<_> = (0..4).map(|_| world.node(quota)).collect();
        assert!(nodes[0].check(b"a").decision.is_err(), "no node has counted it yet");
        assert_eq!(nodes[0].check(b"a").origin, Origin::Fallback);
        sleep(5 * INTERVAL).await;
        // The nodes' time is slowed down: a second of theirs is a millisecond.
        let (mut granted, begun) = (0, world.real.nanos());
        for _ in 0..5_000 {
            sleep(MILLI / 500).await;
            granted += nodes.iter().filter(|node| node.check(b"a").decision.is_ok()).count();
        }
        let max = 40 + 100 * (world.real.nanos() - begun) * u64::from(SLOWER) / SECOND;
        let granted = granted as u64;
        assert!((max * 95 / 100..=max).contains(&granted), "{granted} of {max}");
    });
}

#[test]
fn a_node_without_heartbeats_stops_in_time_or_uses_the_chosen_part() {
    struct Fails;
    impl Membership for Fails {
        async fn heartbeat(&self, _: &str, _: Duration) -> Result<Heartbeat, Unavailable> {
            Err(Unavailable::CircuitOpen)
        }
    }
    simulate(async {
        let quota = Quota::per_hour(100);
        let node = Share::builder(Fails, quota).build().expect("in range");
        assert!(node.check(b"a").decision.is_err());
        let node = Share::builder(Fails, quota)
            .without_part(WithoutPart::DivideBy(10))
            .build()
            .expect("in range");
        let granted = (0..100).filter(|_| node.check(b"a").decision.is_ok()).count();
        assert_eq!(granted, 10);
        tokio::time::sleep(Duration::from_secs(10)).await;
        let stats = node.stats();
        assert_eq!((stats.live, stats.heartbeats, stats.without_part), (None, 0, 100));
        assert!((40..=41).contains(&stats.failed), "every quarter of an interval: {stats:?}");
        let zero = Share::builder(Fails, quota).without_part(WithoutPart::DivideBy(0)).build();
        assert_eq!(zero.unwrap_err(), ShareError::WithoutPart);
    });
}
