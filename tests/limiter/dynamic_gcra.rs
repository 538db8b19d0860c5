//! Quotas that change in use: the waits and debts of a key after many changes, and by a clock that
//! is behind the latest change.

use std::time::Duration;

use tollgate::dynamic::{DynamicGcra, Inherit};
use tollgate::{Decision, Direct, Limiter, ManualClock, Quota, Tick};

const SECOND: u64 = 1_000_000_000;
const YEAR: Duration = Duration::from_secs(365 * 24 * 3_600);

fn at(nanos: u64) -> Tick {
    Tick::from_nanos(nanos)
}

fn keyed(quota: Quota) -> Limiter<u64, DynamicGcra, ManualClock> {
    Limiter::builder(quota)
        .algorithm(DynamicGcra::new())
        .clock(ManualClock::new())
        .capacity(10)
        .hash_seed(1)
        .build()
        .expect("in range")
}

fn direct(quota: Quota) -> Direct<DynamicGcra, ManualClock> {
    let builder = Direct::builder(quota).algorithm(DynamicGcra::new()).clock(ManualClock::new());
    builder.build().expect("in range")
}

/// The cells left, by a peek for none.
fn remaining(peeked: Decision) -> u64 {
    peeked.expect("a peek for no cells succeeds").remaining()
}

/// Quotas whose clock advances a little at a reset, and by the maximum.
fn quotas() -> [Quota; 4] {
    let decade = Quota::new(10, YEAR).burst(10);
    [Quota::per_second(1_000), Quota::per_hour(100), Quota::per_hour(3_000), decade]
}

#[test]
fn an_idle_key_owes_nothing_after_any_number_of_quota_resets() {
    for quota in quotas() {
        let (gate, alone) = (keyed(quota), direct(quota));
        let all = quota.burst_cells();
        assert!(
            gate.ask(&1).cells(all).at(at(0)).check().is_ok()
                && alone.ask().cells(all).at(at(0)).check().is_ok()
        );
        for reset in 1..=20_000 {
            let now = at(reset * SECOND);
            // The other key spends all its cells each time.
            assert!(gate.ask(&2).cells(all).at(now).check().is_ok(), "reset {reset} of {quota:?}");
            gate.set_quota_at(quota, Inherit::Reset, now).expect("in range");
            alone.set_quota_at(quota, Inherit::Reset, now).expect("in range");
            let left = remaining(gate.ask(&1).cells(0).at(now).peek());
            let left_alone = remaining(alone.ask().cells(0).at(now).peek());
            assert_eq!([left, left_alone], [all; 2], "after {reset} resets of {quota:?}");
        }
    }
}

/// An additive change to a smaller burst and back forgives the difference of the bursts.
#[test]
fn an_idle_key_owes_nothing_after_any_number_of_burst_changes() {
    for quota in quotas() {
        let (gate, alone) = (keyed(quota), direct(quota));
        let all = quota.burst_cells();
        assert!(
            gate.ask(&1).cells(all).at(at(0)).check().is_ok()
                && alone.ask().cells(all).at(at(0)).check().is_ok()
        );
        let begun = 20 * u64::try_from(YEAR.as_nanos()).expect("a year");
        for change in 0..20_000 {
            let now = at(begun + change * SECOND);
            let burst = if change % 2 == 0 { 1 } else { all };
            gate.set_quota_at(quota.burst(burst), Inherit::Additive, now).expect("in range");
            alone.set_quota_at(quota.burst(burst), Inherit::Additive, now).expect("in range");
            let left = remaining(gate.ask(&1).cells(0).at(now).peek());
            let left_alone = remaining(alone.ask().cells(0).at(now).peek());
            assert_eq!([left, left_alone], [burst; 2], "after {change} changes of {quota:?}");
        }
    }
}

