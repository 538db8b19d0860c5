//! The faults of `tests/server/faults/` in virtual time: nodes under load, tasks that are starved
//! at any moment, and a server whose clock is set back. The nodes are those that ship. No span of a
//! key may see more than the burst, the rate, and what nodes add that come or go within it.
//!
//! The file was written to explain one span of a run on a real server, which
//! `docs/distributed-evidence.md` describes: 208 cells in 55 ms where 205 was the computed bound. It
//! ruled two explanations out.
//!
//! - Tasks that are starved for up to 120 ms. None of 500 episodes, half of them with such tasks,
//!   was beyond the bound; 37 were beyond it when no coming and going was counted.
//! - A single reading of the server's clock that is 316 ms ahead. That heartbeat finds its own node
//!   too old and takes it for new, and the node waits.
//!
//! A part grows 50 ms or more after the other node's part has ended. An excess of a few cells in 50
//! to 60 ms is therefore what an uncounted coming or going looks like.

#![allow(clippy::disallowed_types, reason = "a test's server may have a lock")]

use core::time::Duration;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tollgate::{Clock, Quota};

use super::*;
use crate::lease::simulation::{Local, MICRO, MILLI, Rng, SECOND, SLOWER, simulate, sleep};
use crate::share::tests::Slowed;
use crate::unavailable::Unavailable;

#[allow(dead_code, reason = "the models share this file")]
#[path = "../../tests/bodies/membership.rs"]
mod membership;
#[allow(dead_code, reason = "the fault tests share this file")]
#[path = "../../tests/bodies/spans.rs"]
mod spans;

use membership::Member;
use spans::{Granted, Span};

const NODES: usize = 2;
const TASKS_EACH: usize = 2;
const RATE: u64 = 100;
const BURST: u64 = 200;
/// In simulated time, as are all durations below.
const INTERVAL: u64 = 50 * MILLI;
const LASTS: u64 = SECOND;
/// How long one key is asked for: long enough to see a node go and another's part grow.
const ROUND: u64 = 150 * MILLI;
const DEADLINE: u64 = 60 * MILLI;

/// The faults of an episode.
#[derive(Clone, Copy, Debug)]
struct Faults {
    /// The longest starvation of a task, which happens one time in twenty.
    starved: u64,
    /// Lost heartbeats in a thousand, and lost answers in a thousand.
    lost_per_mille: u64,
    /// The longest time that a node is cut off.
    cut_off: u64,
    /// The largest step by which the server's clock is set back.
    back: u64,
}

/// Cells that a node has in addition, because it came or another node went.
#[derive(Clone, Copy, Debug)]
struct Change {
    received: u64,
    /// When the node had applied the change, known once its next heartbeat begins.
    done: Option<u64>,
    cells: u64,
}

#[derive(Debug, Default)]
struct List {
    places: [Option<Member>; NODES],
    /// How far the server's clock is behind.
    behind_micros: u64,
    /// Until when each node is cut off.
    cut_off_until: [u64; NODES],
}

/// The list as a node reaches it, which records what the heartbeats report.
struct Listened {
    node: usize,
    list: Arc<Mutex<List>>,
    changes: Arc<Mutex<Vec<Change>>>,
    /// When the part ends, and by how many nodes the quota was divided.
    part: Mutex<(u64, u64)>,
    real: Local,
    rng: Mutex<Rng>,
    faults: Faults,
}

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn starved(rng: &Mutex<Rng>, max: u64) -> u64 {
    let mut rng = lock(rng);
    if rng.within(0..20) == 0 { rng.within(0..max + 1) } else { 0 }
}

impl Listened {
    fn micros(&self) -> u64 {
        self.real.nanos() / MICRO
    }

    fn is_lost(&self) -> bool {
        self.micros() < lock(&self.list).cut_off_until[self.node]
            || lock(&self.rng).within(0..1_000) < self.faults.lost_per_mille
    }

