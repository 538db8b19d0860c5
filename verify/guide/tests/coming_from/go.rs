//! The arithmetic of `golang.org/x/time/rate`, version 0.13, checked by what the package's own tests expect.

use std::time::Duration;

use tollgate::limiter::SlotLayout;
use tollgate::{Direct, Gcra, ManualClock, Quota, Tick};

use crate::traces::{
    Draw, Ours, Request, SECOND, SLOTS, Seen, TRACES, cells_in_unit,
    differs_only_where_a_cell_comes_back, some_traces_differ, trace,
};

/// `rate.NewLimiter(rate, burst)`.
struct RateLimiter {
    /// Tokens a second.
    limit: f64,
    burst: u64,
    tokens: f64,
    last: u64,
}

impl RateLimiter {
    fn new(limit: f64, burst: u64) -> Self {
        Self { limit, burst, tokens: burst as f64, last: 0 }
    }

    /// `AllowN`.
    fn allow(&mut self, request: Request) -> bool {
        self.reserve(request, Duration::ZERO).is_some()
    }

    /// `ReserveN`, for a request that waits no longer than `max_wait`: how long it waits.
    fn reserve(&mut self, request: Request, max_wait: Duration) -> Option<Duration> {
        // An earlier time restores nothing.
        let elapsed = Duration::from_nanos(request.at.saturating_sub(self.last));
        let tokens = (self.tokens + elapsed.as_secs_f64() * self.limit).min(self.burst as f64);
        let tokens = tokens - request.cells as f64;
        #[expect(clippy::cast_possible_truncation, reason = "Go drops fractions of a nanosecond")]
        let nanos = (-tokens / self.limit * SECOND as f64).max(0.0) as u64;
        let wait = Duration::from_nanos(nanos);
        if request.cells > self.burst || wait > max_wait {
            return None;
        }
        // Here an earlier time becomes the limiter's time.
        (self.tokens, self.last) = (tokens, request.at);
        Some(wait)
    }
}

/// A quota of `tokens` in `millis` milliseconds, and the same of Go.
fn pair(tokens: u64, millis: u64, burst: u64) -> (Quota, RateLimiter) {
    let quota = Quota::new(tokens, Duration::from_millis(millis)).burst(burst);
    (quota, RateLimiter::new(tokens as f64 * 1_000.0 / millis as f64, burst))
}

const TENTH: u64 = SECOND / 10;

/// The requests of the package's `rate_test.go` to limiters of 10 a second with a burst of 1 and of 3, in tenths of a
/// second and tokens, and whether they are granted.
const ALLOWED_1: [(u64, u64, bool); 9] = [
    (0, 1, true),
    (0, 1, false),
    (0, 1, false),
    (1, 1, true),
    (1, 1, false),
    (1, 1, false),
    (2, 2, false),
    (2, 1, true),
    (2, 1, false),
];
const ALLOWED_3: [(u64, u64, bool); 13] = [
    (0, 2, true),
    (0, 2, false),
    (0, 1, true),
    (0, 1, false),
    (1, 4, false),
    (2, 1, true),
    (3, 1, true),
    (4, 1, true),
    (4, 1, true),
    (4, 1, false),
    (4, 1, false),
    (9, 3, true),
    (9, 0, true),
];
/// With a burst of 3, and times that go back.
const JUMPS_BACK: [(u64, u64, bool); 11] = [
    (1, 1, true),
    (0, 1, true),
    (0, 1, true),
    (0, 1, false),
    (0, 1, false),
    (1, 1, true),
    (1, 1, false),
    (1, 1, false),
    (2, 1, true),
    (2, 1, false),
    (2, 1, false),
];
/// Reservations with a burst of 2: when they are made, their tokens, and when they may act.
const RESERVED: [(u64, u64, u64); 3] = [(0, 2, 0), (0, 2, 2), (3, 2, 4)];
const RESERVED_JUMPS_BACK: [(u64, u64, u64); 3] = [(1, 2, 1), (0, 1, 1), (2, 2, 3)];

#[test]
fn the_packages_own_tests_expect_these_decisions() {
    for (burst, calls) in [(1, &ALLOWED_1[..]), (3, &ALLOWED_3[..])] {
        let (quota, mut theirs) = pair(10, 1_000, burst);
        let gates = SLOTS.map(|slots| Ours::new(slots, quota, Gcra::new()));
        for &(tenths, cells, admitted) in calls {
            let request = Request { at: tenths * TENTH, cells };
            assert_eq!(theirs.allow(request), admitted, "Go, {quota}: {request:?}");
            for gate in &gates {
                assert_eq!(gate.admits(request), admitted, "{quota}: {request:?}");
            }
        }
    }
    let (_, mut theirs) = pair(10, 1_000, 3);
    for (tenths, cells, admitted) in JUMPS_BACK {
        assert_eq!(theirs.allow(Request { at: tenths * TENTH, cells }), admitted, "{tenths}");
    }
}

