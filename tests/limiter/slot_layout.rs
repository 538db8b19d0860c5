//! The slot layout that a limiter chooses, and the cost of compact slots.

use std::time::Duration;

use tollgate::algorithm::Algorithm;
use tollgate::dynamic::DynamicGcra;
use tollgate::limiter::SlotLayout;
use tollgate::{
    AnyAlgorithm, BuildError, FixedWindow, Gcra, LeakyQueue, Limiter, ManualClock, OnFull, Quota,
    SlidingLog, SubWindows, Tick, WarmUp,
};

/// The smallest capacity for which compact slots are chosen automatically.
const KEYS: u64 = 30_000;
const SKEW: Duration = Duration::from_millis(1);

fn built<A: Algorithm>(
    algorithm: A,
    quota: &str,
    slots: SlotLayout,
    skew: Duration,
) -> Result<Limiter<u64, A, ManualClock>, BuildError> {
    Limiter::builder(quota.parse().expect("a quota"))
        .algorithm(algorithm)
        .clock(ManualClock::new())
        .capacity(KEYS)
        .slots(slots)
        .max_clock_skew(skew)
        .build()
}

/// Determined by the memory that the limiter takes.
fn is_compact<A: Algorithm>(algorithm: A, quota: &str, slots: SlotLayout, skew: Duration) -> bool {
    let gate = built(algorithm, quota, slots, skew).expect("in range");
    gate.memory_bytes() as u64 <= 15 * KEYS
}

#[test]
fn ordinary_quotas_get_compact_slots_automatically() {
    for quota in ["100/s burst 20", "1/s", "10/minute", "1000/s", "50000/s burst 1000"] {
        assert!(is_compact(Gcra::new(), quota, SlotLayout::default(), SKEW), "{quota}");
        assert!(is_compact(Gcra::start_empty(), quota, SlotLayout::Auto, SKEW), "{quota}");
        assert!(is_compact(LeakyQueue::new(), quota, SlotLayout::Auto, SKEW), "{quota}");
        assert!(!is_compact(Gcra::new(), quota, SlotLayout::Wide, SKEW), "{quota}");
    }
    assert!(is_compact(FixedWindow::anchored(), "60/minute", SlotLayout::Auto, SKEW));
    assert!(is_compact(FixedWindow::aligned(), "100/s", SlotLayout::Auto, SKEW));
    assert!(is_compact(AnyAlgorithm::from(Gcra::new()), "1/s", SlotLayout::Auto, SKEW));
    assert!(is_compact(AnyAlgorithm::from(FixedWindow::aligned()), "1/s", SlotLayout::Auto, SKEW));
    assert!(is_compact(AnyAlgorithm::from(LeakyQueue::new()), "1/s", SlotLayout::Auto, SKEW));
}

#[test]
fn a_quota_that_does_not_fit_compact_slots_gets_wide_ones_unless_compact_is_requested() {
    let hours = Duration::from_secs(2 * 3_600);
    assert!(!is_compact(FixedWindow::anchored(), "1000/s", SlotLayout::Auto, SKEW));
    assert!(!is_compact(AnyAlgorithm::from(SlidingLog::new()), "1/s", SlotLayout::Auto, SKEW));
    assert!(!is_compact(Gcra::new(), "1000000/s burst 10", SlotLayout::Auto, SKEW));
    // It fits, but not for thirty days, and not for clocks that far apart.
    assert!(!is_compact(Gcra::new(), "1000000/s", SlotLayout::Auto, SKEW));
    assert!(is_compact(Gcra::new(), "1000000/s", SlotLayout::Compact, SKEW));
    assert!(!is_compact(Gcra::new(), "1000/s burst 1", SlotLayout::Auto, SKEW));
    assert!(is_compact(Gcra::new(), "1000/s burst 1", SlotLayout::Compact, SKEW));
    assert!(!is_compact(Gcra::new(), "1/s", SlotLayout::Auto, hours));
    let error = |built: Result<_, BuildError>| built.map(|_: Limiter<u64, _, _>| ()).unwrap_err();
    assert_eq!(
        error(built(Gcra::new(), "1/s", SlotLayout::Compact, hours)),
        BuildError::SkewTooLarge { max: hours / 4 }
    );
    let too_fast = built(Gcra::new(), "1000000/s burst 10", SlotLayout::Compact, SKEW);
    assert_eq!(error(too_fast), BuildError::NotCompact);
    let windows = built(SubWindows::new(), "1/s", SlotLayout::Compact, SKEW);
    assert_eq!(windows.map(|_| ()).unwrap_err(), BuildError::NotCompact);
}

