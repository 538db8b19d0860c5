//! A clock of two tiers: requests are admitted by its coarse time and denied by its precise one.

use proptest::prelude::*;
use tollgate::algorithm::Algorithm;
use tollgate::limiter::SlotLayout;
use tollgate::{Clock, Direct, Gcra, Limiter, ManualClock, Quota, SlidingLog, Tick};

/// A precise time, and a coarse time that lags behind it.
#[derive(Default)]
struct Tiers {
    precise: ManualClock,
    coarse: ManualClock,
}

impl Clock for Tiers {
    fn now(&self) -> Tick {
        self.precise.now()
    }

    fn coarse(&self) -> Option<Tick> {
        Some(self.coarse.now())
    }
}

use crate::bodies::span::worst_excess;

const SECOND: u64 = 1_000_000_000;
/// The maximum lag of the coarse clock.
const LAG: u64 = SECOND / 4;
const LIMIT: u64 = 5;

/// The time since the last request, the lag of the coarse clock, and the cells asked for.
type Request = (u64, u64, u64);

/// The time and the cells of every grant, equal for one key and for the one bucket of a direct
/// limiter.
fn granted<A: Algorithm + Clone>(algorithm: A, requests: &[Request]) -> Vec<(u64, u64)> {
    let tiers = Tiers::default();
    let quota = Quota::per_second(LIMIT);
    let gate: Limiter<str, A, _> = Limiter::builder(quota)
        .algorithm(algorithm.clone())
        .clock(&tiers)
        .slots(SlotLayout::Wide)
        .build()
        .expect("fits");
    let direct = Direct::builder(quota).algorithm(algorithm).clock(&tiers).build().expect("fits");
    let mut now = SECOND;
    let mut granted = Vec::new();
    for &(gap, lag, n) in requests {
        now += gap;
        tiers.precise.set(Tick::from_nanos(now));
        tiers.coarse.set(Tick::from_nanos(now - lag));
        let before = gate.ask("key").cells(n).at(tiers.now()).peek();
        let decision = gate.check_n("key", n);
        assert_eq!(decision.is_ok(), direct.check_n(n).is_ok());
        match decision {
            Ok(_) => granted.push((now, n)),
            // A denial uses the precise time, and so does its wait.
            Err(denied) => assert_eq!(before, Err(denied)),
        }
    }
    granted
}

#[allow(clippy::cast_precision_loss, reason = "seconds")]
fn bucket(span: u64) -> f64 {
    LIMIT as f64 * (1.0 + span as f64 / SECOND as f64)
}

fn requests() -> impl Strategy<Value = Vec<Request>> {
    prop::collection::vec((0..SECOND / 3, 0..=LAG, 0_u64..4), 1..80)
}

proptest! {
    #[test]
    fn a_bucket_grants_at_most_the_cells_of_the_lag_more(requests in requests()) {
        let granted = granted(Gcra::new(), &requests);
        // A unit of the time grid may come early once: 2.5 microseconds.
        prop_assert!(worst_excess(&granted, |span| bucket(span + LAG + 2_500)) <= 0.0);
    }

    #[test]
    fn without_lag_a_bucket_grants_as_much_as_with_one_clock(requests in requests()) {
        let granted = granted(Gcra::new(), &requests.iter().map(|&(gap, _, n)| (gap, 0, n)).collect::<Vec<_>>());
        prop_assert!(worst_excess(&granted, |span| bucket(span + 2_500)) <= 0.0);
    }

    #[test]
    fn a_log_keeps_its_limit_in_any_period_less_the_lag(requests in requests()) {
        for log in [SlidingLog::new(), SlidingLog::new().count_denials()] {
            let granted = granted(log, &requests);
            let limit = |span| if span < SECOND - LAG { LIMIT } else { u64::from(u32::MAX) };
            #[allow(clippy::cast_precision_loss, reason = "small")]
            let excess = worst_excess(&granted, |span| limit(span) as f64);
            prop_assert!(excess <= 0.0);
        }
    }
}

#[test]
fn the_bound_of_the_lag_is_reached() {
    // A burst that is charged at a time a quarter of a second ago leaves room for one of the five a
    // second.
    let requests = [(0, 0, 1), (SECOND, LAG, LIMIT), (0, 0, 1), (0, 0, 1)];
    assert_eq!(granted(Gcra::new(), &requests).len(), 3, "with one clock it would be 2");
}

#[test]
fn a_log_that_counts_denials_counts_each_once() {
    let tiers = Tiers::default();
    let log = SlidingLog::new().count_denials();
    let gate = Direct::builder(Quota::per_second(2)).algorithm(log).clock(&tiers).build();
    let gate = gate.expect("in range");
    tiers.precise.set(Tick::from_nanos(SECOND));
    tiers.coarse.set(Tick::from_nanos(SECOND));
    assert!(gate.check_n(1).is_ok());
    let twin = Direct::builder(Quota::per_second(2)).algorithm(log).clock(&tiers.precise).build();
    let twin = twin.expect("in range");
    assert!(twin.check_n(1).is_ok());
    for _ in 0..3 {
        assert_eq!(gate.check_n(2), twin.check_n(2));
        assert_eq!(
            gate.ask().cells(0).at(tiers.now()).peek(),
            twin.ask().cells(0).at(tiers.now()).peek()
        );
    }
}
