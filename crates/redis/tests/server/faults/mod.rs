//! Faults drawn from a seed, each on servers of its own under load. The granted cells keep the bound
//! that is stated for the fault.
//!
//! | file | content |
//! |---|---|
//! | `strategy.rs` | the limiters under load, and what each may grant |
//! | `load.rs` | the requests, and the granted cells |
//! | `../../bodies/spans.rs` | the worst span of the granted cells |
//! | `topology.rs` | server, replica and links of one episode |
//! | `fault.rs` | the faults, and what each may add |
//! | `observed_membership.rs` | the cells that nodes add which come or go |
//! | `table.rs` | worst granted against bound, for each kind of fault |
//!
//! `TOLLGATE_FAULTS` is the number of faults, a dozen by default. `TOLLGATE_FAULTS_SEED` draws
//! other faults. `TOLLGATE_FAULTS_STRATEGY` (for example `Share`) selects one limiter, and
//! `TOLLGATE_FAULTS_KIND` (for example `ServerClock`) one kind of fault. `ci/check.sh faults` runs
//! hundreds of faults on each server that it finds.

mod fault;
mod load;
mod observed_membership;
#[path = "../../bodies/spans.rs"]
mod spans;
mod strategy;
mod table;
mod topology;

use core::ops::Range;
use std::time::{Duration, Instant};

use fault::{KINDS, Kind};
use load::Load;
use observed_membership::Change;
use spans::Span;
use strategy::{Client, Strategy};
use table::Table;
use topology::Topology;

use crate::workers::runtime;

/// How long one key is asked for, by clients that ask in rounds.
const ROUND: Duration = Duration::from_millis(60);
const FAULTS: u32 = 12;
const SEED: u64 = 8;
/// A server that is back must answer each client within this time.
const RECOVERY_MAX: Duration = Duration::from_secs(60);

/// A pseudo-random generator.
pub(crate) struct Rng(u64);

impl Rng {
    fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from `first` to `last`, both included.
    pub(crate) fn within(&mut self, first: u64, last: u64) -> u64 {
        first + self.draw() % (last - first + 1)
    }

    pub(crate) fn millis(&mut self, first: u64, last: u64) -> Duration {
        Duration::from_millis(self.within(first, last))
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        let last = u64::try_from(all.len() - 1).expect("few");
        all[usize::try_from(self.within(0, last)).expect("few")]
    }
}

/// The result of an episode.
pub(crate) struct Outcome {
    /// The span that was closest to its bound.
    worst: Span,
    /// Whether more was granted than is allowed without a fault.
    used_its_extra: bool,
    /// How many keys were asked for, each starting with its whole burst, and how many spans were
    /// checked.
    keys: u64,
    spans: u64,
}

