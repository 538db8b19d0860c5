//! Keys that stay away while the quota changes, and the machine of a quota that has changed.

use super::*;
use crate::time::ManualClock;

const DAY: u64 = 24 * 3_600;
const YEAR: Duration = Duration::from_secs(365 * DAY);
/// The skew of the clocks, in which some of a key's cells come back.
const SKEW: Duration = Duration::from_secs(500);

fn at(seconds: u64) -> Tick {
    Tick::from_duration(Duration::from_secs(seconds))
}

fn keyed(quota: Quota) -> Limiter<u64, DynamicGcra, ManualClock> {
    let builder = Limiter::builder(quota).algorithm(DynamicGcra::new()).max_clock_skew(SKEW);
    builder.clock(ManualClock::new()).capacity(10).build().expect("in range")
}

fn direct(quota: Quota) -> Direct<DynamicGcra, ManualClock> {
    let builder = Direct::builder(quota).algorithm(DynamicGcra::new());
    builder.clock(ManualClock::new()).build().expect("in range")
}

/// Resets set the clock of the states forward, so that their ring wears out; this quota's in dozens.
#[test]
fn an_idle_key_has_all_its_cells_after_hundreds_of_resets() {
    let quota = Quota::new(10, YEAR).burst(10);
    let (gate, alone) = (keyed(quota), direct(quota));
    assert!(gate.ask(&1).cells(10).at(at(0)).check().is_ok());
    assert!(alone.ask().cells(10).at(at(0)).check().is_ok());
    for reset in 1..=400 {
        let now = at(reset);
        gate.set_quota_at(quota, Inherit::Reset, now).expect("in range");
        alone.set_quota_at(quota, Inherit::Reset, now).expect("in range");
        let left = gate.ask(&1).cells(0).at(now).peek().expect("no cells").remaining();
        let left_alone = alone.ask().cells(0).at(now).peek().expect("no cells").remaining();
        assert_eq!([left, left_alone], [10; 2], "after {reset} resets");
    }
}

/// Renewing takes time for each slot.
#[test]
fn states_are_renewed_only_when_the_ring_is_worn_out() {
    let quota = Quota::new(10, YEAR).burst(10);
    let (gate, mut renewed) = (direct(quota), Vec::new());
    for reset in 1..=60 {
        let change = Change { quota: &quota, inherit: Inherit::Reset, now: at(reset) };
        gate.params().change(change, |_| renewed.push(reset)).expect("in range");
    }
    assert_eq!(renewed, [8, 15, 22, 29, 36, 43, 50, 57]);
}

/// Time wears the ring out as well: with this quota in less than two years. A state that is renewed then is idle for a
/// clock that is behind, too.
#[test]
fn an_idle_key_has_all_its_cells_after_decades_of_changes() {
    let quota = Quota::per_second(31_250);
    let gate = keyed(quota);
    assert!(gate.ask(&1).cells(31_250).at(at(0)).check().is_ok());
    for change in 1..=12 {
        let now = at(change * 2 * 365 * DAY);
        gate.set_quota_at(quota, Inherit::Spent, now).expect("in range");
        for now in [now, now.saturating_sub(SKEW)] {
            let left = gate.ask(&1).cells(0).at(now).peek().expect("no cells").remaining();
            assert_eq!(left, 31_250, "after {change} changes");
        }
    }
}

#[test]
fn the_machine_answers_by_the_quota_in_force() {
    let gate = direct(Quota::per_second(10));
    gate.set_quota_at(Quota::per_second(2).burst(10), Inherit::AsIs, at(1)).expect("in range");
    let (params, now) = (gate.params(), at(3));
    let (by, word) = (params.now(), params.fresh(now));
    let Step::Admit { next } = params.step(word, now, 4) else { panic!("four of ten") };
    assert_eq!(params.instant(now), by.instant(now));
    assert_eq!(params.idle_in(next, by.instant(now)), by.idle_in(next, by.instant(now)));
    assert!(params.idle_in(next, by.instant(now)) > 1);
    let receipt = Receipt { cells: 4, at: now, next };
    let left = |word| params.answer(word, now, 0).expect("no cells").remaining();
    assert_eq!(left(next), 6);
    assert_eq!(left(params.refund(next, &receipt, now, 3)), 9);
    assert_eq!(left(params.add(next, now, 2)), 8);
    assert_eq!(params.horizon().expect("a ring").as_secs() / DAY, 78);
}
