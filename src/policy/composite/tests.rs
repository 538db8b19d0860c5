//! The state of each limit after a denied request, and the contents of the denial.

use core::time::Duration;

use super::{Composite, CompositeError};
use crate::algo::gcra::Gcra;
use crate::algo::sliding_log::SlidingLog;
use crate::concurrency::{ConcurrencyLimiter, DirectConcurrency};
use crate::limiter::builder::OnFull;
use crate::limiter::direct::Direct;
use crate::limiter::{Limiter, SlotLayout};
use crate::quota::Quota;
use crate::time::{ManualClock, Tick};

type Bucket = Direct<Gcra, ManualClock>;
type Buckets = Limiter<u64, Gcra, ManualClock>;

fn at(seconds: u64) -> Tick {
    Tick::from_duration(Duration::from_secs(seconds))
}

fn bucket(quota: Quota) -> Bucket {
    Direct::builder(quota).clock(ManualClock::new()).build().expect("in range")
}

/// 16 slots, which are candidates for every key.
fn buckets_of(algorithm: Gcra, on_full: OnFull) -> Buckets {
    let builder = Limiter::builder(Quota::per_hour(3)).algorithm(algorithm).on_full(on_full);
    let builder = builder.clock(ManualClock::new()).slots(SlotLayout::Wide).capacity(1);
    builder.count_decisions().build().expect("in range")
}

fn buckets() -> Buckets {
    buckets_of(Gcra::new(), OnFull::Deny)
}

/// Requests admitted and denied, and those of keys without a slot.
fn counts(gate: &Buckets) -> (Option<u64>, Option<u64>, u64) {
    let stats = gate.stats();
    (stats.admitted, stats.denied, stats.denied_full + stats.admitted_full + stats.overflowed)
}

fn left(gate: &Bucket) -> u64 {
    gate.ask().cells(0).at(at(0)).peek().expect("no cells").remaining()
}

#[test]
fn a_limit_that_denies_the_charge_leaves_the_limits_before_it_uncharged() {
    // Added twice, it has room for two cells at each look, and then for the first charge only.
    let (first, twice, last) = (bucket(Quota::per_hour(9)), buckets(), bucket(Quota::per_hour(9)));
    let gate = Composite::<u64>::builder()
        .shared("first", &first)
        .keyed("twice", &twice, |key| key)
        .keyed("again", &twice, |key| key)
        .shared("last", &last)
        .build()
        .expect("token buckets");
    let denied = gate.ask(&7).cells(2).at(at(0)).check().expect_err("three cells for four");
    assert_eq!((denied.limit_name(), denied.denied().remaining()), ("again", 1));
    assert_eq!([left(&first), left(&last)], [9, 9]);
    assert_eq!(twice.ask(&7).cells(0).at(at(0)).peek().expect("no cells").remaining(), 3);
    assert_eq!(counts(&twice), (Some(0), Some(1), 0));
    assert!(gate.ask(&7).at(at(0)).check().is_ok());
    assert_eq!([left(&first), left(&last)], [8, 8]);
    assert_eq!(counts(&twice), (Some(2), Some(1), 0));
}

#[test]
fn a_key_that_has_a_slot_or_asks_for_too_much_is_not_denied_for_lack_of_a_slot() {
    let (limited, open) = (buckets(), bucket(Quota::per_hour(9)));
    let gate = Composite::<u64>::builder().keyed("limited", &limited, |key| key);
    let gate = gate.shared("open", &open).build().expect("token buckets");
    assert!(gate.ask(&7).cells(3).at(at(0)).check().is_ok());
    assert!(gate.ask(&7).at(at(0)).check().is_err());
    assert!(gate.ask(&8).cells(4).at(at(0)).check().is_err());
    assert_eq!(counts(&limited), (Some(1), Some(2), 0));
}

/// Its first denial begins its time.
#[test]
fn a_bucket_that_starts_empty_is_denied_once_and_fills_from_then_on() {
    let limited = buckets_of(Gcra::start_empty(), OnFull::Deny);
    let one = Direct::builder(Quota::per_hour(3)).algorithm(Gcra::start_empty());
    let one = one.clock(ManualClock::new()).build().expect("in range");
    let open = bucket(Quota::per_hour(9));
    let keyed = Composite::<u64>::builder().keyed("limited", &limited, |key| key);
    let keyed = keyed.shared("open", &open).build().expect("token buckets");
    let shared = Composite::<u64>::builder().shared("one", &one);
    let shared = shared.shared("open", &open).build().expect("token buckets");
    for gate in [&keyed, &shared] {
        let third = 20 * 60;
        let admitted = [third, 2 * third].map(|now| gate.ask(&7).at(at(now)).check().is_ok());
        assert_eq!(admitted, [false, true]);
    }
    assert_eq!(counts(&limited), (Some(1), Some(1), 0));
}