/// Injects one fault under load.
fn episode(kind: Kind, strategy: Strategy, seed: u64) -> Option<Outcome> {
    let mut rng = Rng(seed);
    let mut topology = Topology::set(kind)?;
    let runtime = runtime(2);
    let entered = runtime.enter();
    let clients = strategy.clients(&topology);
    let load = Load::start(&runtime, &clients, ROUND);
    std::thread::sleep(rng.millis(20, 150));
    let extra = kind.inject(strategy, &mut topology, &clients, &mut rng);
    for client in &clients {
        let began = Instant::now();
        while !runtime.block_on(client.is_answered()) {
            assert!(
                began.elapsed() < RECOVERY_MAX,
                "{kind:?}, {strategy:?}, {seed}: the server is not asked"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    std::thread::sleep(rng.millis(150, 300));
    let began = load.began;
    let granted = load.end(&runtime);
    let changes: Vec<_> = clients.iter().flat_map(Client::changes).collect();
    drop((clients, entered));
    runtime.shutdown_background();
    let quota =
        |span: &Range<u64>| strategy.bound(span.end - span.start) + within(&changes, began, span);
    let worst = spans::worst(&granted, |span| quota(span) + extra);
    let used_its_extra = spans::worst(&granted, quota).is_beyond();
    let millis = |at: Instant| at.saturating_duration_since(began).as_millis();
    let changed = |its: &Change| (millis(its.received), its.done.map(millis), its.cells);
    let changes: Vec<_> = changes.iter().map(changed).collect();
    let summary =
        format!("{kind:?}, {strategy:?}, seed {seed}: {worst:?}, {extra} for it, {changes:?}");
    assert!(!worst.is_beyond(), "{summary}");
    assert!(!granted.is_empty(), "{summary}");
    let (keys, spans) = spans::looked_at(&granted);
    Some(Outcome { worst, used_its_extra, keys, spans })
}

/// The cells that nodes which came or went have added within a span.
fn within(changes: &[Change], began: Instant, span: &Range<u64>) -> u64 {
    let [first, last] = [span.start, span.end].map(|at| began + Duration::from_micros(at));
    let within = changes.iter().filter(|change| change.may_be_within(first, last));
    within.map(|change| change.cells).sum()
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is a whole number, not {text:?}")))
}

/// Granted: in any span, the strategy's bound plus what `fault.rs` states for the fault.
#[test]
fn faults_keep_their_bounds() {
    if !topology::is_there() {
        return;
    }
    let count = number("TOLLGATE_FAULTS").unwrap_or(FAULTS.into());
    let seed = number("TOLLGATE_FAULTS_SEED").unwrap_or(SEED);
    let only = std::env::var("TOLLGATE_FAULTS_STRATEGY").ok();
    let only_kind = std::env::var("TOLLGATE_FAULTS_KIND").ok();
    let is_meant = |kind: &Kind| only_kind.as_ref().is_none_or(|name| *name == format!("{kind:?}"));
    let kinds: Vec<_> = KINDS.into_iter().filter(is_meant).collect();
    assert!(!kinds.is_empty(), "TOLLGATE_FAULTS_KIND is one of {KINDS:?}");
    let mut table = Table::default();
    for index in 0..count {
        let kind = kinds[usize::try_from(index).expect("few") % kinds.len()];
        let seed = seed.wrapping_mul(1_000_003).wrapping_add(index);
        let is_meant =
            |strategy: &Strategy| only.as_ref().is_none_or(|name| *name == format!("{strategy:?}"));
        let strategies: Vec<_> = kind.strategies().iter().copied().filter(is_meant).collect();
        if strategies.is_empty() {
            continue;
        }
        let strategy = Rng(!seed).one_of(&strategies);
        match episode(kind, strategy, seed) {
            Some(outcome) => table.add(kind, &outcome),
            None => table.skip(kind),
        }
    }
    println!("{table}");
    if only.is_none() && table.count(Kind::Kill) >= 10 {
        assert!(
            table.used_extra(Kind::Kill) > 0,
            "a load that does not use a fresh burst shows little"
        );
    }
}

/// Granted: twice the bound, by processes that share nothing. The test above notices such an
/// excess.
#[test]
fn processes_that_do_not_share_are_noticed() {
    let Some(topology) = Topology::set(Kind::Delay) else { return };
    let runtime = runtime(2);
    let entered = runtime.enter();
    for strategy in Strategy::ALL {
        // A busy machine needs longer to ask for so much, and longer rounds for that.
        let mut seen = Vec::new();
        for times in [1, 2, 4, 8] {
            let clients = ["one", "other"].map(|name| {
                strategy.client(&topology.link, &format!("{name}-{strategy:?}-{times}"))
            });
            let load = Load::start(&runtime, &clients, times * ROUND);
            std::thread::sleep(times * Duration::from_millis(1_500));
            let granted = load.end(&runtime);
            seen.push(spans::worst(&granted, |span| strategy.bound(span.end - span.start)));
            if seen.last().is_some_and(Span::is_beyond) {
                break;
            }
        }
        assert!(seen.last().is_some_and(Span::is_beyond), "{strategy:?}: {seen:?}");
    }
    drop(entered);
    runtime.shutdown_background();
}
