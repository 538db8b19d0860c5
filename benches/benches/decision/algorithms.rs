//! Each algorithm: admissions, denials and peeks, with each clock, compared with the floors.

use std::hint::black_box;
use std::time::Duration;

use tollgate::algorithm::Algorithm;
use tollgate::clock::{CoarseClock, QuantaClock, TieredClock};
use tollgate::{
    Clock, Direct, FixedWindow, Gcra, LeakyQueue, Limiter, Quota, SlidingCounter, SlidingLog,
    SubWindows, Tick, WarmUp,
};
use tollgate_benches::floor::{Cell, Words};
use tollgate_benches::keys;
use tollgate_benches::options::Options;
use tollgate_benches::report::{compared, table};
use tollgate_benches::rounds::{Row, Turn, compare};

use super::{DECISIONS, bare, bare_at, own_clock, time_given};

/// The number of decisions after which the bench refreshes its coarse clock.
const REFRESH: usize = 1_024;
/// The keys, which are used in turn.
const KEYS: usize = 1_000;
/// The step between two given times.
const STEP_NANOS: u64 = 16;

/// An algorithm, and quotas that admit every request.
#[derive(Clone, Copy)]
struct Case<A> {
    name: &'static str,
    algorithm: A,
    /// The quota of one bucket.
    roomy: Quota,
    /// The quota of each of many keys.
    roomy_key: Quota,
}

/// Every bucket is empty, every window full, for the next day.
const FULL: Quota = Quota::per_day(1);

/// Every algorithm.
pub(super) fn all(options: &Options) {
    // Always in debt, and never at its limit.
    let bucket = Quota::per_second(100_000).burst(4_000_000_000);
    // Ends every second (or every six) of the clock, and has room for all.
    let window = Quota::per_second(500_000_000);
    let sub_windows = Quota::new(250_000_000, Duration::from_secs(6));
    // A quarter is asked for in the window; by a coarse clock, up to a third at the same instant.
    let log = |limit: u64, share: u64| {
        Quota::new(limit, Duration::from_nanos(limit / 4 * share * STEP_NANOS))
    };
    let warm_up = WarmUp::new(Duration::from_millis(10)).max_wait(Duration::from_secs(1_000));
    one(options, Case::new("Gcra", Gcra::new(), bucket));
    one(options, Case::new("LeakyQueue", LeakyQueue::new(), bucket));
    one(options, Case::new("WarmUp", warm_up, Quota::per_second(100_000)));
    one(options, Case::new("FixedWindow, anchored", FixedWindow::anchored(), window));
    one(options, Case::new("FixedWindow, aligned", FixedWindow::aligned(), window));
    one(options, Case::new("SubWindows", SubWindows::new(), sub_windows));
    one(options, Case::new("SlidingCounter", SlidingCounter::new(), sub_windows));
    let roomy_key = log(100, KEYS as u64);
    let case = Case::new("SlidingLog", SlidingLog::new(), log(10_000, 1));
    one(options, Case { roomy_key, ..case });
}

impl<A: Algorithm + Copy> Case<A> {
    fn new(name: &'static str, algorithm: A, roomy: Quota) -> Self {
        Self { name, algorithm, roomy, roomy_key: roomy }
    }

    fn buckets<C: Clock>(&self, clock: impl Fn() -> C) -> Pair<Direct<A, C>> {
        let gate = |quota| {
            let gate = Direct::builder(black_box(quota)).algorithm(self.algorithm).clock(clock());
            gate.build().expect("in range")
        };
        let pair = Pair { roomy: gate(self.roomy), full: gate(FULL) };
        while pair.full.check().is_ok() {}
        pair
    }

    fn many(&self, sequence: &[u64]) -> Pair<Limiter<u64, A>> {
        let gate = |quota| {
            let gate = Limiter::builder(black_box(quota)).algorithm(self.algorithm);
            gate.capacity(KEYS as u64).build().expect("in range")
        };
        let pair = Pair { roomy: gate(self.roomy_key), full: gate(FULL) };
        for key in sequence {
            assert!(pair.roomy.check(key).is_ok(), "a fresh key has a cell");
            while pair.full.check(key).is_ok() {}
        }
        pair
    }
}