#[test]
fn a_request_for_nothing_needs_no_slot() {
    let (full, open) = (buckets(), bucket(Quota::per_hour(9)));
    (0..16).for_each(|key| assert!(full.ask(&key).at(at(0)).check().is_ok()));
    let before = Composite::<u64>::builder().keyed("full", &full, |key| key).shared("open", &open);
    let after = Composite::<u64>::builder().shared("open", &open).keyed("full", &full, |key| key);
    for gate in [before, after] {
        let gate = gate.build().expect("token buckets");
        assert!(gate.ask(&99).cells(0).at(at(0)).check().is_ok());
        assert_eq!(gate.ask(&99).at(at(0)).check().expect_err("no slot").limit_name(), "full");
    }
    assert_eq!(counts(&full).2, 2);
}

#[test]
fn a_key_without_a_slot_that_asks_for_more_than_ever_fits_is_not_counted_as_admitted() {
    let full = buckets_of(Gcra::new().for_plans(), OnFull::Admit);
    (0..16).for_each(|key| assert!(full.ask(&key).at(at(0)).check().is_ok()));
    // More at once than the limiter's own quota, which decides about keys without a slot.
    let plan = full.plan(Quota::per_hour(3).burst(5)).expect("in range");
    assert!(full.ask(&99).plan(&plan).cells(4).at(at(0)).check().is_err());
    let open = bucket(Quota::per_hour(9));
    let gate = Composite::<u64>::builder()
        .keyed_planned("full", &full, |key| key, |_| plan.clone())
        .shared("open", &open)
        .build()
        .expect("token buckets");
    let denied = gate.ask(&99).cells(4).at(at(0)).check().expect_err("3 fit");
    assert_eq!((denied.limit_name(), denied.retry_after()), ("full", None));
    assert_eq!(full.stats().admitted_full, 0);
    assert!(gate.ask(&99).cells(3).at(at(0)).check().is_ok());
    assert_eq!(full.stats().admitted_full, 1);
}

#[test]
fn a_request_counts_as_one_in_flight_whatever_its_cells() {
    let all = DirectConcurrency::new(1).expect("in range");
    let each = ConcurrencyLimiter::<u64>::builder(1).build().expect("in range");
    let rate = bucket(Quota::per_second(2));
    let gate = Composite::<u64>::builder()
        .shared_in_flight("all", &all)
        .keyed_in_flight("each", &each, |key| key)
        .shared("rate", &rate)
        .build()
        .expect("all can be refunded");
    assert!(gate.ask(&7).cells(2).at(at(0)).check().is_ok());
    let denied = gate.ask(&7).cells(2).at(at(0)).check().expect_err("2 a second");
    assert_eq!((denied.limit_name(), denied.by_requests_in_flight()), ("rate", false));
    assert_eq!(denied.retry_after(), Some(Duration::from_secs(1)));
    assert_eq!(denied.to_string(), "denied by the limit \"rate\", retry after 1s");
}

#[test]
fn the_first_limit_that_would_deny_denies_also_if_it_counts_requests_in_flight() {
    let all = DirectConcurrency::new(1).expect("in range");
    let rate = bucket(Quota::per_second(1));
    let gate = Composite::<u64>::builder().shared_in_flight("all", &all).shared("rate", &rate);
    let gate = gate.build().expect("all can be refunded");
    let first = gate.ask(&7).at(at(0)).enter().expect("room");
    assert_eq!(first.permit().tightest(), "rate");
    let denied = gate.ask(&7).at(at(0)).enter().expect_err("both deny");
    assert_eq!((denied.limit_name(), denied.by_requests_in_flight()), ("all", true));
    drop(first);
    let denied = gate.ask(&7).at(at(0)).enter().expect_err("a second has to pass");
    assert_eq!((denied.limit_name(), denied.by_requests_in_flight()), ("rate", false));
}

#[test]
fn a_limit_with_keys_that_cannot_refund_can_only_be_last() {
    let log = Limiter::<u64>::builder(Quota::per_hour(5)).algorithm(SlidingLog::new());
    let (log, open) = (log.build().expect("in range"), bucket(Quota::per_hour(9)));
    let first = Composite::<u64>::builder().keyed("log", &log, |key| key).shared("open", &open);
    assert_eq!(first.build().unwrap_err(), CompositeError::NotLast { name: "log" });
    let last = Composite::<u64>::builder().shared("open", &open).keyed("log", &log, |key| key);
    assert!(last.build().is_ok());
}
