use proptest::prelude::*;

use super::*;
use crate::algo::NoRing;
use crate::algo::oracle::{Oracle, Verdict};
use crate::word::tile;

const SECOND: u64 = 1_000_000_000;

fn at(seconds: u64) -> Tick {
    Tick::from_nanos(seconds * SECOND)
}

/// Charges `n` cells. Returns the state after that, and the receipt if they are admitted.
fn enter(machine: InFlight<'_>, word: u64, now: Tick, n: u64) -> (u64, Option<Receipt>) {
    match machine.step(machine.read(word, NoRing, now, n), now, n) {
        Step::Admit { next } => (next, Some(Receipt { cells: n, at: now, next })),
        Step::Deny | Step::DenyCounted { .. } => (word, None),
    }
}

#[test]
fn the_fields_tile_the_payload() {
    assert!(tile(&[COUNT, STAMP], PAYLOAD_BITS));
    assert!(tile(&[OLDER, RECENT, PERIOD], PAYLOAD_BITS));
}

#[test]
fn a_holder_is_taken_for_lost_after_one_to_two_holds() {
    let holds = Holds::at_most(Duration::from_secs(10));
    let machine = InFlight { holds: &holds, limit: 1 };
    for (entered, still_held, lost) in [(10, 29, 30), (15, 29, 30), (19, 29, 30), (20, 39, 40)] {
        let (word, receipt) = enter(machine, machine.fresh(at(entered)), at(entered), 1);
        assert!(receipt.is_some());
        assert!(enter(machine, word, at(still_held), 1).1.is_none(), "{entered}");
        assert!(enter(machine, word, at(lost), 1).1.is_some(), "{entered}");
    }
}

#[test]
fn a_holder_that_expired_is_refunded_nothing() {
    let holds = Holds::at_most(Duration::from_secs(10));
    let machine = InFlight { holds: &holds, limit: 1 };
    let (word, lost) = enter(machine, machine.fresh(at(0)), at(0), 1);
    let (word, held) = enter(machine, word, at(25), 1);
    let (lost, held) = (lost.expect("room"), held.expect("the first has expired"));
    assert_eq!(machine.refund(word, &lost, at(25), 1), word);
    let left = machine.refund(word, &held, at(25), 1);
    assert_eq!(machine.read(left, NoRing, at(25), 0).all(), 0);
}

#[test]
fn a_receipt_of_another_life_refunds_nothing() {
    let holds = Holds::unbounded();
    let machine = InFlight { holds: &holds, limit: 9 };
    let (_, earlier) = enter(machine, machine.fresh(at(0)), at(0), 5);
    let (word, _) = enter(machine, machine.fresh(at(1)), at(1), 5);
    assert_eq!(machine.refund(word, &earlier.expect("room"), at(1), 5), word);
}

#[test]
fn a_lower_limit_denies_until_enough_have_left() {
    let holds = Holds::unbounded();
    let of = |limit| InFlight { holds: &holds, limit };
    let (mut word, receipt) = enter(of(10), of(10).fresh(at(0)), at(0), 10);
    let receipt = receipt.expect("room");
    for left in (4..=10).rev() {
        assert_eq!(of(4).read(word, NoRing, at(0), 0).all(), left);
        assert!(enter(of(4), word, at(0), 1).1.is_none(), "{left} in flight");
        let denied = of(4).denied(of(4).read(word, NoRing, at(0), 1), at(0), 1);
        assert_eq!((denied.limit(), denied.remaining()), (4, 0));
        word = of(4).refund(word, &receipt, at(0), 1);
    }
    assert!(enter(of(4), word, at(0), 1).1.is_some());
}

#[test]
fn a_state_that_an_entry_has_left_counts_the_entries_of_both_periods() {
    let holds = Holds::at_most(Duration::from_secs(10));
    let machine = InFlight { holds: &holds, limit: 9 };
    let (word, _) = enter(machine, machine.fresh(at(5)), at(5), 2);
    let (word, _) = enter(machine, word, at(15), 3);
    assert_eq!((RECENT.of(word), OLDER.of(word), machine.in_word(word)), (3, 2, 5));
    let holds = Holds::unbounded();
    let machine = InFlight { holds: &holds, limit: u64::from(u32::MAX) };
    // More than the two counts of a state with a longest hold.
    let (word, _) = enter(machine, machine.fresh(at(5)), at(5), 70_000);
    assert_eq!(machine.in_word(word), 70_000);
}

#[test]
fn more_cells_than_are_in_flight_are_refunded_as_those_that_are() {
    for (holds, later) in [
        (Holds::unbounded(), 1),
        (Holds::at_most(Duration::from_secs(10)), 1),
        (Holds::at_most(Duration::from_secs(10)), 10),
    ] {
        let machine = InFlight { holds: &holds, limit: 9 };
        let (word, first) = enter(machine, machine.fresh(at(5)), at(5), 2);
        let (word, _) = enter(machine, word, at(5 + later), 1);
        let left = machine.refund(word, &first.expect("room"), at(5 + later), 7);
        let all = machine.read(left, NoRing, at(5 + later), 0).all();
        assert_eq!(all, u64::from(later == 10), "only those of the first period are the holder's");
        assert_eq!(left >> PAYLOAD_BITS, 0);
    }
}