#[test]
fn the_quota_that_keys_without_a_slot_share_bounds_the_clock_skew_too() {
    let built: Result<Limiter<u64>, _> = Limiter::builder(Quota::per_minute(5))
        .max_clock_skew(Duration::from_secs(3_600))
        .on_full(OnFull::SharedOverflow(Quota::per_second(1_000_000_000).burst(10)))
        .build();
    let error = built.map(drop).unwrap_err();
    assert!(matches!(error, BuildError::OverflowSkewTooLarge { .. }));
    assert!(error.to_string().contains("states of the overflow quota"), "{error}");
}

#[test]
fn leases_plans_and_dynamic_quotas_need_wide_slots_and_the_error_says_so() {
    fn needs_wide<A: Algorithm + Clone>(algorithm: A, name: &str) {
        assert!(!is_compact(algorithm.clone(), "100/s", SlotLayout::Auto, SKEW), "{name}");
        let error = built(algorithm, "100/s", SlotLayout::Compact, SKEW).map(|_| ()).unwrap_err();
        assert_eq!(error, BuildError::NotCompact, "{name}");
    }
    needs_wide(Gcra::new().leases(10), "leases");
    needs_wide(FixedWindow::anchored().leases(10), "leases of windows");
    needs_wide(Gcra::new().for_plans(), "plans");
    needs_wide(DynamicGcra::new(), "live");
    needs_wide(WarmUp::new(Duration::from_secs(10)), "warm-up");
    let advice = BuildError::NotCompact.to_string();
    for word in ["SlotLayout::Auto", "Gcra::leases", "lease_hot_keys", "Gcra::for_plans"] {
        assert!(advice.contains(word), "{word}: {advice}");
    }
    // Without `for_plans`, a limiter supports plans and reservations in both kinds of slot.
    let gate = built(Gcra::new(), "100/s", SlotLayout::Compact, SKEW).expect("it fits");
    let plan = gate.plan(Quota::per_second(50)).expect("it fits");
    assert_eq!(gate.ask(&1).plan(&plan).check().map(|permit| permit.limit()), Ok(50));
    assert!(gate.ask(&2).cells(3).reserve().is_ok());
}

/// A small table would not be faster with compact slots.
#[test]
fn small_tables_get_wide_slots_unless_compact_is_requested() {
    let small = || Limiter::<u64>::builder(Quota::per_second(1)).capacity(KEYS - 1);
    let bytes = |gate: Limiter<u64>| gate.memory_bytes() as u64;
    assert!(bytes(small().build().expect("in range")) > 28 * KEYS);
    assert!(bytes(small().slots(SlotLayout::Compact).build().expect("in range")) < 15 * KEYS);
    assert!(bytes(small().capacity(KEYS).build().expect("in range")) < 15 * KEYS);
}

/// Two keys with the same 26 fingerprint bits share a bucket: the second is denied too early, and
/// both together are granted no more than one key.
#[test]
fn keys_that_coincide_share_one_burst() {
    let gate: Limiter<u64, _, _> = Limiter::builder(Quota::per_day(5))
        .clock(ManualClock::new())
        .capacity(1)
        .on_full(OnFull::Deny)
        .slots(SlotLayout::Compact)
        .hash_seed(7)
        .build()
        .expect("in range");
    for key in 0..16 {
        assert!(gate.ask(&key).cells(5).at(Tick::ZERO).check().is_ok());
    }
    let spent = |key: &u64| gate.ask(key).at(Tick::ZERO).peek().is_err();
    let tried = (16..1 << 26).position(|key| spent(&key)).expect("one in four million");
    let key = 16 + tried as u64;
    assert!(gate.ask(&key).at(Tick::ZERO).check().is_err());
    assert_eq!(gate.stats().denied_full, 0, "it was denied by the bucket that it shares");
    gate.reset(&key);
    assert_eq!((0..16).filter(|key| !spent(key)).count(), 1, "one of the sixteen was reset");
    assert!(gate.ask(&key).cells(5).at(Tick::ZERO).check().is_ok());
    assert_eq!((0..16).filter(|key| !spent(key)).count(), 0);
}

/// The models of keyed limiters give every key an oracle of its own. They would be wrong if two of
/// their keys shared a bucket, for whatever seed.
#[test]
fn no_two_keys_of_the_models_share_a_fingerprint() {
    for seed in 0..256 {
        let gate: Limiter<u16, _, _> = Limiter::builder(Quota::per_day(1))
            .clock(ManualClock::new())
            .capacity(1)
            .slots(SlotLayout::Compact)
            .hash_seed(seed)
            .build()
            .expect("in range");
        for key in 0..60 {
            assert!(gate.ask(&key).at(Tick::ZERO).check().is_ok());
            let spent = |other: &u16| gate.ask(other).at(Tick::ZERO).peek().is_err();
            assert_eq!((0..60).filter(spent).count(), 1, "{key}, seed {seed}");
            gate.reset(&key);
        }
    }
}
