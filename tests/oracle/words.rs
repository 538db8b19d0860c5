//! Any word, any instant, any cost.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::algo::{Algorithm, Machine, PAYLOAD_BITS, Step};
use tollgate::{FixedWindow, Quota, Tick};

use crate::bodies::choice::{Choice, Cost, ORIGIN_2025};
use crate::bodies::grid::nanos;
use crate::bodies::total::steps_are_total;
use crate::choice::{buckets, cases, costs, queues, quotas, scales, starts, warm_ups, windows};

/// Words anywhere, and words that lie near an instant so that they are live.
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
    fn bits<P: Machine>(self, params: &P, now: Tick) -> u64 {
        match self {
            Self::Any(bits) => bits,
            Self::FreshAt(instant) => params.fresh(Tick::from_nanos(instant)),
            Self::NearFresh(distance, true) => params.fresh(now).wrapping_add(distance),
            Self::NearFresh(distance, false) => params.fresh(now).wrapping_sub(distance),
        }
    }
}

fn one_is_total((choice, quota): (Choice, Quota), word: Word, now: u64, asked: &[Cost]) {
    let now = (Tick::from_nanos(now), choice.fits(&quota), choice.granted_max(&quota));
    match choice {
        Choice::Bucket(gcra) => {
            let params = gcra.params(&quota, ORIGIN_2025).expect("accepted");
            steps_are_total(&params, word.bits(&params, now.0), now, u64::MAX, asked);
        }
        Choice::Queue(queue) => {
            let params = queue.params(&quota, ORIGIN_2025).expect("accepted");
            steps_are_total(&params, word.bits(&params, now.0), now, u64::MAX, asked);
        }
        Choice::WarmUp(pace) => {
            let params = pace.algorithm().params(&quota, ORIGIN_2025).expect("accepted");
            steps_are_total(&params, word.bits(&params, now.0), now, u64::MAX, asked);
        }
        Choice::Window(window) => {
            let params = window.params(&quota, ORIGIN_2025).expect("accepted");
            // Windows of the wall clock stand still once its time is beyond the last tick.
            let latest = u64::MAX - nanos(quota.period());
            steps_are_total(&params, word.bits(&params, now.0), now, latest, asked);
        }
    }
}

proptest! {
    #![proptest_config(cases(40_000))]

    #[test]
    fn a_bucket_makes_sense_of_any_word(
        chosen in quotas(buckets()),
        word in any_word(),
        now in starts(),
        asked in prop::collection::vec(costs(), 1..12),
    ) {
        one_is_total(chosen, word, now, &asked);
    }

    #[test]
    fn a_queue_makes_sense_of_any_word(
        chosen in quotas(queues()),
        word in any_word(),
        now in starts(),
        asked in prop::collection::vec(costs(), 1..12),
    ) {
        one_is_total(chosen, word, now, &asked);
    }

    #[test]
    fn a_warm_up_makes_sense_of_any_word(
        chosen in quotas(warm_ups()),
        word in any_word(),
        now in starts(),
        asked in prop::collection::vec(costs(), 1..12),
    ) {
        one_is_total(chosen, word, now, &asked);
    }

    #[test]
    fn a_window_makes_sense_of_any_word(
        chosen in quotas(windows()),
        word in any_word(),
        now in starts(),
        asked in prop::collection::vec(costs(), 1..12),
    ) {
        one_is_total(chosen, word, now, &asked);
    }

    /// A state that a clock ahead of ours has only stamped opens with our first event, and ends no
    /// earlier than the stamp says.
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