/// Periods of a second come round after 24 days.
#[test]
fn a_refund_across_the_end_of_the_periods_is_one_period_later() {
    let holds = Holds::at_most(Holds::HOLD_MIN);
    let machine = InFlight { holds: &holds, limit: 9 };
    let [last, first] = [PERIOD.max(), PERIOD.max() + 1].map(at);
    let (word, receipt) = enter(machine, machine.fresh(last), last, 4);
    let (word, _) = enter(machine, word, first, 1);
    assert_eq!((PERIOD.of(word), OLDER.of(word)), (0, 4));
    let left = machine.refund(word, &receipt.expect("room"), first, 3);
    assert_eq!((RECENT.of(left), OLDER.of(left)), (1, 1));
    // Cells that were never charged are no matter of requests in flight.
    assert_eq!((machine.add(left, first, 1), machine.turn(left, first)), (left, Duration::ZERO));
}

#[test]
fn states_without_a_longest_hold_are_stamped_and_never_told_apart_by_time() {
    let holds = Holds::unbounded();
    let machine = InFlight { holds: &holds, limit: 9 };
    let stamps = [0, 1_023, 1_024, 1_024 << 31].map(Tick::from_nanos);
    let stamps = stamps.map(|now| STAMP.of(machine.fresh(now)));
    assert_eq!(stamps, [0, 0, 1, 0], "in units of 1,024 ns, modulo 2^31");
    assert_eq!((machine.skew_tolerance(), machine.horizon()), (None, None));
    assert_eq!(machine.liveness(machine.fresh(at(3)), 0), Liveness::Idle { units: 0 });
}

/// Of 2^21 periods 255 are ahead of a clock that is behind.
#[test]
fn clocks_may_differ_by_255_periods_of_ten_seconds() {
    let holds = Holds::at_most(Duration::from_secs(10));
    let machine = InFlight { holds: &holds, limit: 9 };
    let periods = |count: u64| Some(Duration::from_secs(10 * count));
    assert_eq!(machine.skew_tolerance(), periods(255));
    assert_eq!(machine.horizon(), periods((1 << 21) - 255 - 2));
}

#[test]
fn a_key_without_a_slot_may_ask_again_for_one_cell_at_any_time() {
    let holds = Holds::unbounded();
    for (limit, retry) in [(0, None), (1, Some(Duration::from_nanos(1)))] {
        let machine = InFlight { holds: &holds, limit };
        let denied = machine.no_slot(machine.fresh(at(1)), at(1), Duration::ZERO);
        assert_eq!(denied.retry_after(), retry, "{limit}");
    }
}

#[test]
fn the_longest_hold_is_kept_in_its_range() {
    for (hold, kept) in [
        (Duration::ZERO, Duration::from_secs(1)),
        (Duration::from_secs(60), Duration::from_secs(60)),
        (Duration::MAX, Holds::HOLD_MAX),
    ] {
        let holds = Holds::at_most(hold);
        assert_eq!(holds.grid.ratio(), (1, u64::try_from(kept.as_nanos()).expect("a century")));
    }
}

/// A step of a script: what happens, and how many milliseconds later than the step before.
#[derive(Clone, Debug)]
enum Event {
    Enter(u64),
    /// The request that was admitted this many requests before the last.
    Leave(usize),
    SetLimit(u64),
    /// The clock is behind for one request.
    EnterLate(u64, u64),
}

fn events() -> impl Strategy<Value = Vec<(u64, Event)>> {
    let event = prop_oneof![
        4 => (0_u64..5).prop_map(Event::Enter),
        3 => (0_usize..12).prop_map(Event::Leave),
        1 => (1_u64..12).prop_map(Event::SetLimit),
        1 => (1_u64..4, 0_u64..30_000).prop_map(|(n, behind)| Event::EnterLate(n, behind)),
    ];
    let later = prop_oneof![3 => 0_u64..50, 2 => 0_u64..3_000, 1 => 0_u64..40_000];
    prop::collection::vec((later, event), 1..80)
}

