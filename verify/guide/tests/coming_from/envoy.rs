//! The arithmetic of the token buckets of Envoy's local rate limit. A real Envoy decides beside the proxy
//! in `crates/cli/tests/clients/peers.rs`.

use std::time::Duration;

use tollgate::limiter::SlotLayout;
use tollgate::{Direct, Gcra, ManualClock, Quota, Tick};

use crate::traces::{
    Draw, MILLISECOND, Ours, Request, SECOND, Seen, TRACES, cells_in_unit,
    differs_only_where_a_cell_comes_back, some_traces_differ, trace,
};

/// Seconds on Envoy's clock when a trace begins: a machine that has been up for twelve days.
const UP: f64 = 1_048_576.0;

/// `token_bucket: { max_tokens, tokens_per_fill, fill_interval }`, filled continuously: what is kept is the
/// time at which the bucket would have been empty, in seconds.
struct TokenBucket {
    max_tokens: f64,
    rate: f64,
    empty_at: f64,
}

impl TokenBucket {
    fn new(max_tokens: u64, tokens_per_fill: u64, fill_interval: Duration) -> Self {
        let max_tokens = max_tokens as f64;
        let rate = tokens_per_fill as f64 / fill_interval.as_secs_f64();
        Self { max_tokens, rate, empty_at: UP - max_tokens / rate }
    }

    fn consume(&mut self, request: Request) -> bool {
        let now = UP + request.at as f64 / SECOND as f64;
        if now <= self.empty_at {
            return false;
        }
        let tokens = ((now - self.empty_at) * self.rate).min(self.max_tokens);
        let wanted = request.cells as f64;
        if tokens < wanted {
            return false;
        }
        self.empty_at = now - (tokens - wanted) / self.rate;
        true
    }
}

/// Rates and instants in sums of powers of two, which Envoy's floating-point numbers hold exactly.
#[test]
fn decisions_are_equal_where_no_number_is_rounded() {
    let (mut draw, mut seen) = (Draw::new(5), Seen::default());
    for _ in 0..TRACES {
        let (tokens, burst) = (draw.one_of(&[1, 2, 4, 8, 16, 32]), draw.between(1, 30));
        let interval = draw.one_of(&[250, 500, 1_000, 2_000, 4_000].map(Duration::from_millis));
        let quota = Quota::new(tokens, interval).burst(burst);
        let gate = Ours::new(SlotLayout::Wide, quota, Gcra::new());
        let mut theirs = TokenBucket::new(burst, tokens, interval);
        // A 128th of a second is 3,125 of the library's time units.
        for request in trace(&mut draw, quota, SECOND / 128, 3) {
            seen.alike(gate.admits(request), theirs.consume(request), (quota, request));
        }
    }
}

/// Envoy's rounding is below a millionth of a token, and the library's below a time unit.
#[test]
fn other_rates_differ_only_where_a_token_comes_back() {
    some_traces_differ("Envoy", 6, |draw, slots| {
        // Compact slots have no smaller bursts of the fastest rate.
        let (tokens, burst) = (draw.between(1, 300), draw.between(4, 30));
        let interval = Duration::from_millis(draw.one_of(&[50, 200, 1_000, 60_000]));
        let quota = Quota::new(tokens, interval).burst(burst);
        let requests = trace(draw, quota, MILLISECOND, 3);
        let gate = Ours::new(slots, quota, Gcra::new());
        let mut theirs = TokenBucket::new(burst, tokens, interval);
        differs_only_where_a_cell_comes_back(
            quota,
            &requests,
            cells_in_unit(quota, slots) + 1e-6,
            |request| gate.admits(request),
            |request| theirs.consume(request),
        )
    });
}

/// Before July 2024, a timer filled the bucket. As many tokens have come at the end of an interval, and
/// here some of them before.
#[test]
fn a_timer_brings_no_token_earlier() {
    let mut draw = Draw::new(7);
    for _ in 0..TRACES {
        let (tokens, burst) = (draw.between(1, 20), draw.between(1, 60));
        let quota = Quota::new(tokens, Duration::from_millis(100)).burst(burst);
        let gate = Direct::builder(quota).clock(ManualClock::new()).build().expect("in range");
        let left = |at_ms: u64| {
            let now = Tick::from_nanos(at_ms * MILLISECOND);
            gate.ask().cells(0).at(now).peek().expect("nothing is asked for").remaining()
        };
        assert!(gate.ask().cells(burst).at(Tick::ZERO).check().is_ok(), "the bucket was full");
        let mut filled = 0;
        for at_ms in 0..500 {
            if at_ms > 0 && at_ms % 100 == 0 {
                filled = burst.min(filled + tokens);
                assert_eq!(left(at_ms), filled, "{quota} after {at_ms} ms");
            }
            assert!((filled..filled + tokens).contains(&left(at_ms)), "{quota} after {at_ms} ms");
        }
    }
}
