//! The rows: limiters of both kinds, and the loop of a turn.

use std::hint::black_box;

use tollgate::algorithm::Algorithm;
use tollgate::clock::QuantaClock;
use tollgate::{Clock, Direct, Limiter, Tick};
use tollgate_benches::keys;
use tollgate_benches::locked::{
    Gate, Kind, Locked, OurStep, ParkingLot, ReadThenLock, ReadThenSwap, Std, textbook,
};
use tollgate_benches::options::Options;
use tollgate_benches::pace::Supply;
use tollgate_benches::report::table;
use tollgate_benches::rounds::{Figures, Row, Turn, compare};

use crate::case::{Ask, Case, Limit, SECOND_NANOS, STEP_NANOS};

/// The two ways to tell the time, as in the names of rows.
pub(crate) const GIVEN: &str = "time given";
pub(crate) const OWN: &str = "own clock";

/// A limiter.
pub(crate) trait Decide: Sync {
    fn check(&self, key: u64) -> bool;
    fn check_at(&self, key: u64, now_nanos: u64) -> bool;
}

/// One of our limiters, asked only for yes or no, as the limiters under locks are.
pub(crate) struct Brief<G>(G);

impl<A: Algorithm + Sync> Decide for Brief<Limiter<u64, A>> {
    #[inline]
    fn check(&self, key: u64) -> bool {
        self.0.allow(&key)
    }

    #[inline]
    fn check_at(&self, key: u64, now_nanos: u64) -> bool {
        self.0.ask(&key).at(Tick::from_nanos(now_nanos)).allow()
    }
}

impl<A: Algorithm + Sync> Decide for Brief<Direct<A>> {
    #[inline]
    fn check(&self, _: u64) -> bool {
        self.0.allow()
    }

    #[inline]
    fn check_at(&self, _: u64, now_nanos: u64) -> bool {
        self.0.ask().at(Tick::from_nanos(now_nanos)).allow()
    }
}

impl<A: Algorithm + Sync> Decide for Limiter<u64, A> {
    #[inline]
    fn check(&self, key: u64) -> bool {
        self.check(&key).is_ok()
    }

    #[inline]
    fn check_at(&self, key: u64, now_nanos: u64) -> bool {
        self.ask(&key).at(Tick::from_nanos(now_nanos)).check().is_ok()
    }
}

impl<A: Algorithm + Sync> Decide for Direct<A> {
    #[inline]
    fn check(&self, _: u64) -> bool {
        self.check().is_ok()
    }

    #[inline]
    fn check_at(&self, _: u64, now_nanos: u64) -> bool {
        self.ask().at(Tick::from_nanos(now_nanos)).check().is_ok()
    }
}

/// A limiter under a lock. It reads the same clock as ours, before it takes the lock.
pub(crate) struct BehindLock<G> {
    pub(crate) gate: G,
    clock: QuantaClock,
}

impl<G> BehindLock<G> {
    pub(crate) fn new(gate: G) -> Self {
        Self { gate, clock: QuantaClock::new() }
    }
}

impl<G: Gate> Decide for BehindLock<G> {
    #[inline]
    fn check(&self, key: u64) -> bool {
        self.gate.check(key, self.clock.now().as_nanos())
    }

    #[inline]
    fn check_at(&self, key: u64, now_nanos: u64) -> bool {
        self.gate.check(key, now_nanos)
    }
}

/// The keys of a case: each once, unordered; and the sequence of requests.
pub(crate) struct Keys {
    all: Vec<u64>,
    sequence: Vec<u64>,
}

impl Keys {
    pub(crate) fn new(case: Case) -> Self {
        let mut all: Vec<u64> = (0..case.keys).map(keys::key).collect();
        all.sort_unstable();
        let sequence = keys::ranks(case.draw, case.keys).into_iter().map(keys::key).collect();
        Self { all, sequence }
    }
}

/// The rows of one comparison, created on demand.
pub(crate) struct Rows<'a> {
    options: &'a Options,
    pub(crate) algorithm: &'a str,
    pub(crate) case: Case,
    keys: &'a Keys,
    rows: Vec<Row<'a>>,
}

impl<'a> Rows<'a> {
    pub(crate) fn new(
        options: &'a Options,
        algorithm: &'a str,
        case: Case,
        keys: &'a Keys,
    ) -> Self {
        Self { options, algorithm, case, keys, rows: Vec::new() }
    }

    pub(crate) fn ours<A: Algorithm + Copy + Sync + 'a>(&mut self, algorithm: A, limit: Limit)
    where
        A::Params: 'a,
    {
        let (quota, capacity) = (limit.quota(), self.case.keys as u64);
        let many = || {
            let gate = Limiter::<u64>::builder(quota).algorithm(algorithm);
            gate.capacity(capacity).build().expect("in range")
        };
        let one = || Direct::builder(quota).algorithm(algorithm).build().expect("in range");
        if self.case.keyed {
            self.both("tollgate allow", || Brief(many()));
            self.both("tollgate", many);
        } else {
            self.both("tollgate allow", || Brief(one()));
            self.both("tollgate", one);
        }
    }

