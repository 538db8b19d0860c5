//! The arithmetic of Bucket4j: whole tokens, and the rest of the last division.

use std::time::Duration;

use tollgate::composite::Composite;
use tollgate::{Direct, FixedWindow, Gcra, ManualClock, Quota, Tick};

use tollgate::limiter::SlotLayout;

use crate::traces::{
    Draw, Ours, Request, SLOTS, Seen, TRACES, cells_in_unit, differs_only_where_a_cell_comes_back,
    some_traces_differ, trace, whole_unit,
};

/// `limit.capacity(C).refillGreedy(T, P)`, or `refillIntervally`.
struct Bandwidth {
    capacity: u64,
    tokens: u64,
    period: u64,
    at_intervals: bool,
    available: u64,
    refilled_at: u64,
    /// The remainder of a division by the period.
    rest: u64,
}

impl Bandwidth {
    fn greedy(quota: Quota) -> Self {
        let (capacity, period) = (quota.burst_cells(), quota.period());
        let period = u64::try_from(period.as_nanos()).expect("a short period");
        let (tokens, available) = (quota.limit(), capacity);
        Self { capacity, tokens, period, at_intervals: false, available, refilled_at: 0, rest: 0 }
    }

    /// All tokens at the end of each interval; the first interval begins at 0.
    fn intervally(quota: Quota) -> Self {
        Self { at_intervals: true, ..Self::greedy(quota) }
    }

    fn refill(&mut self, now: u64) {
        let since = now.saturating_sub(self.refilled_at);
        let span = if self.at_intervals { since / self.period * self.period } else { since };
        let parts = u128::from(span) * u128::from(self.tokens) + u128::from(self.rest);
        let come = parts / u128::from(self.period);
        self.refilled_at += span;
        if u128::from(self.available) + come >= u128::from(self.capacity) {
            (self.available, self.rest) = (self.capacity, 0);
        } else {
            self.available += u64::try_from(come).expect("below the capacity");
            self.rest = u64::try_from(parts % u128::from(self.period)).expect("below the period");
        }
    }
}

/// `bucket.tryConsume(N)`: of all limits or of none.
fn try_consume(limits: &mut [Bandwidth], request: Request) -> bool {
    limits.iter_mut().for_each(|limit| limit.refill(request.at));
    let enough = limits.iter().all(|limit| limit.available >= request.cells);
    if enough {
        limits.iter_mut().for_each(|limit| limit.available -= request.cells);
    }
    enough
}

/// Quotas whose time unit is a whole number of nanoseconds.
fn draw_quota(draw: &mut Draw) -> Quota {
    let tokens = draw.one_of(&[1, 2, 4, 5, 8, 10, 16, 20, 25, 40, 50, 100, 200]);
    let seconds = draw.one_of(&[1, 3, 60, 3_600]);
    Quota::new(tokens, Duration::from_secs(seconds))
        .burst(draw.one_of(&[1, 2, 4, 5, 8, 10, 20, 25]))
}

#[test]
fn decisions_are_equal_to_a_greedy_refill_at_whole_time_units() {
    let (mut draw, mut seen) = (Draw::new(8), Seen::default());
    for slots in SLOTS {
        for _ in 0..TRACES {
            let quota = draw_quota(&mut draw);
            let gate = Ours::new(slots, quota, Gcra::new());
            let mut theirs = [Bandwidth::greedy(quota)];
            for request in trace(&mut draw, quota, whole_unit(quota, slots), 3) {
                let (ours, theirs) = (gate.admits(request), try_consume(&mut theirs, request));
                seen.alike(ours, theirs, (quota, slots, request));
            }
        }
    }
}

