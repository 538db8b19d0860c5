//! The words and the operations of a lease cell, on one thread.

use super::word::UNIT_BITS;
use super::*;
use proptest::prelude::*;

const UNIT: u64 = 1 << UNIT_BITS;

fn at(units: u64) -> Tick {
    Tick::from_nanos(units * UNIT)
}

proptest! {
    #[test]
    fn a_word_round_trips(instant in 0..=INSTANT_MAX, count in 0..=CELLS_MAX) {
        let word = Word::new(instant, count);
        prop_assert_eq!((word.instant(), word.count()), (instant, count));
    }

    #[test]
    fn expiry_is_rounded_down_and_denials_up(nanos in 0_u64..=1 << 59) {
        let at = Tick::from_nanos(nanos);
        prop_assert!(tick(begun(at)) <= at);
        prop_assert!(tick(next(at)) >= at);
        let lease_cell = LeaseCell::default();
        lease_cell.deposit(1, at, Tick::ZERO);
        prop_assert!(!lease_cell.spend(1, at));
        lease_cell.deny(1, Until::Then(at));
        if let Some(Until::Then(then)) = lease_cell.denied(1, Tick::ZERO) {
            prop_assert!(then >= at);
        }
    }

    #[test]
    fn spent_cells_were_deposited(
        acts in prop::collection::vec((0_u64..4, 0_u64..6, 0_u64..3), 1..60),
    ) {
        let lease_cell = LeaseCell::default();
        let (mut now, mut put, mut gone) = (1, 0, 0);
        for (kind, n, gap) in acts {
            now += gap;
            if kind == 0 {
                gone += lease_cell.deposit(n, at(now + 4), at(now));
                put += n;
            } else if lease_cell.spend(n, at(now)) {
                gone += n;
            }
            prop_assert_eq!(lease_cell.unspent() + gone, put);
            prop_assert!(lease_cell.spendable(at(now)) <= lease_cell.unspent());
        }
        prop_assert_eq!(lease_cell.spendable(at(now + 4)), 0);
    }
}

#[test]
fn the_lease_that_ends_sooner_is_spent_first_and_replaced_first() {
    let lease_cell = LeaseCell::default();
    assert_eq!(lease_cell.deposit(3, at(20), at(0)), 0);
    assert_eq!(lease_cell.deposit(2, at(10), at(0)), 0);
    assert!(lease_cell.spend(1, at(5)));
    assert_eq!((lease_cell.spendable(at(5)), lease_cell.spendable(at(10))), (4, 3));
    assert!(lease_cell.spend(2, at(5)), "from the other lease");
    assert_eq!(lease_cell.deposit(7, at(60), at(5)), 1);
    assert_eq!(lease_cell.spendable(at(20)), 7);
    assert!(!lease_cell.spend(9, at(5)), "no single lease has so many");
}

#[test]
fn a_deposit_replaces_an_expired_lease() {
    let lease_cell = LeaseCell::default();
    lease_cell.deposit(3, at(20), at(0));
    lease_cell.deposit(2, at(10), at(0));
    assert_eq!(lease_cell.deposit(5, at(40), at(10)), 2, "dropped, because they had expired");
    assert_eq!(lease_cell.spendable(at(10)), 8);
    assert_eq!(lease_cell.deposit(CELLS_MAX + 9, at(90), at(10)), 12);
}

#[test]
fn a_denial_covers_as_many_cells_or_more() {
    let lease_cell = LeaseCell::default();
    assert_eq!(lease_cell.denied(0, at(0)), None);
    lease_cell.deny(3, Until::Then(at(9)));
    assert_eq!(lease_cell.denied(2, at(0)), None);
    assert_eq!(lease_cell.denied(3, at(8)), Some(Until::Then(at(9))));
    assert_eq!(lease_cell.denied(3, at(9)), None);
    lease_cell.admit(2);
    assert!(lease_cell.denied(3, at(8)).is_some());
    lease_cell.admit(3);
    assert_eq!(lease_cell.denied(3, at(8)), None);
    lease_cell.deny(3, Until::Never);
    assert_eq!(lease_cell.denied(4, Tick::MAX), Some(Until::Never));
    lease_cell.deny(CELLS_MAX + 1, Until::Then(at(9)));
    assert_eq!(lease_cell.denied(4, at(0)), Some(Until::Never), "too many to remember");
}