    async fn ask(&self, lifetime: u64) -> Result<(u64, u64), Unavailable> {
        let latency = lock(&self.rng).within(100 * MICRO..MILLI);
        sleep(latency).await;
        if self.is_lost() {
            sleep(DEADLINE).await;
            return Err(Unavailable::TimedOut);
        }
        let heartbeat = {
            let mut list = lock(&self.list);
            // An hour into its clock, so the clock can go back.
            let now = 3_600_000_000 + self.micros() - list.behind_micros;
            membership::heartbeat(&mut list.places, self.node, now, lifetime)
        };
        sleep(latency).await;
        if self.is_lost() {
            sleep(DEADLINE).await;
            return Err(Unavailable::TimedOut);
        }
        Ok(heartbeat)
    }

    /// As `tests/server/faults/observed_membership.rs` does.
    fn record_answer(&self, live: u64, sent: u64) {
        let mut part = lock(&self.part);
        let (until, before) = *part;
        let kept = if self.micros() >= until { 0 } else { BURST / before };
        *part = (sent + 2 * INTERVAL / MICRO, live);
        let cells = (BURST / live).saturating_sub(kept);
        lock(&self.changes).push(Change { received: self.micros(), done: None, cells });
    }
}

impl Membership for Listened {
    async fn heartbeat(&self, _: &str, lifetime: Duration) -> Result<Heartbeat, Unavailable> {
        if let Some(last) = lock(&self.changes).last_mut() {
            let paused = self.micros().saturating_sub(INTERVAL / MICRO);
            last.done.get_or_insert(paused.max(last.received));
        }
        sleep(starved(&self.rng, self.faults.starved)).await;
        let sent = self.micros();
        let lifetime = u64::try_from((lifetime / SLOWER).as_micros()).expect("short");
        let (live, member_micros) = self.ask(lifetime).await?;
        if member_micros >= 2 * INTERVAL / MICRO {
            self.record_answer(live, sent);
        }
        // The node applies the answer when the task continues.
        sleep(starved(&self.rng, self.faults.starved)).await;
        Ok(Heartbeat { live, member_for: Duration::from_micros(member_micros) * SLOWER })
    }

    async fn leave(&self, _: &str) -> Result<(), Unavailable> {
        Ok(())
    }
}

type Node = Share<Listened, Slowed>;

/// Asks until the end of the episode.
async fn load(node: Node, real: Local, seed: u64, max_starved: u64) -> Vec<Granted> {
    let rng = Mutex::new(Rng::new(seed));
    let mut granted = Vec::new();
    while real.nanos() < LASTS {
        let (now, asked) = (Slowed(real).now(), real.nanos() / MICRO);
        let round = asked / (ROUND / MICRO);
        sleep(starved(&rng, max_starved)).await;
        if node.check_at(&round.to_be_bytes(), 1, now).decision.is_ok() {
            sleep(starved(&rng, max_starved)).await;
            granted.push(Granted { round, asked, answered: real.nanos() / MICRO });
        }
        let pause = lock(&rng).within(20 * MICRO..200 * MICRO);
        sleep(pause).await;
    }
    granted
}

