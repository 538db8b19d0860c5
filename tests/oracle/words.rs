//! Steps and refunds are total: any word, any instant, any cost.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::algorithm::Algorithm;
use tollgate::internals::{COMPACT_BITS, PAYLOAD_BITS, Receipt, Refund, StateMachine, Step};
use tollgate::{Direct, FixedWindow, Quota, SlidingLog, Tick};

use crate::bodies::back::{charges_ahead_are_total, refunds_are_total};
use crate::bodies::choice::{Choice, Cost, Kind, ORIGIN_2025, each_one_word_kind, with_algorithm};
use crate::bodies::grid::waits_end;
use crate::bodies::total::{Cells, STATE, steps_are_total};
use crate::choice::{cases, choices, costs, counters, logs, quotas, scales, starts, sub_windows};

/// Arbitrary words, and words near an instant, so that they are live.
#[derive(Clone, Copy, Debug)]
enum Word {
    Any(u64),
    FreshAt(u64),
    NearFresh(u64, bool),
}

fn any_word() -> impl Strategy<Value = Word> {
    prop_oneof![
        any::<u64>().prop_map(Word::Any),
        (0..=PAYLOAD_BITS + 3).prop_map(|bits| Word::Any(u64::MAX >> bits)),
        any::<u64>().prop_map(Word::FreshAt),
        (scales(53), any::<bool>()).prop_map(|(distance, ahead)| Word::NearFresh(distance, ahead)),
    ]
}

impl Word {
    fn bits<P: StateMachine>(self, params: &P, now: Tick) -> u64 {
        match self {
            Self::Any(bits) => bits,
            Self::FreshAt(instant) => params.fresh(Tick::from_nanos(instant)),
            Self::NearFresh(distance, true) => params.fresh(now).wrapping_add(distance),
            Self::NearFresh(distance, false) => params.fresh(now).wrapping_sub(distance),
        }
    }
}

/// Empty rings, and rings with cells drawn as words are.
fn any_cells() -> impl Strategy<Value = Vec<Word>> {
    prop_oneof![
        1 => Just(Vec::new()),
        2 => prop::collection::vec(any_word(), 1..20),
    ]
}

fn one_is_total(
    (choice, quota): (Choice, Quota),
    (word, cells): (Word, &[Word]),
    now: u64,
    asked: &[Cost],
) {
    let at = (Tick::from_nanos(now), choice.fits(&quota), choice.max_granted(&quota));
    let narrow = word;
    with_algorithm!(choice, algorithm => {
        let params = algorithm.params(&quota, ORIGIN_2025).expect("accepted");
        let word = word.bits(&params, at.0);
        if let Ok(Some(params)) = algorithm.compact_params(&quota, ORIGIN_2025) {
            let word = narrow.bits(&params, at.0) & (u64::MAX >> (u64::BITS - COMPACT_BITS));
            let latest = waits_end(&params, choice, &quota, now);
            steps_are_total(&params, (word, Cells::Empty), at, latest, asked);
        }
        let cells: Vec<u64> = cells.iter().map(|cell| cell.bits(&params, at.0)).collect();
        let ring = if cells.is_empty() { Cells::Empty } else { Cells::Any(&cells) };
        let latest = waits_end(&params, choice, &quota, now);
        steps_are_total(&params, (word, ring), at, latest, asked);
    });
}

/// Refunds with a receipt of the word itself, and of any other, in wide and in compact states.
fn refunds<A: Algorithm<Params: Refund>>(
    algorithm: A,
    (choice, quota): (Choice, &Quota),
    (word, other): (Word, Word),
    (now, at): (u64, u64),
    asked: &[(Cost, Cost)],
    also: impl Fn(&A::Params, u64, u64),
) {
    let (now, fits) = (Tick::from_nanos(now), choice.fits(quota));
    let wide = algorithm.params(quota, ORIGIN_2025).expect("accepted");
    let compact = algorithm.compact_params(quota, ORIGIN_2025).expect("accepted");
    let narrow = u64::MAX >> (u64::BITS - COMPACT_BITS);
    for (params, mask) in
        [Some((wide, STATE)), compact.map(|params| (params, narrow))].into_iter().flatten()
    {
        let word = word.bits(&params, now) & mask;
        let latest = waits_end(&params, choice, quota, now.as_nanos());
        for next in [word, other.bits(&params, now) & mask] {
            for (cost, paid) in asked {
                let (n, cells) = (cost.cells(fits, 1), paid.cells(fits, 1));
                for at in [now, Tick::from_nanos(at)] {
                    let receipt = Receipt { cells, at, next };
                    refunds_are_total(&params, word, &receipt, (now, fits, latest), n);
                    assert!(params.refund(word, &receipt, now, n) <= mask);
                    assert!(params.add(word, now, n) <= mask);
                }
                also(&params, word, n);
            }
        }
    }
}