    /// One state under each kind of lock, or the usual numbers of maps.
    pub(crate) fn locked<L: Locked + 'a>(&mut self, limit: Limit) {
        if !self.case.keyed {
            self.both(Std::NAME, || limit.one::<L, Std>());
            return self.both(ParkingLot::NAME, || limit.one::<L, ParkingLot>());
        }
        self.both("1 std Mutex map", || limit.maps::<L, Std>(1));
        self.both("64 std Mutex maps", || limit.maps::<L, Std>(64));
        self.both("64 parking_lot Mutex maps", || limit.maps::<L, ParkingLot>(64));
    }

    /// Larger numbers of maps; and one read-mostly map with a lock for each key.
    pub(crate) fn more_maps<L: Locked + 'a>(&mut self, limit: Limit) {
        if self.case.keyed {
            self.both("256 std Mutex maps", || limit.maps::<L, Std>(256));
            self.both("256 parking_lot Mutex maps", || limit.maps::<L, ParkingLot>(256));
            self.both("std RwLock map of Mutexes", || {
                let Limit { cells, period_nanos } = black_box(limit);
                BehindLock::new(ReadThenLock::<L>::new(cells, period_nanos))
            });
        }
    }

    /// Rows that exist for buckets only: tollgate's step under a lock, and an atomic in a locked map.
    pub(crate) fn locked_buckets(&mut self, limit: Limit) {
        if !self.case.keyed {
            let name = format!("tollgate's step, {}", ParkingLot::NAME);
            return self.both(&name, || limit.one::<OurStep, ParkingLot>());
        }
        let name = "tollgate's step, 64 parking_lot Mutex maps";
        self.both(name, || limit.maps::<OurStep, ParkingLot>(64));
        self.both("std RwLock map of atomics", || {
            let Limit { cells, period_nanos } = black_box(limit);
            BehindLock::new(ReadThenSwap::new(cells, period_nanos))
        });
    }

    /// One of our limiters with its own clock, answering yes or no.
    pub(crate) fn ours_own<A: Algorithm + Copy + Sync + 'a>(
        &mut self,
        name: &str,
        ours: A,
        limit: Limit,
    ) where
        A::Params: 'a,
    {
        let (quota, capacity) = (limit.quota(), self.case.keys as u64);
        if self.case.keyed {
            let gate = Limiter::<u64>::builder(quota).algorithm(ours).capacity(capacity).build();
            let gate = gate.expect("in range");
            self.own(name, move |key| gate.allow(&key));
        } else {
            let gate = Direct::builder(quota).algorithm(ours).build().expect("in range");
            self.own(name, move |_| gate.allow());
        }
    }

    /// One textbook limiter, alone or in one map.
    pub(crate) fn textbook<T: textbook::Textbook + 'a>(&mut self, name: &str, limit: Limit) {
        let cells = u32::try_from(limit.cells).expect("below 2^32");
        if self.case.keyed {
            let gate = textbook::Keyed::<T>::new(cells, limit.period());
            self.own(name, move |key| gate.check(key));
        } else {
            let gate = textbook::One::<T>::new(cells, limit.period());
            self.own(name, move |_| gate.check());
        }
    }

    /// A row with the time given, and one with the limiter's own clock.
    pub(crate) fn both<D: Decide + 'a>(&mut self, name: &str, make: impl Fn() -> D) {
        let (case, sequence) = (self.case, &self.keys.sequence);
        if let Some(name) = self.wanted(name, GIVEN) {
            let gate = make();
            let supply = Supply::new(SECOND_NANOS, STEP_NANOS);
            let first = supply.run();
            self.fill(|key| gate.check_at(key, first));
            self.rows.push(Row::new(&name, case.threads, move |turn| {
                time_given(&gate, &supply, turn, case, sequence)
            }));
        }
        let gate = self.wanted(name, OWN).map(|_| make());
        if let Some(gate) = gate {
            self.own(name, move |key| gate.check(key));
        }
    }

    /// A row with the limiter's own clock.
    pub(crate) fn own(&mut self, name: &str, check: impl Fn(u64) -> bool + Sync + 'a) {
        let (case, sequence) = (self.case, &self.keys.sequence);
        if let Some(name) = self.wanted(name, OWN) {
            self.fill(&check);
            let body = move |turn| own_clock(&check, turn, case, sequence);
            self.rows.push(Row::new(&name, case.threads, body));
        }
    }

    /// The whole name of the row, if it is to be run.
    fn wanted(&self, name: &str, how: &str) -> Option<String> {
        let name = format!("{}: {name}, {how}", self.algorithm);
        self.options.wants(&name).then_some(name)
    }

    /// Gives every key its slot, or takes all its cells.
    fn fill(&self, check: impl Fn(u64) -> bool) {
        for &key in &self.keys.all {
            assert!(check(key), "a fresh key has a cell");
            while self.case.ask == Ask::Deny && check(key) {}
        }
    }

    pub(crate) fn figures(self, title: &str) -> Vec<Figures> {
        let figures = compare(self.options, self.case.decisions, &self.rows);
        table(title, &figures);
        figures
    }
}

#[inline]
fn time_given(
    gate: &impl Decide,
    supply: &Supply,
    turn: Turn,
    case: Case,
    sequence: &[u64],
) -> usize {
    let mut admitted = 0;
    let (first, second) = turn.part(sequence, case.threads);
    for run in first.chunks(Supply::RUN).chain(second.chunks(Supply::RUN)) {
        let mut now = supply.run();
        for &key in run {
            admitted += usize::from(black_box(gate.check_at(key, black_box(now))));
            now += STEP_NANOS;
        }
    }
    admitted
}

#[inline]
fn own_clock(check: impl Fn(u64) -> bool, turn: Turn, case: Case, sequence: &[u64]) -> usize {
    let mut admitted = 0;
    let (first, second) = turn.part(sequence, case.threads);
    for part in [first, second] {
        for &key in part {
            admitted += usize::from(black_box(check(key)));
        }
    }
    admitted
}