proptest! {
    #[test]
    fn decisions_are_those_of_the_list_of_requests(
        script in events(), limit in 1_u64..12, hold in prop::option::of(1_u64..20), from: u32,
    ) {
        let holds = hold.map_or_else(Holds::unbounded, |s| Holds::at_most(Duration::from_secs(s)));
        let mut machine = InFlight { holds: &holds, limit };
        let mut oracle = machine.oracle();
        let mut now = Tick::from_nanos(u64::from(from) << 20);
        // A key has a state from its first charge on.
        let mut state = None;
        let mut admitted: Vec<(Receipt, u64)> = Vec::new();
        for (later_ms, event) in script {
            now = now.saturating_add(Duration::from_millis(later_ms));
            let (n, asked_at) = match event {
                Event::SetLimit(limit) => {
                    machine.limit = limit;
                    oracle.set_limit(limit);
                    continue;
                }
                Event::Leave(back) => {
                    if back < admitted.len() {
                        let (receipt, number) = admitted.remove(admitted.len() - 1 - back);
                        state = state.map(|word| machine.refund(word, &receipt, now, receipt.cells));
                        oracle.leave(number);
                    }
                    let counted = state.map_or(0, |word| machine.read(word, NoRing, now, 0).all());
                    prop_assert_eq!(counted, oracle.in_flight(now));
                    continue;
                }
                Event::Enter(n) => (n, now),
                Event::EnterLate(n, behind) => (n, now.saturating_sub(Duration::from_millis(behind))),
            };
            let word = state.unwrap_or_else(|| machine.fresh(asked_at));
            let (next, receipt) = enter(machine, word, asked_at, n);
            // A charge of nothing writes nothing, nor does a denial.
            let word = if n == 0 { word } else { next };
            if n > 0 && receipt.is_some() {
                state = Some(word);
            }
            let number = oracle.enter(asked_at, n);
            prop_assert_eq!(receipt.is_some(), number.is_some());
            admitted.extend(receipt.zip(number));
            let counted = machine.read(word, NoRing, asked_at, 0).all();
            prop_assert_eq!(counted, oracle.in_flight(asked_at));
            let is_idle = matches!(
                machine.liveness(word, machine.instant(asked_at)), Liveness::Idle { .. }
            );
            prop_assert_eq!(is_idle, counted == 0);
        }
    }

    #[test]
    fn answers_are_those_of_the_oracle(
        costs in prop::collection::vec(0_u64..9, 1..20), limit in 1_u64..20,
    ) {
        let holds = Holds::unbounded();
        let machine = InFlight { holds: &holds, limit };
        let (mut oracle, mut word) = (machine.oracle(), machine.fresh(at(1)));
        for n in costs {
            let answer = machine.answer(machine.read(word, NoRing, at(1), n), at(1), n);
            prop_assert_eq!(Verdict::from(&answer), oracle.decide(at(1), n));
            word = enter(machine, word, at(1), n).0;
        }
    }

    /// Whatever the word, the time and the cost: no panic, no bit beyond the payload, no count beyond the
    /// limit after an admission, and no refund that adds.
    #[test]
    fn every_word_has_an_answer(
        word: u64, next: u64, now: u64, n: u64, limit in 1..=OLDER.max(), hold in 0_u64..4_000_000_000,
        expires: bool,
    ) {
        let hold = Duration::from_secs(hold);
        let holds = if expires { Holds::at_most(hold) } else { Holds::unbounded() };
        let machine = InFlight { holds: &holds, limit };
        let now = Tick::from_nanos(now);
        let word = word & (u64::MAX >> (64 - PAYLOAD_BITS));
        let (next_word, receipt) = enter(machine, word, now, n);
        prop_assert_eq!(next_word >> PAYLOAD_BITS, 0);
        if receipt.is_some() {
            prop_assert!(machine.read(next_word, NoRing, now, 0).all() <= limit);
        }
        let receipt = Receipt { cells: n, at: now, next };
        let left = machine.refund(word, &receipt, now, n);
        prop_assert_eq!(left >> PAYLOAD_BITS, 0);
        let all = |word| machine.read(word, NoRing, now, 0).all();
        prop_assert!(all(left) <= all(word));
        let _ = machine.no_slot(word, now, Duration::ZERO);
        let _ = machine.permit(machine.read(word, NoRing, now, n), now, n);
        prop_assert_eq!(machine.fresh(now) >> PAYLOAD_BITS, 0);
    }

    /// A clock that is behind by up to the tolerance admits no more than one that is not.
    #[test]
    fn a_stale_clock_admits_no_more(
        hold in 1_u64..10_000, period in 300_u64..1 << 30, held in 1_u64..9, n in 1_u64..9,
        behind: u64, after in 0_u64..1 << 40,
    ) {
        let holds = Holds::at_most(Duration::from_secs(hold));
        let machine = InFlight { holds: &holds, limit: 9 };
        let written = Tick::from_nanos((period % (1 << 21)).saturating_mul(hold * SECOND) / 7);
        let (word, _) = enter(machine, machine.fresh(written), written, held);
        let now = written.saturating_add(Duration::from_nanos(after));
        let tolerance = machine.skew_tolerance().unwrap_or(Duration::MAX);
        let behind = Duration::from_nanos(behind % (1 << 45)).min(tolerance);
        let stale = now.saturating_sub(behind);
        let admits = |now| enter(machine, word, now, n).1.is_some();
        prop_assert!(admits(now) || !admits(stale));
    }
}
