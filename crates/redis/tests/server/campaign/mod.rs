//! Faults drawn from a seed, each on a server of its own under load; what is granted keeps the bound
//! that is stated for the fault.
//!
//! | file | what |
//! |---|---|
//! | `way.rs` | the limiters under load, and what each may grant |
//! | `load.rs` | who asks, and what was granted |
//! | `../../bodies/spans.rs` | the worst span of what was granted |
//! | `scene.rs` | server, replica and link of one episode |
//! | `fault.rs` | what happens to them, and what it may add |
//! | `watched.rs` | what comings and goings of nodes add |
//! | `table.rs` | worst granted against bound, by kind of fault |
//!
//! `TOLLGATE_FAULTS` is how many faults there are, a dozen unless said; `TOLLGATE_FAULTS_SEED` draws
//! others, `TOLLGATE_FAULTS_WAY` (say `Share`) is the one limiter that they happen to, and
//! `TOLLGATE_FAULTS_KIND` (say `ServerClock`) the one kind. `ci/check.sh faults` runs hundreds on each server that
//! it finds.

mod fault;
mod load;
mod scene;
#[path = "../../bodies/spans.rs"]
mod spans;
mod table;
mod watched;
mod way;

use core::ops::Range;
use std::time::{Duration, Instant};

use fault::{KINDS, Kind};
use load::Load;
use scene::Scene;
use spans::Span;
use table::Table;
use watched::Change;
use way::{Client, Way};

use crate::workers::runtime;

const FAULTS: u32 = 12;
const SEED: u64 = 8;
/// A server that is back must be asked again by then.
const RECOVERY_MAX: Duration = Duration::from_secs(10);

/// A source of numbers that look random.
pub(crate) struct Numbers(u64);

impl Numbers {
    fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From the first to the last.
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

/// What an episode came to.
pub(crate) struct Outcome {
    /// The span that was closest to its bound.
    worst: Span,
    /// Whether it was beyond what may be granted without a fault.
    used_its_extra: bool,
    /// How many keys were asked for, each from its whole burst on, and how many spans were looked at.
    keys: u64,
    spans: u64,
}

/// One fault under load.
fn episode(kind: Kind, way: Way, seed: u64) -> Option<Outcome> {
    let mut numbers = Numbers(seed);
    let mut scene = Scene::set(kind)?;
    let runtime = runtime(2);
    let entered = runtime.enter();
    let clients = way.clients(&scene);
    let load = Load::start(&runtime, &clients);
    std::thread::sleep(numbers.millis(20, 150));
    let extra = kind.happen(way, &mut scene, &clients, &mut numbers);
    for client in &clients {
        let began = Instant::now();
        while !runtime.block_on(client.is_answered()) {
            assert!(began.elapsed() < RECOVERY_MAX, "{kind:?}, {way:?}, {seed}: nobody asks it");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    std::thread::sleep(numbers.millis(150, 300));
    let began = load.began;
    let granted = load.end(&runtime);
    let changes: Vec<_> = clients.iter().flat_map(Client::changes).collect();
    drop((clients, entered));
    runtime.shutdown_background();
    let quota =
        |span: &Range<u64>| way.bound(span.end - span.start) + within(&changes, began, span);
    let worst = spans::worst(&granted, |span| quota(span) + extra);
    let used_its_extra = spans::worst(&granted, quota).is_beyond();
    let millis = |at: Instant| at.saturating_duration_since(began).as_millis();
    let changed = |its: &Change| (millis(its.told), its.done.map(millis), its.cells);
    let changes: Vec<_> = changes.iter().map(changed).collect();
    let told = format!("{kind:?}, {way:?}, seed {seed}: {worst:?}, {extra} for it, {changes:?}");
    assert!(!worst.is_beyond(), "{told}");
    assert!(!granted.is_empty(), "{told}");
    let (keys, spans) = spans::looked_at(&granted);
    Some(Outcome { worst, used_its_extra, keys, spans })
}

/// What comings and goings have added within a span.
fn within(changes: &[Change], began: Instant, span: &Range<u64>) -> u64 {
    let [first, last] = [span.start, span.end].map(|at| began + Duration::from_micros(at));
    let within = changes.iter().filter(|change| change.may_be_within(first, last));
    within.map(|change| change.cells).sum()
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is a whole number, not {text:?}")))
}

/// Granted: the bound of the way, and what `fault.rs` states for the fault, in any span.
#[test]
fn faults_keep_their_bounds() {
    if !scene::is_there() {
        return;
    }
    let count = number("TOLLGATE_FAULTS").unwrap_or(FAULTS.into());
    let seed = number("TOLLGATE_FAULTS_SEED").unwrap_or(SEED);
    let only = std::env::var("TOLLGATE_FAULTS_WAY").ok();
    let only_kind = std::env::var("TOLLGATE_FAULTS_KIND").ok();
    let is_meant = |kind: &Kind| only_kind.as_ref().is_none_or(|name| *name == format!("{kind:?}"));
    let kinds: Vec<_> = KINDS.into_iter().filter(is_meant).collect();
    assert!(!kinds.is_empty(), "TOLLGATE_FAULTS_KIND is one of {KINDS:?}");
    let mut table = Table::default();
    for index in 0..count {
        let kind = kinds[usize::try_from(index).expect("few") % kinds.len()];
        let seed = seed.wrapping_mul(1_000_003).wrapping_add(index);
        let is_meant = |way: &Way| only.as_ref().is_none_or(|name| *name == format!("{way:?}"));
        let ways: Vec<_> = kind.ways().iter().copied().filter(is_meant).collect();
        if ways.is_empty() {
            continue;
        }
        let way = Numbers(!seed).one_of(&ways);
        match episode(kind, way, seed) {
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

/// Granted: twice the bound, by processes that share nothing. So the campaign notices that.
#[test]
fn processes_that_do_not_share_are_noticed() {
    let Some(scene) = Scene::set(Kind::Delay) else { return };
    let runtime = runtime(2);
    let entered = runtime.enter();
    for way in Way::ALL {
        let clients =
            ["one", "other"].map(|name| way.client(&scene.link, &format!("{name}-{way:?}")));
        let load = Load::start(&runtime, &clients);
        std::thread::sleep(Duration::from_millis(1_500));
        let granted = load.end(&runtime);
        let worst = spans::worst(&granted, |span| way.bound(span.end - span.start));
        assert!(worst.is_beyond(), "{way:?}: {worst:?}");
    }
    drop(entered);
    runtime.shutdown_background();
}
