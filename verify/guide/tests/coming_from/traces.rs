//! Random requests, and the comparison of two limiters that get them.

use std::time::Duration;

use tollgate::algorithm::Algorithm;
use tollgate::internals::StateMachine;
use tollgate::limiter::SlotLayout;
use tollgate::{Decision, Direct, Gcra, Limiter, ManualClock, Quota, Tick};

/// Traces for each comparison.
pub(crate) const TRACES: u64 = 10_000;
/// Requests in a trace.
const REQUESTS: u64 = 50;

pub(crate) const SECOND: u64 = 1_000_000_000;
pub(crate) const MILLISECOND: u64 = 1_000_000;
/// Where a keyed limiter keeps its states. For 30,000 keys or more they are compact unless told otherwise.
pub(crate) const SLOTS: [SlotLayout; 2] = [SlotLayout::Wide, SlotLayout::Compact];

/// A small generator (SplitMix64), so that each run draws the same traces.
pub(crate) struct Draw(u64);

impl Draw {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from `least` to `most`.
    pub(crate) fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.next() % (most - least + 1)
    }

    pub(crate) fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[usize::try_from(self.between(0, choices.len() as u64 - 1)).expect("an index")]
    }
}

/// A request of `cells` at an instant in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) at: u64,
    pub(crate) cells: u64,
}

/// Requests whose instants are multiples of `step` and never go back. Some come together, some a few
/// steps apart, some by whole intervals of the quota, and some after the bucket is full again.
pub(crate) fn trace(draw: &mut Draw, quota: Quota, step: u64, cells_max: u64) -> Vec<Request> {
    let period = u64::try_from(quota.period().as_nanos()).expect("a short period");
    let interval = period / quota.limit();
    let whole = |nanos: u64| nanos / step * step;
    let mut at = 0;
    let request = |_| {
        at += match draw.between(0, 9) {
            0..=3 => 0,
            4..=5 => whole(draw.between(0, interval)),
            6 => draw.between(1, 20) * step,
            7..=8 => whole(interval * draw.between(1, 4)),
            _ => whole(interval * draw.between(1, 2 * quota.burst_cells() + 2)),
        };
        Request { at, cells: draw.between(1, cells_max) }
    };
    (0..REQUESTS).map(request).collect()
}

/// The time unit of a token bucket in such slots, as units in so many nanoseconds. A bucket without a key has
/// that of wide slots.
pub(crate) fn time_unit(quota: Quota, slots: SlotLayout) -> (u64, u64) {
    let params = match slots {
        SlotLayout::Compact => {
            Gcra::new().compact_params(&quota, 0).map(|params| params.expect("it fits"))
        }
        _ => Gcra::new().params(&quota, 0),
    };
    params.expect("in range").grid().ratio()
}

/// The same in nanoseconds, which must be whole.
pub(crate) fn whole_unit(quota: Quota, slots: SlotLayout) -> u64 {
    let (units, nanos) = time_unit(quota, slots);
    assert_eq!(units, 1, "{quota}, {slots:?}: {units} units in {nanos} ns");
    nanos
}

/// The cells that come back in a time unit.
pub(crate) fn cells_in_unit(quota: Quota, slots: SlotLayout) -> f64 {
    let (units, nanos) = time_unit(quota, slots);
    let rate = quota.limit() as f64 / quota.period().as_nanos() as f64;
    nanos as f64 / units as f64 * rate
}

/// The library's limiters for a quota: a keyed one, and a bucket without a key if the time units are the same.
pub(crate) struct Ours<A: Algorithm> {
    direct: Option<Direct<A, ManualClock>>,
    keyed: Limiter<str, A, ManualClock>,
}

impl<A: Algorithm + Copy> Ours<A> {
    pub(crate) fn new(slots: SlotLayout, quota: Quota, algorithm: A) -> Self {
        let direct = (slots == SlotLayout::Wide).then(|| {
            let direct = Direct::builder(quota).algorithm(algorithm).clock(ManualClock::new());
            direct.build().expect("in range")
        });
        let keyed = Limiter::builder(quota)
            .algorithm(algorithm)
            .clock(ManualClock::new())
            .slots(slots)
            .capacity(10);
        Self { direct, keyed: keyed.build().expect("in range") }
    }

