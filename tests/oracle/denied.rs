//! A quota that an algorithm cannot keep is rejected at build time: with a text, and without a
//! panic.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::{BuildError, Direct, Limiter, ManualClock, Quota};

use crate::bodies::choice::{Choice, LogRates, ORIGIN_2025, with_algorithm};
use crate::choice::{cases, counters, one_word, scales, sub_windows};

/// Arbitrary quotas, with 0 and values that overflow.
fn any_quota_at_all() -> impl Strategy<Value = Quota> {
    let number = || prop_oneof![Just(0), Just(u64::MAX), scales(64), 0_u64..70_000];
    let nanos = prop_oneof![4 => number().prop_map(u128::from), 1 => any::<u128>()];
    let period = nanos.prop_map(|nanos| {
        let secs = u64::try_from(nanos / 1_000_000_000).unwrap_or(u64::MAX);
        let nanos = u32::try_from(nanos % 1_000_000_000).expect("below a second");
        Duration::new(secs, nanos)
    });
    (number(), period, prop::option::of(number())).prop_map(|(limit, period, burst)| {
        let quota = Quota::new(limit, period);
        burst.map_or(quota, |cells| quota.burst(cells))
    })
}

fn any_choice() -> impl Strategy<Value = Choice> {
    use tollgate::{FixedWindow, SlidingCounter, SubWindows};
    let rates = prop::array::uniform3(prop::option::of(any_quota_at_all()));
    let logs = (rates, any::<bool>())
        .prop_map(|(more, count_denials)| Choice::Log(LogRates { more, count_denials }));
    let windows_of_anything = (any::<u32>(), any::<i32>()).prop_flat_map(|(count, secs)| {
        let sub = SubWindows::new().count(count % 300).utc_offset_secs(secs);
        let counter = SlidingCounter::new().older(count % 300).utc_offset_secs(secs);
        let window = FixedWindow::aligned().utc_offset_secs(secs);
        prop_oneof![
            Just(Choice::SubWindows(sub)),
            Just(Choice::SubWindows(sub.count(count))),
            Just(Choice::Counter(counter)),
            Just(Choice::Counter(counter.older(count))),
            Just(Choice::Window(window)),
        ]
    });
    prop_oneof![2 => one_word(), 1 => sub_windows(), 1 => counters(), 1 => windows_of_anything, 1 => logs]
}

proptest! {
    #![proptest_config(cases(60_000))]

    #[test]
    fn building_never_panics_and_errors_have_texts(
        choice in any_choice(),
        quota in any_quota_at_all(),
        origin in prop_oneof![Just(0), Just(ORIGIN_2025), any::<u64>()],
    ) {
        with_algorithm!(choice, algorithm => {
            let clock = || ManualClock::starting_at_unix_nanos(origin);
            let direct = Direct::builder(quota).algorithm(algorithm).clock(clock()).build();
            let denied = direct.as_ref().err().copied();
            if let Some(error) = denied {
                let text = error.to_string();
                prop_assert!(text.len() > 20 && !text.contains("Error"), "{}", text);
            }
            let keyed: Result<Limiter<u64, _, _>, BuildError> =
                Limiter::builder(quota).algorithm(algorithm).clock(clock()).capacity(1).build();
            match (keyed, denied) {
                (Ok(gate), None) => prop_assert!(gate.check(&1).is_ok() || direct.unwrap().check().is_err()),
                (Err(BuildError::Quota(error)), Some(denied)) => prop_assert_eq!(error, denied),
                (Err(BuildError::SkewTooLarge { max: most }), None) => {
                    prop_assert!(most < Duration::from_millis(1), "{:?} would do", most);
                }
                (keyed, denied) => prop_assert!(false, "{:?}, but {:?}", keyed.err(), denied),
            }
        });
    }
}