/// Runs `decide` with a clock that is refreshed from time to time.
#[inline]
fn coarse_clock(turn: Turn, clock: &CoarseClock, mut decide: impl FnMut() -> bool) -> usize {
    let mut admitted = 0;
    let mut left = turn.decisions;
    while left > 0 {
        clock.refresh();
        let decisions = left.min(REFRESH);
        admitted += own_clock(Turn { decisions, ..turn }, &mut decide);
        left -= decisions;
    }
    admitted
}

/// Runs `decide` on the keys in turn, at times that advance.
#[inline]
fn in_turn(turn: Turn, sequence: &[u64], mut decide: impl FnMut(u64, u64) -> bool) -> usize {
    let mut keys = sequence.iter().cycle();
    time_given(turn, |now| decide(*keys.next().expect("endless"), now))
}

/// Like [`in_turn`], for a floor.
#[inline]
fn bare_in_turn<T>(turn: Turn, sequence: &[u64], mut read: impl FnMut(u64, u64) -> T) {
    let mut keys = sequence.iter().cycle();
    bare_at(turn, |now| read(*keys.next().expect("endless"), now));
}

fn one<A>(options: &Options, case: Case<A>)
where
    A: Algorithm + Copy + Sync,
{
    let coarse = CoarseClock::new();
    let sequence: Vec<u64> = (0..KEYS).map(keys::key).collect();
    let buckets = Buckets {
        own: case.buckets(QuantaClock::new),
        coarse: case.buckets(|| coarse.clone()),
        tiered: case.buckets(|| TieredClock::new(coarse.clone())),
        given: case.buckets(QuantaClock::new),
    };
    let [own, given] = [(); 2].map(|()| case.many(&sequence));
    let mut rows = floors(&coarse, &sequence);
    rows.extend(buckets.admit_and_deny(&coarse));
    rows.extend(buckets.peek(&coarse));
    rows.extend(many(&own, &given, &sequence));
    let figures = compare(options, DECISIONS, &rows);
    table(&format!("{}, one thread", case.name), &figures);
    let pairs = [
        ["admit, own clock", "clock read + CAS loop"],
        ["deny, own clock", "clock read"],
        ["admit, coarse clock", "CAS loop"],
        ["admit, TieredClock", "CAS loop"],
        ["admit, time given", "CAS loop"],
        ["1,000 keys, admit, own clock", "hash + line load + clock read + CAS loop"],
        ["1,000 keys, admit, time given", "hash + line load + CAS loop"],
        ["1,000 keys, deny, time given", "hash + line load"],
    ];
    for pair in pairs {
        compared(case.name, &figures, pair);
    }
    println!();
}

/// The parts of a decision, and all of them together.
fn floors<'a>(coarse: &'a CoarseClock, sequence: &'a [u64]) -> Vec<Row<'a>> {
    let clock = QuantaClock::new();
    let (cell, timed_cell) = (Cell::default(), Cell::default());
    let [hashed, loaded, charged, timed] = [(); 4].map(|()| Words::new(KEYS));
    let cost = || black_box(10_000);
    let read_clock = clock.clone();
    let key_clock = clock.clone();
    vec![
        Row::floor("clock read", 1, move |turn| bare(turn, || read_clock.now())),
        Row::floor("coarse clock read", 1, move |turn| bare(turn, || coarse.now())),
        Row::floor("CAS loop", 1, move |turn| bare_at(turn, |now| cell.charge(now, cost()))),
        Row::floor("clock read + CAS loop", 1, move |turn| {
            bare(turn, || timed_cell.charge(clock.now().as_nanos(), cost()));
        }),
        Row::floor("hash", 1, move |turn| bare_in_turn(turn, sequence, |key, _| hashed.hash(key))),
        Row::floor("hash + line load", 1, move |turn| {
            bare_in_turn(turn, sequence, |key, _| loaded.load(key));
        }),
        Row::floor("hash + line load + CAS loop", 1, move |turn| {
            bare_in_turn(turn, sequence, |key, now| charged.charge(key, now, cost()));
        }),
        Row::floor("hash + line load + clock read + CAS loop", 1, move |turn| {
            bare_in_turn(turn, sequence, |key, _| {
                timed.charge(key, key_clock.now().as_nanos(), cost())
            });
        }),
    ]
}