    pub(crate) fn check(&self, request: Request) -> Decision {
        let now = Tick::from_nanos(request.at);
        let keyed = self.keyed.ask("key").cells(request.cells).at(now).check();
        if let Some(direct) = &self.direct {
            let direct = direct.ask().cells(request.cells).at(now).check();
            assert_eq!(keyed.is_ok(), direct.is_ok(), "with a key and without, {request:?}");
        }
        keyed
    }

    pub(crate) fn admits(&self, request: Request) -> bool {
        self.check(request).is_ok()
    }
}

/// Counts that show that a comparison has seen both answers.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    admitted: u64,
    denied: u64,
}

impl Seen {
    /// Both must answer alike.
    pub(crate) fn alike(&mut self, ours: bool, theirs: bool, context: impl std::fmt::Debug) {
        assert_eq!(ours, theirs, "admitted here, and there: {context:?}");
        *(if ours { &mut self.admitted } else { &mut self.denied }) += 1;
    }
}

impl Drop for Seen {
    fn drop(&mut self) {
        let whole = TRACES * REQUESTS;
        let both = self.admitted.min(self.denied) > whole / 20;
        assert!(both || std::thread::panicking(), "one answer is rare: {self:?} of {whole}");
    }
}

/// A token bucket in whole numbers: its level is in parts of a cell, of which there are as many as the
/// period has nanoseconds. So nothing is rounded.
pub(crate) struct ExactBucket {
    quota: Quota,
    level: i128,
    at: u64,
}

impl ExactBucket {
    pub(crate) fn new(quota: Quota) -> Self {
        let level = i128::from(quota.burst_cells()) * nanos(quota.period());
        Self { quota, level, at: 0 }
    }

    /// Whether the bucket has the cells, and how far its level is from having exactly them, in cells.
    pub(crate) fn margin(&mut self, request: Request) -> (bool, f64) {
        let full = i128::from(self.quota.burst_cells()) * nanos(self.quota.period());
        let restored = i128::from(request.at - self.at) * i128::from(self.quota.limit());
        (self.level, self.at) = ((self.level + restored).min(full), request.at);
        let above = self.level - i128::from(request.cells) * nanos(self.quota.period());
        (above >= 0, (above as f64 / nanos(self.quota.period()) as f64).abs())
    }

    pub(crate) fn take(&mut self, cells: u64) {
        self.level -= i128::from(cells) * nanos(self.quota.period());
    }
}

fn nanos(span: Duration) -> i128 {
    i128::try_from(span.as_nanos()).expect("a short span")
}

/// Compares up to the first difference. Until then both have the same history, so the exact bucket has
/// too. The difference must be at an instant at which a cell comes back, within `tolerance` cells.
/// Returns whether there was one.
pub(crate) fn differs_only_where_a_cell_comes_back(
    quota: Quota,
    trace: &[Request],
    tolerance: f64,
    ours: impl Fn(Request) -> bool,
    mut theirs: impl FnMut(Request) -> bool,
) -> bool {
    let mut exact = ExactBucket::new(quota);
    for &request in trace {
        let (ours, theirs) = (ours(request), theirs(request));
        let (admitted, margin) = exact.margin(request);
        if ours != theirs {
            assert!(
                margin <= tolerance,
                "{quota}: {request:?} differs {margin} cells from a whole one"
            );
            return true;
        }
        assert!(
            ours == admitted || margin <= tolerance,
            "{quota}: {request:?} is decided wrongly by both"
        );
        if ours {
            exact.take(request.cells);
        }
    }
    false
}

/// Compares as many traces in each kind of slots, which `differs` draws and compares up to the first difference. A
/// page says that there are some.
pub(crate) fn some_traces_differ(
    peer: &str,
    seed: u64,
    mut differs: impl FnMut(&mut Draw, SlotLayout) -> bool,
) {
    for slots in SLOTS {
        let mut draw = Draw::new(seed);
        let differences = (0..TRACES).filter(|_| differs(&mut draw, slots)).count();
        println!("{peer}, {slots:?}: {differences} of {TRACES} traces have a difference");
        assert!(differences > 0, "the page says that there are differences");
    }
}