macro_rules! one_word_is_total {
    ($name:ident, $kind:expr) => {
        proptest! {
            #![proptest_config(cases(40_000))]

            #[test]
            fn $name(
                chosen in quotas(choices($kind)),
                word in any_word(),
                now in starts(),
                asked in prop::collection::vec(costs(), 1..12),
            ) {
                one_is_total(chosen, (word, &[]), now, &asked);
            }
        }
    };
}

mod any_word_is_decided_without_panic {
    use super::*;

    each_one_word_kind!(one_word_is_total);
}

proptest! {
    #![proptest_config(cases(40_000))]

    #[test]
    fn sub_windows_decide_any_word_and_ring(
        chosen in prop_oneof![quotas(sub_windows()), quotas(counters())],
        (word, cells) in (any_word(), any_cells()),
        now in starts(),
        asked in prop::collection::vec(costs(), 1..12),
    ) {
        one_is_total(chosen, (word, &cells), now, &asked);
    }

    #[test]
    fn a_log_decides_any_word_and_ring(
        chosen in logs(1_000),
        (word, cells) in (any_word(), any_cells()),
        now in starts(),
        asked in prop::collection::vec(costs(), 1..12),
    ) {
        one_is_total(chosen, (word, &cells), now, &asked);
    }

    #[test]
    fn a_bucket_refunds_to_any_word(
        (choice, quota) in quotas(choices(Kind::Bucket)),
        words in (any_word(), any_word()),
        (now, at) in (starts(), starts()),
        asked in prop::collection::vec((costs(), costs()), 1..6),
        wait in scales(63),
    ) {
        let Choice::Bucket(algorithm) = choice else { unreachable!() };
        refunds(algorithm, (choice, &quota), words, (now, at), &asked, |params, word, n| {
            let at = (Tick::from_nanos(now), choice.fits(&quota));
            charges_ahead_are_total(params, word, at, n, wait);
        });
    }

    #[test]
    fn a_window_refunds_to_any_word(
        (choice, quota) in quotas(choices(Kind::Window)),
        words in (any_word(), any_word()),
        (now, at) in (starts(), starts()),
        asked in prop::collection::vec((costs(), costs()), 1..6),
    ) {
        let Choice::Window(algorithm) = choice else { unreachable!() };
        refunds(algorithm, (choice, &quota), words, (now, at), &asked, |_, _, _| {});
    }

    /// A state that a clock ahead has only stamped opens with our first event, and ends no earlier
    /// than its stamp.
    #[test]
    fn a_window_ends_no_earlier_than_its_stamp(now in 0_u64..1 << 60, ahead in 0_u64..1 << 45) {
        let quota = Quota::per_minute(20);
        let params = FixedWindow::anchored().params(&quota, 0).expect("in range");
        let (now, stamped) = (Tick::from_nanos(now), Tick::from_nanos(now + ahead));
        let Step::Admit { next } = params.step(params.fresh(stamped), now, 1) else {
            panic!("nothing was counted yet");
        };
        let open = params.answer(next, now, 0).expect("nothing is asked for").reset_after();
        let (units, per_nanos) = params.grid().ratio();
        let unit = Duration::from_nanos(per_nanos.div_ceil(units));
        prop_assert!(open + unit >= quota.period().max(Duration::from_nanos(ahead)), "{:?}", open);
    }
}

/// A clock that is behind by more than the tolerance may read the events of a log as old, and so be
/// granted the limit once more; but its own admissions count. (They are entered at the time of the
/// latest event, which such a clock sees neither ahead of it nor within the window.)
#[test]
fn a_clock_beyond_the_tolerance_of_a_log_is_granted_the_limit_at_most_once() {
    for (limit, period) in [(1, 64), (3, 1_000), (100, 1_000_000)] {
        let quota = Quota::new(limit, Duration::from_nanos(period));
        for start in [0, 1 << 50] {
            for bits in 30..61 {
                let log = SlidingLog::new();
                let gate = Direct::builder(quota).algorithm(log).build().expect("in range");
                let (ahead, now) = (Tick::from_nanos(start + (1 << bits)), Tick::from_nanos(start));
                assert!(gate.ask().at(ahead).check().is_ok());
                let granted = (0..200).filter(|_| gate.ask().at(now).check().is_ok()).count();
                assert!(granted as u64 <= limit, "{granted} of {limit}, 2^{bits} ns behind");
            }
        }
    }
}
