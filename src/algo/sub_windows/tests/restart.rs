//! Keys whose limiter is restored from a snapshot, beside one that has run on.

use super::*;

/// How long a key has to wait for 1 to 6 cells if its limiter has run on, and if it is restored. The wall clock of the
/// first process was set forward by `step_millis`, or its machine was suspended for that time, before the snapshot.
fn waits_after_a_step<const WEIGHED: bool>(
    of: impl Fn(u64) -> SubWindowParams<WEIGHED>,
    saved_at_millis: u64,
    step_millis: i64,
) -> impl Iterator<Item = [Duration; 2]> {
    const START: u64 = 1_000_000_000_000_000;
    let mut key = Counted::new(of(START));
    for (before, n) in [(45_000, 1), (20_000, 2), (0, 3)] {
        key.charge(millis(saved_at_millis - before), n);
    }
    let (then, elapsed) = (millis(saved_at_millis), Duration::from_secs(2));
    let here = then.saturating_add(elapsed);
    let origin = (START + here.as_nanos()).saturating_add_signed(step_millis * 1_000_000);
    let restart = Restart {
        then: Moment { tick: then, unix_origin_nanos: START },
        elapsed,
        now: Moment { tick: Tick::ZERO, unix_origin_nanos: origin },
    };
    let (params, mut ring) = (of(origin), key.ring.clone());
    let change = params.clock_change(&restart);
    let word = params.rebase(key.word, &mut ring, &change).expect("still counted");
    let restored = Counted { params, word, ring };
    let wait = |key: &Counted<WEIGHED>, now, n| {
        key.read(now, n).err().map_or(Duration::ZERO, |denied| denied.retry_after().expect("fits"))
    };
    (1..=6).map(move |n| [wait(&key, here, n), wait(&restored, Tick::ZERO, n)])
}

/// The phase of the sub-windows then differs from one clock to the other, unless the step is a whole number of them.
#[test]
fn a_step_of_the_wall_clock_before_a_snapshot_is_no_time_since() {
    fn waits_no_less<const WEIGHED: bool>(of: impl Fn(u64) -> SubWindowParams<WEIGHED>) {
        let length = Duration::from_nanos(of(0).grid.ratio().1);
        for saved_at in (60_000..240_000).step_by(5_000) {
            for step in [-3_600_000, -50_000, -7_000, 7_000, 50_000, 3_600_000] {
                for [ran_on, restored] in waits_after_a_step(&of, saved_at, step) {
                    let case = format!("{saved_at} ms, {step} ms: {ran_on:?} {restored:?}");
                    assert!(restored >= ran_on, "{case}");
                    assert!(restored <= ran_on + length || step < 0, "{case}");
                }
            }
            // Two readings of the clocks may differ by so much without a step.
            for step in [-1, 0, 1] {
                for [ran_on, restored] in waits_after_a_step(&of, saved_at, step) {
                    let off = Duration::from_millis(step.unsigned_abs());
                    assert!(restored.abs_diff(ran_on) <= off, "{ran_on:?} {restored:?}");
                }
            }
        }
    }
    let quota: Quota = "6/min".parse().expect("a quota");
    waits_no_less(|origin| SubWindows::new().params(&quota, origin).expect("in range"));
    waits_no_less(|origin| SlidingCounter::new().params(&quota, origin).expect("in range"));
}
