//! Cells that are taken ahead.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::Quota;
use tollgate_redis::{Algorithm, Grant, RedisLimiter};

use crate::harness::{Server, block_on};

const BEGINNING_MICROS: u64 = 1_780_000_000_000_000;

fn parse(quota: &str) -> Quota {
    quota.parse().expect("a quota")
}

/// The leases taken. Each lease may be spent at any time of its life. A span counts all cells that
/// may be spent in it, so the count is at least what any process can spend.
struct TakenLeases {
    /// The first and the last instant at which cells may be spent, and how many.
    spans: Vec<(u64, u64, u64)>,
}

impl TakenLeases {
    /// The most cells that can have been spent in one span of `width`.
    fn worst(&self, width: u64) -> u64 {
        let begins = self.spans.iter().flat_map(|(first, last, _)| [*first, last - 1]);
        let within = |begin: u64| {
            let touching =
                |(first, last, _): &&(u64, u64, u64)| *first < begin + width && *last > begin;
            self.spans.iter().filter(touching).map(|(_, _, cells)| *cells).sum()
        };
        begins.map(within).max().unwrap_or(0)
    }
}

/// Granted in any span of a width, however late the cells of each lease are spent: at most
/// `bound(width)`.
fn keeps(algorithm: &Algorithm, quota: &str, lease_ms: u64, bound: &dyn Fn(u64) -> u64) {
    let Some(server) = Server::start() else { return };
    let quota = parse(quota);
    let store = server.store().build().expect("a store");
    let gate = RedisLimiter::builder(&store, "lease", quota).algorithm(algorithm.clone());
    let gate = gate.leases(Duration::from_millis(lease_ms)).build().expect("a limiter");
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 20,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let period = u64::try_from(quota.period().as_micros()).expect("in range");
    let asked = (0..period / 10, 1..4_u64, 0..quota.limit());
    let keys = std::cell::Cell::new(0_u64);
    let outcome = runner.run(&prop::collection::vec(asked, 1..60), |asked| {
        keys.set(keys.get() + 1);
        let mut now = BEGINNING_MICROS;
        let mut taken_leases = TakenLeases { spans: Vec::new() };
        for (span, min, more) in asked {
            now += span;
            let gate = gate.at_micros(now);
            let taken = gate.take(keys.get().to_be_bytes(), min, min + more);
            let taken = block_on(taken).expect("an answer");
            let Grant { cells, lifetime, parts, retry_after, .. } = taken;
            prop_assert!(cells == 0 || (min..=min + more).contains(&cells));
            prop_assert_eq!(cells == 0 && min <= parts.limit, retry_after.is_some());
            prop_assert!(lifetime <= gate.lease_lifetime());
            prop_assert!(cells == 0 || cells == min + more || parts.remaining == 0);
            if cells > 0 {
                let last = now + u64::try_from(lifetime.as_micros()).expect("in range");
                taken_leases.spans.push((now, last, cells));
            }
        }
        for width in [1, period / 20, period / 4, period / 2, period, 2 * period] {
            let (worst, max) = (taken_leases.worst(width), bound(width));
            prop_assert!(worst <= max, "{} of {} in {} us", worst, max, width);
        }
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{algorithm:?} {quota}: {error}"));
}

/// Granted: `burst + rate * span` in any span, whichever processes hold the leases.
#[test]
fn leases_of_a_bucket_keep_its_bound_over_any_span() {
    for (text, lease_ms) in [("100/s", 50), ("100/s burst 20", 80), ("7/s burst 5", 300)] {
        let quota = parse(text);
        let period = quota.period().as_micros();
        let bound = move |width: u64| {
            let restored = u128::from(quota.limit()) * u128::from(width) / period;
            quota.burst_cells() + u64::try_from(restored).expect("in range")
        };
        keeps(&Algorithm::Gcra, text, lease_ms, &bound);
    }
}

/// Granted during a roll-out that changes the rate: at one moment more than the larger burst, because a
/// process with a low rate lowers its burst by less than another's cells come back in a lifetime.
#[test]
fn leases_of_two_rates_reach_the_bound_of_a_roll_out_and_no_more() {
    let Some(server) = Server::start() else { return };
    let store = server.store().build().expect("a store");
    let lifetime = Duration::from_millis(250);
    let gate = |quota| {
        let gate = RedisLimiter::builder(&store, "mixed", parse(quota)).leases(lifetime);
        gate.build().expect("a limiter")
    };
    let (slow, fast) = (gate("1/s burst 50"), gate("100/s burst 50"));
    let take = |gate: &RedisLimiter, millis: u64| {
        let gate = gate.at_micros(BEGINNING_MICROS + millis * 1_000);
        let taken = block_on(gate.take("k", 1, 50)).expect("an answer");
        assert_eq!(taken.lifetime, lifetime);
        taken.cells
    };
    let mut held = take(&slow, 0);
    assert_eq!(held, 49, "the burst, less what comes back in a lifetime, rounded down");
    held += (0..250).map(|millis| take(&fast, millis)).sum::<u64>();
    // 50 + 100/s x 250 ms - 1/s x 250 ms.
    assert!((73..=74).contains(&held), "{held}");
}

/// Granted: the limit in each window, because a lease ends with the window that it was charged to.
/// A span touches as many windows as it is long, and one more.
#[test]
fn leases_of_a_window_end_with_it() {
    for algorithm in [Algorithm::fixed_window(), Algorithm::aligned_window()] {
        let windows = |width: u64| width.div_ceil(1_000_000) + 1;
        keeps(&algorithm, "50/s", 80, &|width| 50 * windows(width));
    }
    let Some(server) = Server::start() else { return };
    let store = server.store().build().expect("a store");
    let gate =
        RedisLimiter::builder(&store, "end", parse("50/s")).algorithm(Algorithm::aligned_window());
    let gate = gate.leases(Duration::from_millis(80)).build().expect("a limiter");
    let taken = |into: u64| {
        block_on(gate.at_micros(BEGINNING_MICROS + into).take("k", 1, 10)).expect("an answer")
    };
    assert_eq!(taken(0).lifetime, Duration::from_millis(80));
    assert_eq!(taken(990_000).lifetime, Duration::from_millis(10));
    assert_eq!(taken(999_999).lifetime, Duration::from_micros(1));
}

/// Granted: at most twice the limit in a span of one period, as by a counter.
#[test]
fn leases_of_a_counter_keep_its_bound() {
    let periods = |width: u64| width.div_ceil(1_000_000);
    keeps(&Algorithm::sliding_counter(), "40/s", 100, &|width| 80 * periods(width).max(1));
}

/// Takes all cells at `from`, then every millisecond what has come back, until the first lease has
/// expired and `width` has passed.
fn greedy(gate: &RedisLimiter, key: &str, from: u64, width: u64) -> TakenLeases {
    let lifetime = u64::try_from(gate.lease_lifetime().as_micros()).expect("in range");
    let mut spans = Vec::new();
    for now in (from..from + lifetime + width).step_by(1_000) {
        let taken = block_on(gate.at_micros(now).take(key, 1, u64::MAX)).expect("an answer");
        if taken.cells > 0 {
            let lifetime = u64::try_from(taken.lifetime.as_micros()).expect("in range");
            spans.push((now, now + lifetime, taken.cells));
        }
    }
    TakenLeases { spans }
}

/// Granted: `burst + rate * span`, and not much less, to a process that keeps the whole burst until
/// it is about to expire and takes everything that comes back meanwhile.
#[test]
fn greedy_leases_of_a_bucket_keep_its_bound() {
    let Some(server) = Server::start() else { return };
    let store = server.store().build().expect("a store");
    let gate = RedisLimiter::builder(&store, "greedy", parse("200/s burst 100"));
    let gate = gate.leases(Duration::from_millis(100)).build().expect("a limiter");
    for (width, bound) in [(1_000, 100), (100_000, 120), (500_000, 200)] {
        let worst = greedy(&gate, &width.to_string(), BEGINNING_MICROS, width).worst(width);
        assert!((bound - 1..=bound).contains(&worst), "{worst} in {width} us");
    }
}

/// Granted: twice the limit in a span of one period, to a process that takes all of it just before
/// a window ends, and keeps it.
#[test]
fn greedy_leases_of_a_counter_keep_its_bound() {
    let Some(server) = Server::start() else { return };
    let store = server.store().build().expect("a store");
    let gate = RedisLimiter::builder(&store, "greedy", parse("400/s"));
    let gate = gate.algorithm(Algorithm::sliding_counter()).leases(Duration::from_millis(100));
    let gate = gate.build().expect("a limiter");
    // Windows of 1 s begin here, and so do those of 1.1 s that leases turn them into.
    let begin = BEGINNING_MICROS / 11_000_000 * 11_000_000;
    for ends in [1_000_000, 1_100_000] {
        let taken_leases = greedy(&gate, &ends.to_string(), begin + ends - 1, 1_000_000);
        let worst = taken_leases.worst(1_000_000);
        assert!((700..=800).contains(&worst), "{worst}");
    }
}

/// A call for no cells is granted none, and its answer has the key's state.
#[test]
fn a_call_for_no_cells_charges_none() {
    let Some(server) = Server::start() else { return };
    let store = server.store().build().expect("a store");
    for algorithm in [Algorithm::Gcra, Algorithm::fixed_window(), Algorithm::sliding_counter()] {
        let gate = RedisLimiter::builder(&store, "none", Quota::per_day(8)).algorithm(algorithm);
        let gate = gate.leases(Duration::from_millis(50)).build().expect("a limiter");
        let left = block_on(gate.peek_n("k", 0)).expect("an answer").expect("room").remaining();
        for min in [0, 0, 1] {
            let none = block_on(gate.take("k", min, 0)).expect("an answer");
            assert_eq!((none.cells, none.parts.remaining), (0, left), "{:?}", gate.algorithm());
        }
        assert_eq!(block_on(gate.take("k", 0, 1)).expect("an answer").cells, 1, "none means one");
    }
}

/// Granted: as many cells as a call needs, to the cell, even above what a call takes ahead.
#[test]
fn a_call_that_needs_more_than_is_taken_ahead_is_granted_it() {
    const AHEAD_MAX: u64 = 1 << 20;
    let Some(server) = Server::start() else { return };
    let store = server.store().build().expect("a store");
    let large = [5_000_000, 1 << 40];
    let algorithms = || [Algorithm::Gcra, Algorithm::fixed_window(), Algorithm::sliding_counter()];
    for (limit, algorithm) in large.into_iter().flat_map(|it| algorithms().map(|each| (it, each))) {
        let name = format!("large{limit}");
        // Three days: a rate with parts of a microsecond.
        let quota = Quota::new(limit, Duration::from_secs(3 * 86_400));
        let gate = RedisLimiter::builder(&store, name, quota).algorithm(algorithm.clone());
        let gate = gate.leases(Duration::from_millis(50)).build().expect("a limiter");
        let gate = gate.at_micros(BEGINNING_MICROS);
        let take = |min, max| block_on(gate.take("k", min, max)).expect("an answer");
        let whole = take(1, 0).parts.limit;
        assert!(whole > limit - limit / 1_000, "{algorithm:?}: {whole} of {limit}");
        assert_eq!(take(whole + 1, u64::MAX).retry_after, None, "it can never fit");
        let first = take(AHEAD_MAX + 1, u64::MAX);
        let left = whole - AHEAD_MAX - 1;
        assert_eq!((first.cells, first.parts.remaining), (AHEAD_MAX + 1, left), "{algorithm:?}");
        let ahead = take(1, u64::MAX);
        assert_eq!((ahead.cells, ahead.parts.remaining), (AHEAD_MAX, left - AHEAD_MAX));
        let denied = take(left - AHEAD_MAX + 1, u64::MAX);
        assert!(denied.cells == 0 && denied.retry_after.is_some(), "{denied:?}");
        let last = take(left - AHEAD_MAX, u64::MAX);
        assert_eq!((last.cells, last.parts.remaining), (left - AHEAD_MAX, 0), "{algorithm:?}");
    }
}

/// Granted: everything. A division must not lose a cell to rounding.
#[test]
fn the_last_cell_is_found() {
    let Some(server) = Server::start() else { return };
    let store = server.store().build().expect("a store");
    for limit in 1..200 {
        let quota = Quota::per_second(limit).burst(3_000);
        let gate = RedisLimiter::builder(&store, format!("last{limit}"), quota);
        // A whole number of cells comes back in a second.
        let gate = gate.leases(Duration::from_secs(1)).build().expect("a limiter");
        let gate = gate.at_micros(BEGINNING_MICROS);
        let taken = block_on(gate.take("k", 1, u64::MAX)).expect("an answer");
        assert_eq!((taken.cells, taken.parts.remaining), (3_000 - limit, 0), "{limit}/s");
    }
}

/// Granted: as many cells as there are, never fewer than the minimum. A request that can never fit
/// says so.
#[test]
fn take_grants_at_least_min_and_at_most_max() {
    let Some(server) = Server::start() else { return };
    let store = server.store().build().expect("a store");
    for (algorithm, limit) in [
        (Algorithm::Gcra, 90),
        (Algorithm::fixed_window(), 100),
        (Algorithm::sliding_counter(), 100),
    ] {
        let gate =
            RedisLimiter::builder(&store, "some", parse("100/s")).algorithm(algorithm.clone());
        let gate = gate.leases(Duration::from_millis(100)).build().expect("a limiter");
        let gate = gate.at_micros(BEGINNING_MICROS);
        let take = |min, max| block_on(gate.take("k", min, max)).expect("an answer");
        let first = take(1, 60);
        assert_eq!((first.cells, first.parts.limit), (60, limit), "{algorithm:?}");
        assert_eq!(first.parts.remaining, limit - 60);
        let second = take(10, u64::MAX);
        assert_eq!((second.cells, second.parts.remaining), (limit - 60, 0));
        let third = take(1, 5);
        assert_eq!(third.cells, 0);
        assert!(third.retry_after.is_some_and(|wait| wait > Duration::ZERO));
        let never = take(101, 200);
        assert_eq!((never.cells, never.retry_after), (0, None));
    }
}