#[test]
fn deposits_with_close_expiries_join() {
    let lease_cell = LeaseCell::default();
    assert_eq!(lease_cell.deposit(3, at(100), at(0)), 0);
    assert_eq!(lease_cell.deposit(4, at(101), at(1)), 0);
    assert_eq!(lease_cell.deposit(5, at(102), at(2)), 0, "joined to the later one");
    assert_eq!(
        (
            lease_cell.spendable(at(99)),
            lease_cell.spendable(at(100)),
            lease_cell.spendable(at(101))
        ),
        (12, 9, 0)
    );
    assert!(lease_cell.spend(9, at(3)), "all from one lease");
    assert_eq!(lease_cell.deposit(6, at(113), at(13)), 0, "there was room");
    assert_eq!(lease_cell.deposit(7, at(112), at(13)), 0, "of a call that was sent before");
    assert_eq!((lease_cell.spendable(at(111)), lease_cell.spendable(at(112))), (13, 0));
    assert_eq!(lease_cell.deposit(8, at(170), at(60)), 3, "they would die too soon");
    assert_eq!((lease_cell.spendable(at(111)), lease_cell.spendable(at(169))), (21, 8));
    assert_eq!(lease_cell.deposit(CELLS_MAX, at(171), at(61)), 8, "a lease is full");
    assert_eq!(lease_cell.unspent(), CELLS_MAX + 13);
}

#[test]
fn calls_are_limited_and_none_begins_during_a_pause() {
    let lease_cell = LeaseCell::default();
    assert_eq!(lease_cell.call_state(at(0)), CallState::Free);
    assert_eq!((lease_cell.begin_call(1, at(0)), lease_cell.begin_call(1, at(5))), (Some(0), None));
    assert_eq!((lease_cell.begin_call(2, at(0)), lease_cell.begin_call(2, at(5))), (Some(1), None));
    assert_eq!((lease_cell.call_state(at(5)), lease_cell.in_flight()), (CallState::InFlight(2), 2));
    assert!(!lease_cell.is_idle(at(5)));
    lease_cell.finish_call(CallEnd::Free, at(9));
    assert_eq!(lease_cell.call_state(at(5)), CallState::InFlight(1));
    lease_cell.finish_call(CallEnd::Free, at(9));
    assert!(lease_cell.is_idle(at(5)));
    for (index, outcome) in (1..).zip(CallEnd::ALL.into_iter().skip(1)) {
        let end = at(10 * index);
        assert_eq!(lease_cell.begin_call(1, at(10 * index - 5)), Some(0));
        lease_cell.finish_call(outcome, end);
        assert_eq!(lease_cell.call_state(at(10 * index - 1)), CallState::Paused(0, end, outcome));
        assert_eq!(lease_cell.begin_call(1, at(10 * index - 1)), None);
        assert!(!lease_cell.is_idle(at(10 * index - 1)) && lease_cell.is_idle(end));
    }
    let begun: Vec<_> = (0..=CALLS_MAX).map(|_| lease_cell.begin_call(u64::MAX, at(99))).collect();
    assert_eq!((begun[255], begun[256]), (Some(255), None));
}

#[test]
fn the_longest_demanded_pause_holds() {
    let lease_cell = LeaseCell::default();
    for _ in 0..4 {
        assert!(lease_cell.begin_call(4, at(0)).is_some());
    }
    lease_cell.finish_call(CallEnd::Short, at(9));
    assert_eq!(lease_cell.begin_call(9, at(8)), None);
    lease_cell.finish_call(CallEnd::Free, at(0));
    lease_cell.finish_call(CallEnd::Failed, at(7));
    assert_eq!(lease_cell.call_state(at(8)), CallState::Paused(1, at(9), CallEnd::Short));
    lease_cell.finish_call(CallEnd::TimedOut, at(12));
    assert_eq!(lease_cell.call_state(at(11)), CallState::Paused(0, at(12), CallEnd::TimedOut));
    assert_eq!(lease_cell.call_state(at(12)), CallState::Free);
}

#[test]
fn after_36_years_no_cell_is_held() {
    let lease_cell = LeaseCell::default();
    let late = Tick::from_nanos(INSTANT_MAX << UNIT_BITS);
    lease_cell.deposit(5, Tick::MAX, late);
    assert!(!lease_cell.spend(1, late));
    lease_cell.deny(1, Until::Then(Tick::MAX));
    assert_eq!(lease_cell.denied(1, late), None);
    assert_eq!(lease_cell.begin_call(1, late), Some(0));
    lease_cell.finish_call(CallEnd::Short, Tick::MAX);
    assert_eq!(lease_cell.begin_call(1, Tick::MAX), Some(0));
}