#[test]
fn the_packages_own_tests_expect_these_reservations() {
    let span = |tenths| Duration::from_nanos(tenths * TENTH);
    let (quota, mut theirs) = pair(10, 1_000, 2);
    let gate = Direct::builder(quota).clock(ManualClock::new()).build().expect("in range");
    for (tenths, cells, acts) in RESERVED {
        let request = Request { at: tenths * TENTH, cells };
        let wait = span(acts - tenths);
        assert_eq!(theirs.reserve(request, Duration::MAX), Some(wait), "Go: {request:?}");
        let ours = gate.ask().cells(cells).at(Tick::from_nanos(request.at)).charge();
        assert_eq!(ours, wait, "{request:?}");
    }
    let (_, mut theirs) = pair(10, 1_000, 2);
    for (tenths, cells, acts) in RESERVED_JUMPS_BACK {
        let request = Request { at: tenths * TENTH, cells };
        assert_eq!(
            theirs.reserve(request, Duration::MAX),
            Some(span(acts - tenths)),
            "{request:?}"
        );
    }
    // More than the burst, and further ahead than the caller waits.
    let (_, mut theirs) = pair(10, 1_000, 2);
    let mut reserve = |cells| theirs.reserve(Request { at: 0, cells }, span(1));
    assert_eq!(
        [reserve(3), reserve(2), reserve(1), reserve(1)],
        [None, Some(span(0)), Some(span(1)), None]
    );
}

/// Rates and instants in sums of powers of two, which Go's floating-point numbers hold exactly.
#[test]
fn decisions_are_equal_where_no_number_is_rounded() {
    let (mut draw, mut seen) = (Draw::new(11), Seen::default());
    for _ in 0..TRACES {
        let (tokens, millis) =
            (draw.one_of(&[1, 2, 4, 8, 16, 32]), draw.one_of(&[500, 1_000, 4_000]));
        let burst = draw.between(1, 30);
        let (quota, mut theirs) = pair(tokens, millis, burst);
        let gate = Ours::new(SlotLayout::Wide, quota, Gcra::new());
        for request in trace(&mut draw, quota, SECOND / 128, 3) {
            seen.alike(gate.admits(request), theirs.allow(request), (quota, request));
        }
    }
}

/// By the library's time unit, and Go's rounding: a wait below a nanosecond is none.
#[test]
fn other_rates_differ_only_where_a_token_comes_back() {
    some_traces_differ("x/time/rate", 12, |draw, slots| {
        let (tokens, millis) = (draw.between(1, 300), draw.one_of(&[1_000, 60_000]));
        let burst = draw.between(1, 30);
        let (quota, mut theirs) = pair(tokens, millis, burst);
        let requests = trace(draw, quota, 1, 3);
        let gate = Ours::new(slots, quota, Gcra::new());
        differs_only_where_a_cell_comes_back(
            quota,
            &requests,
            cells_in_unit(quota, slots) + 1e-6,
            |request| gate.admits(request),
            |request| theirs.allow(request),
        )
    });
}

/// `Reserve` and `charge` both take cells ahead, and say how long to wait for them.
#[test]
fn a_charge_waits_as_long_as_a_reservation() {
    let (mut draw, mut waited) = (Draw::new(13), 0);
    for _ in 0..TRACES {
        let (tokens, burst) = (draw.one_of(&[1, 2, 4, 8, 16, 32]), draw.between(3, 30));
        let (quota, mut theirs) = pair(tokens, 1_000, burst);
        let gate = Direct::builder(quota).clock(ManualClock::new()).build().expect("in range");
        for request in trace(&mut draw, quota, SECOND / 128, 3) {
            let wait = gate.ask().cells(request.cells).at(Tick::from_nanos(request.at)).charge();
            assert_eq!(Some(wait), theirs.reserve(request, Duration::MAX), "{quota}, {request:?}");
            waited += u64::from(!wait.is_zero());
        }
    }
    assert!(waited > TRACES, "only {waited} requests waited");
}

/// `Tokens()`.
#[test]
fn a_peek_for_no_cells_says_how_many_tokens_there_are() {
    let (quota, mut theirs) = pair(10, 1_000, 20);
    let gate = Direct::builder(quota).clock(ManualClock::new()).build().expect("in range");
    for cells in [0, 7, 13] {
        assert!(gate.check_n(cells).is_ok() && theirs.allow(Request { at: 0, cells }));
        let ours = gate.ask().cells(0).peek().expect("no cells").remaining();
        assert!((ours as f64 - theirs.tokens).abs() < 1e-9, "{ours} after {cells}");
    }
}

/// The page's example. Each time that a request's time is before the last one's, Go counts the span
/// between them once more: 5 cells in a second, of a burst of 3 and one a second.
#[test]
fn a_request_with_an_earlier_time_makes_go_restore_cells_twice() {
    let (quota, mut theirs) = pair(1, 1_000, 3);
    let gate = Ours::new(SlotLayout::Wide, quota, Gcra::new());
    let times = [1, 0, 1, 0, 1, 0, 1, 0].map(|second| Request { at: second * SECOND, cells: 1 });
    let granted = times.map(|request| (gate.admits(request), theirs.allow(request)));
    let ours = granted.iter().filter(|answer| answer.0).count();
    let theirs = granted.iter().filter(|answer| answer.1).count();
    assert_eq!((ours, theirs), (3, 5));
}