/// The cells granted in an episode, and the nodes that came and went.
fn episode(seed: u64, faults: Faults) -> (Vec<Granted>, Vec<Change>) {
    simulate(async move {
        let (mut rng, real) = (Rng::new(seed), Local::real());
        let list = Arc::new(Mutex::new(List::default()));
        let (mut tasks, mut changes) = (Vec::new(), Vec::new());
        // The nodes' time is slowed down: a second of theirs is a millisecond.
        let quota = Quota::new(RATE, Duration::from_secs(1) * SLOWER).burst(BURST);
        for node in 0..NODES {
            let its_changes = Arc::<Mutex<Vec<_>>>::default();
            changes.push(Arc::clone(&its_changes));
            let membership = Listened {
                node,
                list: Arc::clone(&list),
                changes: its_changes,
                part: Mutex::new((0, 1)),
                real,
                rng: Mutex::new(Rng::new(rng.draw())),
                faults,
            };
            let share = Share::builder(membership, quota).clock(Slowed(real)).capacity(1_000);
            let share = share.interval(Duration::from_nanos(INTERVAL) * SLOWER).build();
            let share = share.expect("in range");
            for _ in 0..TASKS_EACH {
                let load = load(share.clone(), real, rng.draw(), faults.starved);
                tasks.push(tokio::spawn(load));
            }
        }
        while real.nanos() < LASTS {
            sleep(rng.within(100 * MILLI..300 * MILLI)).await;
            let mut list = lock(&list);
            let node = usize::from(rng.within(0..2) == 0);
            list.cut_off_until[node] = (real.nanos() + rng.within(0..faults.cut_off + 1)) / MICRO;
            list.behind_micros += rng.within(0..faults.back / MICRO + 1);
        }
        let mut granted = Vec::new();
        for task in tasks {
            granted.extend(task.await.expect("no panic"));
        }
        (granted, changes.iter().flat_map(|its| lock(its).clone()).collect())
    })
}

/// The span that is closest to its bound, or furthest beyond it. With `is_added`, nodes that come
/// or go within a span add their part of the burst to its bound.
fn worst(granted: &[Granted], changes: &[Change], is_added: bool) -> Span {
    spans::worst(granted, |span| {
        let within = |change: &&Change| {
            change.received <= span.end && change.done.is_none_or(|done| span.start <= done)
        };
        let added = changes.iter().filter(within).map(|change| change.cells).sum::<u64>();
        let added = if is_added { added } else { 0 };
        BURST + RATE * (span.end - span.start) / 1_000_000 + added
    })
}

/// Every episode sets the server's clock back and cuts nodes off. Half of the episodes starve
/// tasks, and two thirds lose messages.
fn drawn(seed: u64) -> Faults {
    let mut rng = Rng::new(!seed);
    let starved = [0, 120 * MILLI][usize::from(rng.within(0..2) == 0)];
    let lost_per_mille = [0, 100, 300][usize::try_from(rng.within(0..3)).expect("few")];
    Faults { starved, lost_per_mille, cut_off: 300 * MILLI, back: 400 * MILLI }
}

/// `TOLLGATE_EPISODES` is the number of episodes: 1,800 of them check 11,573 keys.
#[test]
fn no_span_exceeds_its_bound_when_the_servers_clock_is_set_back() {
    let episodes = std::env::var("TOLLGATE_EPISODES").ok();
    let episodes = episodes.map_or(24, |text| text.parse().expect("a whole number"));
    let (mut keys, mut looked_at, mut closest) = (0, 0, Span { granted: 0, bound: 1, micros: 0 });
    for seed in 0..episodes {
        let (granted, changes) = episode(seed, drawn(seed));
        let span = worst(&granted, &changes, true);
        assert!(!span.is_beyond(), "seed {seed}: {span:?}, {changes:?}");
        let (its_keys, its_spans) = spans::looked_at(&granted);
        (keys, looked_at) = (keys + its_keys, looked_at + its_spans);
        if span.is_closer_than(&closest) {
            closest = span;
        }
    }
    println!("{episodes} episodes, {keys} keys, {looked_at} spans; closest {closest:?}");
    assert!(closest.granted + 4 >= closest.bound, "too little load: {closest:?}");
}

/// The mistake: nodes that come or go are not counted. The test above would notice such an excess.
#[test]
fn spans_exceed_a_bound_that_ignores_nodes_that_come_or_go() {
    let is_beyond = |seed: &u64| {
        let (granted, changes) = episode(*seed, drawn(*seed));
        worst(&granted, &changes, false).is_beyond()
    };
    let found = (20..40).find(is_beyond);
    assert!(found.is_some());
}