/// A limiter with room, and a full one.
struct Pair<G> {
    roomy: G,
    full: G,
}

/// One bucket for each clock.
struct Buckets<A: Algorithm> {
    own: Pair<Direct<A>>,
    coarse: Pair<Direct<A, CoarseClock>>,
    tiered: Pair<Direct<A, TieredClock>>,
    given: Pair<Direct<A>>,
}

impl<A: Algorithm + Sync> Buckets<A> {
    fn admit_and_deny<'a>(&'a self, clock: &'a CoarseClock) -> [Row<'a>; 8] {
        let Self { own, coarse, tiered, given } = self;
        let at = Tick::from_nanos;
        [
            Row::new("admit, own clock", 1, |turn| own_clock(turn, || own.roomy.check().is_ok())),
            Row::new("admit, coarse clock", 1, |turn| {
                coarse_clock(turn, clock, || coarse.roomy.check().is_ok())
            }),
            Row::new("admit, TieredClock", 1, |turn| {
                coarse_clock(turn, clock, || tiered.roomy.check().is_ok())
            }),
            Row::new("admit, time given", 1, move |turn| {
                time_given(turn, |now| given.roomy.ask().at(at(now)).check().is_ok())
            }),
            Row::new("deny, own clock", 1, |turn| own_clock(turn, || own.full.check().is_ok())),
            Row::new("deny, coarse clock", 1, |turn| {
                coarse_clock(turn, clock, || coarse.full.check().is_ok())
            }),
            Row::new("deny, TieredClock", 1, |turn| {
                coarse_clock(turn, clock, || tiered.full.check().is_ok())
            }),
            Row::new("deny, time given", 1, move |turn| {
                time_given(turn, |now| given.full.ask().at(at(now)).check().is_ok())
            }),
        ]
    }

    /// Peeks at the buckets with room, after the turn in which another row charged them.
    fn peek<'a>(&'a self, clock: &'a CoarseClock) -> [Row<'a>; 3] {
        let Self { own, coarse, given, .. } = self;
        let (own, coarse, given) = (&own.roomy, &coarse.roomy, &given.roomy);
        [
            Row::new("peek, own clock", 1, |turn| own_clock(turn, || own.ask().peek().is_ok())),
            Row::new("peek, coarse clock", 1, |turn| {
                coarse_clock(turn, clock, || coarse.ask().at(clock.now()).peek().is_ok())
            }),
            Row::new("peek, time given", 1, |turn| {
                let turn = Turn { round: turn.round + 1, ..turn };
                time_given(turn, |now| given.ask().at(Tick::from_nanos(now)).peek().is_ok())
            }),
        ]
    }
}

/// The keys in turn, with the limiter's own clock and with the time given.
fn many<'a, A: Algorithm + Sync>(
    own: &'a Pair<Limiter<u64, A>>,
    given: &'a Pair<Limiter<u64, A>>,
    sequence: &'a [u64],
) -> [Row<'a>; 4] {
    let at = Tick::from_nanos;
    [
        Row::new("1,000 keys, admit, own clock", 1, |turn| {
            in_turn(turn, sequence, |key, _| own.roomy.check(&key).is_ok())
        }),
        Row::new("1,000 keys, admit, time given", 1, move |turn| {
            in_turn(turn, sequence, |key, now| given.roomy.ask(&key).at(at(now)).check().is_ok())
        }),
        Row::new("1,000 keys, deny, own clock", 1, |turn| {
            in_turn(turn, sequence, |key, _| own.full.check(&key).is_ok())
        }),
        Row::new("1,000 keys, deny, time given", 1, move |turn| {
            in_turn(turn, sequence, |key, now| given.full.ask(&key).at(at(now)).check().is_ok())
        }),
    ]
}