#[test]
fn a_caller_whose_clock_is_behind_a_quota_change_gets_a_sufficient_wait() {
    let quota = Quota::per_second(10);
    let (gate, alone) = (keyed(quota), direct(quota));
    let change = 5 * SECOND;
    for limiter in 0..2 {
        let ask = |n, now| {
            if limiter == 0 {
                gate.ask(&1).cells(n).at(now).check()
            } else {
                alone.ask().cells(n).at(now).check()
            }
        };
        assert!(ask(10, at(change)).is_ok());
        let (slower, now) = (Quota::per_second(2).burst(10), at(change));
        let changed = if limiter == 0 {
            gate.set_quota_at(slower, Inherit::AsIs, now)
        } else {
            alone.set_quota_at(slower, Inherit::AsIs, now)
        };
        changed.expect("in range");
        for behind in [0, 1, 3_333, SECOND, 4 * SECOND] {
            let now = at(change - behind);
            let denied = ask(1, now).expect_err("all was spent");
            let wait = denied.retry_after().expect("one cell fits");
            // Half a second after the change, however far before it the caller asked.
            assert_eq!(wait, Duration::from_nanos(behind + SECOND / 2), "{behind} ns behind");
            let full = now.saturating_add(denied.reset_after());
            assert_eq!(full, at(change + 5 * SECOND), "{behind} ns behind");
            let never = ask(11, now).expect_err("more than the burst");
            assert_eq!(never.retry_after(), None);
        }
        assert!(ask(1, at(change + SECOND / 2 - 1)).is_err());
        assert!(ask(1, at(change + SECOND / 2)).is_ok());
    }
}

/// The wait for cells charged beyond the burst also counts from the caller's own time.
#[test]
fn a_charge_by_a_clock_behind_a_quota_change_returns_the_wait_from_its_own_time() {
    let (gate, change) = (keyed(Quota::per_second(10)), 5 * SECOND);
    assert!(gate.ask(&1).cells(10).at(at(change)).check().is_ok());
    gate.set_quota_at(Quota::per_second(10), Inherit::AsIs, at(change)).expect("in range");
    let turn = gate.ask(&1).at(at(change - SECOND)).charge();
    assert_eq!(turn, Duration::from_millis(1_100));
    let turn = gate.ask(&1).at(at(change)).charge();
    assert_eq!(turn, Duration::from_millis(200));
    assert_eq!(
        gate.ask(&2).cells(10).at(at(change - SECOND)).charge(),
        Duration::ZERO,
        "within the burst"
    );
}

/// If buckets start empty, a key that has filled up differs from one that was never seen.
#[test]
fn a_key_that_has_filled_up_stays_full_through_resets_if_buckets_start_empty() {
    let quota = Quota::new(10, YEAR).burst(10);
    let builder = Limiter::builder(quota).algorithm(DynamicGcra::start_empty());
    let gate: Limiter<u64, _, _> =
        builder.clock(ManualClock::new()).capacity(10).build().expect("in range");
    assert!(gate.ask(&1).cells(10).at(at(0)).check().is_err());
    let filled = at(0).saturating_add(YEAR);
    for reset in 1..=1_000 {
        gate.set_quota_at(quota, Inherit::Reset, filled).expect("in range");
        let left = |key| remaining(gate.ask(&key).cells(0).at(filled).peek());
        assert_eq!((left(1), left(2)), (10, 0), "after {reset} resets");
    }
}

#[test]
fn a_reservation_that_a_reset_has_forgiven_refunds_nothing() {
    let quota = Quota::per_hour(10);
    let built = Direct::builder(quota).algorithm(DynamicGcra::new()).clock(ManualClock::new());
    let gate = built.build().expect("in range");
    let reset = Tick::from_nanos(5_000_000_000);
    // The thread that resets has read its clock before the charge.
    for late in [0, 1] {
        let at = reset.saturating_add(Duration::from_nanos(late));
        let reserved = gate.ask().cells(10).at(at).reserve().expect("10 are there");
        gate.set_quota_at(quota, Inherit::Reset, reset).expect("in range");
        let later = Tick::from_nanos(6_000_000_000);
        assert!(gate.ask().cells(10).at(later).check().is_ok());
        reserved.refund_at(later);
        assert!(gate.ask().cells(1).at(later).check().is_err());
        gate.set_quota_at(quota, Inherit::Reset, reset).expect("in range");
    }
}
