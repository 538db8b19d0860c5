//! Keys that find no slot: how long they wait for one, and what a charge to the shared limiter takes.

use std::time::Duration;

use tollgate::algorithm::Algorithm;
use tollgate::dynamic::DynamicGcra;
use tollgate::internals::Refund;
use tollgate::limiter::SlotLayout;
use tollgate::{
    AnyAlgorithm, Direct, FixedWindow, Gcra, Limiter, ManualClock, OnFull, Quota, Tick, WarmUp,
};

const MINUTE: Duration = Duration::from_secs(60);

type Gate<A> = Limiter<u64, A, ManualClock>;

/// Keys that ask for different numbers of cells, a few seconds after one another, until no slot is left.
fn fill(gate: &Gate<AnyAlgorithm>, start: u64) -> Tick {
    let mut now = Tick::from_nanos(start);
    for key in 0..100 {
        now = now.saturating_add(Duration::from_nanos(700_000_123));
        if gate.ask(&key).at(now).finds_slot() {
            let _ = gate.ask(&key).cells(1 + key * 7 % 5).at(now).check();
        }
    }
    now
}

/// The wait is that for the first slot that becomes free, to the nanosecond: whatever the windows, the counts,
/// the units of time and the allowed skew.
#[test]
fn a_denial_for_want_of_a_slot_waits_for_the_first_slot_that_becomes_free() {
    let named = AnyAlgorithm::NAMES.iter().map(|name| name.parse().expect("a name"));
    let algorithms: Vec<AnyAlgorithm> = named.chain([WarmUp::new(MINUTE).into()]).collect();
    let mut waited = 0;
    for (skew_nanos, start) in
        [(0, 0), (7, 3), (1_000_000, 0), (1_000_000, 1 << 52), (3_000_000_001, 77)]
    {
        let skew = Duration::from_nanos(skew_nanos);
        for (algorithm, quota) in algorithms.iter().flat_map(|algorithm| {
            [Quota::new(7, 3 * MINUTE), Quota::new(9, MINUTE)].map(|quota| (*algorithm, quota))
        }) {
            let gate: Gate<AnyAlgorithm> = Limiter::builder(quota)
                .algorithm(algorithm)
                .clock(ManualClock::new())
                .capacity(1)
                .on_full(OnFull::Deny)
                .max_clock_skew(skew)
                .build()
                .expect("in range");
            let mut now = fill(&gate, start);
            for key in 1_000..1_200 {
                if gate.ask(&key).at(now).finds_slot() {
                    continue;
                }
                let denied = gate.ask(&key).at(now).check().expect_err("no slot");
                let wait = denied.retry_after().expect("a slot becomes free");
                let then = now.saturating_add(wait);
                let before = then.saturating_sub(Duration::from_nanos(1));
                let case = format!("{algorithm:?}, {quota}, {skew:?} from {start}: {wait:?}");
                assert!(gate.ask(&key).at(then).finds_slot(), "too short: {case}");
                assert!(!gate.ask(&key).at(before).finds_slot(), "too long: {case}");
                assert!(denied.reset_after() >= wait, "{case}");
                waited += 1;
                now = now.saturating_add(Duration::from_nanos(12_345_678));
            }
        }
    }
    assert!(waited > 1_000, "{waited}");
}

#[test]
fn a_charge_says_whether_its_key_found_a_slot_or_a_shared_limiter() {
    let quota = Quota::new(1, 60 * MINUTE);
    let policies = [
        (OnFull::EvictNearestIdle, true),
        (OnFull::Deny, false),
        (OnFull::Admit, false),
        (OnFull::SharedOverflow(quota), true),
    ];
    for (on_full, charges_without_a_slot) in policies {
        let gate: Gate<Gcra> = Limiter::builder(quota)
            .algorithm(Gcra::new())
            .clock(ManualClock::new())
            .capacity(1)
            .on_full(on_full)
            .build()
            .expect("in range");
        let first = gate.ask(&0).try_charge();
        assert_eq!(first, Some(Duration::ZERO), "{on_full:?}");
        let key = (1..1_000).find(|key| {
            let finds_slot = gate.ask(key).finds_slot();
            assert!(!finds_slot || gate.ask(key).try_charge().is_some(), "{on_full:?}");
            !finds_slot
        });
        let key = key.expect("few slots");
        let ask = gate.ask(&key);
        assert_eq!(ask.cells(0).try_charge(), Some(Duration::ZERO), "{on_full:?}");
        let charged = ask.cells(2).try_charge();
        assert_eq!(charged.is_some(), charges_without_a_slot, "{on_full:?}");
        assert_eq!(ask.check().is_err(), on_full != OnFull::Admit, "{on_full:?}");
    }
}

/// The key's own state could hold less. The shared limiter decides how much is charged, and counts it once.
#[test]
fn a_charge_to_the_shared_limiter_takes_all_that_it_can_hold() {
    fn check<A: Algorithm<Params: Refund> + Copy>(algorithm: A, slots: SlotLayout) {
        let (own, shared) = (Quota::new(1, 60 * MINUTE), Quota::new(100, 60 * MINUTE));
        for cells in [2, 5, 90, 120, 1_000, 1 << 41, u64::MAX] {
            let gate: Gate<A> = Limiter::builder(own)
                .algorithm(algorithm)
                .clock(ManualClock::new())
                .capacity(1)
                .slots(slots)
                .on_full(OnFull::SharedOverflow(shared))
                .build()
                .expect("in range");
            let bucket = Direct::builder(shared).algorithm(algorithm).clock(ManualClock::new());
            let bucket = bucket.build().expect("in range");
            let key =
                (0..1_000).find(|key| !gate.ask(key).finds_slot() || gate.check(key).is_err());
            let key = key.expect("few slots");
            let before = gate.stats().overflowed;
            let case = format!("{cells} cells, {slots:?}");
            (0..50).for_each(|_| assert_eq!(gate.check(&key).ok(), bucket.check().ok()));
            assert_eq!(
                gate.ask(&key).cells(cells).charge(),
                bucket.ask().cells(cells).charge(),
                "{case}"
            );
            assert_eq!(gate.stats().overflowed - before, 51, "{case}");
            assert_eq!(gate.check(&key), bucket.check(), "{case}");
        }
    }
    for slots in [SlotLayout::Wide, SlotLayout::Compact] {
        check(Gcra::new(), slots);
        check(FixedWindow::anchored(), slots);
    }
    check(DynamicGcra::new(), SlotLayout::Wide);
}