#[test]
fn decisions_at_other_times_differ_only_where_a_token_comes_back() {
    some_traces_differ("Bucket4j", 14, |draw, slots| {
        let (tokens, burst) = (draw.between(1, 300), draw.between(1, 30));
        let quota = Quota::new(tokens, Duration::from_secs(draw.one_of(&[1, 3, 60]))).burst(burst);
        let requests = trace(draw, quota, 1, 3);
        let gate = Ours::new(slots, quota, Gcra::new());
        let mut theirs = [Bandwidth::greedy(quota)];
        differs_only_where_a_cell_comes_back(
            quota,
            &requests,
            cells_in_unit(quota, slots),
            |request| gate.admits(request),
            |request| try_consume(&mut theirs, request),
        )
    });
}

#[test]
fn decisions_are_equal_to_two_greedy_limits_of_one_bucket() {
    let (mut draw, mut seen) = (Draw::new(9), Seen::default());
    for _ in 0..TRACES {
        let quotas = [draw_quota(&mut draw), draw_quota(&mut draw)];
        let [short, long] = quotas.map(|quota| {
            Direct::builder(quota).clock(ManualClock::new()).build().expect("in range")
        });
        let both = Composite::<()>::builder().shared("short", short).shared("long", long);
        let both = both.build().expect("two limits");
        let mut theirs = quotas.map(Bandwidth::greedy);
        // Both time units.
        let step = quotas.map(|quota| whole_unit(quota, SlotLayout::Wide)).iter().product();
        for request in trace(&mut draw, quotas[0], step, 3) {
            let now = Tick::from_nanos(request.at);
            let ours = both.ask(&()).cells(request.cells).at(now).check().is_ok();
            seen.alike(ours, try_consume(&mut theirs, request), (quotas, request));
        }
    }
}

/// `refillIntervally(N, P)` with a capacity of N, in a bucket that was made when a window begins, or with
/// `refillIntervallyAligned`.
#[test]
fn decisions_are_equal_to_a_refill_by_intervals_of_the_whole_capacity() {
    let (mut draw, mut seen) = (Draw::new(10), Seen::default());
    for slots in SLOTS {
        for _ in 0..TRACES {
            let (limit, seconds) = (draw.between(1, 20), draw.one_of(&[1, 3, 60, 3_600]));
            let quota = Quota::new(limit, Duration::from_secs(seconds));
            let gate = Ours::new(slots, quota, FixedWindow::aligned());
            let mut theirs = [Bandwidth::intervally(quota)];
            for request in trace(&mut draw, quota, 1, 3) {
                let (ours, theirs) = (gate.admits(request), try_consume(&mut theirs, request));
                seen.alike(ours, theirs, (quota, slots, request));
            }
        }
    }
}

/// `getAvailableTokens()`.
#[test]
fn a_peek_for_no_cells_says_how_many_are_available() {
    let quota = Quota::per_second(10).burst(20);
    let gate = Direct::builder(quota).clock(ManualClock::new()).build().expect("in range");
    let mut theirs = [Bandwidth::greedy(quota)];
    for cells in [0, 7, 13] {
        let ours = gate.check_n(cells).is_ok();
        assert!(ours && try_consume(&mut theirs, Request { at: 0, cells }));
        let ours = gate.ask().cells(0).peek().expect("no cells").remaining();
        assert_eq!(ours, theirs[0].available, "after {cells}");
    }
}

/// The page's example: a window that opens with a request, beside intervals since the bucket was made.
#[test]
fn an_anchored_window_opens_with_a_request_and_not_when_a_bucket_is_made() {
    let quota = Quota::per_second(5);
    let gate = Ours::new(SlotLayout::Wide, quota, FixedWindow::anchored());
    let mut theirs = [Bandwidth::intervally(quota)];
    let at = |at_ms: u64, cells| Request { at: at_ms * 1_000_000, cells };
    let mut both = |request| (gate.admits(request), try_consume(&mut theirs, request));
    assert_eq!(both(at(900, 5)), (true, true));
    assert_eq!(both(at(1_000, 1)), (false, true));
    assert_eq!(both(at(1_900, 1)), (true, true));
}
