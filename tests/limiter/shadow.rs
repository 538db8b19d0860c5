//! A shadow limiter beside the enforced one, each against its own oracle.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::algorithm::Algorithm;
use tollgate::internals::StateMachine;
use tollgate::internals::oracle::Oracle;
use tollgate::shadow::Shadow;
use tollgate::{FixedWindow, Gcra, LeakyQueue, Limiter, ManualClock, Quota, SlidingLog, Tick};

const SECOND: u64 = 1_000_000_000;
const KEYS: usize = 3;

/// Nanoseconds since the last act, a key, and the cells that it asks for.
type Act = (u64, usize, u64);

fn agrees_with_the_oracles<A: Algorithm, B: Algorithm>(
    (enforced, candidate): (A, B),
    (first, second): (Quota, Quota),
    acts: &[Act],
) {
    let enforced = Limiter::builder(first).algorithm(enforced).clock(ManualClock::new());
    let candidate = Limiter::builder(second).algorithm(candidate).clock(ManualClock::new());
    let gate: Shadow<usize, A, B, ManualClock, ManualClock> =
        Shadow::new(enforced.build().expect("in range"), candidate.build().expect("in range"));
    let mut ours = [(); KEYS].map(|()| gate.enforced().params().oracle());
    let mut theirs = [(); KEYS].map(|()| gate.candidate().params().oracle());
    let mut counted = [[0; 2]; 2];
    let mut nanos = SECOND;
    for &(gap, key, n) in acts {
        nanos += gap;
        let now = Tick::from_nanos(nanos);
        let (our, their) = (ours[key].decide(now, n), theirs[key].decide(now, n));
        let decision = gate.ask(&key).cells(n).at(now).check();
        assert_eq!(tollgate::internals::oracle::Verdict::from(&decision), our, "{n} for {key}");
        counted[usize::from(our.admitted)][usize::from(their.admitted)] += 1;
    }
    let reported = [gate.of_denied(), gate.of_admitted()];
    assert_eq!(reported.map(|counts| [counts.would_deny, counts.would_admit]), counted);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn the_enforced_limit_decides_and_both_limits_are_counted(
        limits in (1_u64..9, 1_u64..9),
        acts in prop::collection::vec(
            (prop_oneof![2 => Just(0), 1 => 0..SECOND], 0..KEYS, 0_u64..4),
            1..150,
        ),
    ) {
        let quotas = (Quota::per_second(limits.0), Quota::new(limits.1, Duration::from_secs(2)));
        agrees_with_the_oracles((Gcra::new(), Gcra::new()), quotas, &acts);
        agrees_with_the_oracles((Gcra::new(), SlidingLog::new()), quotas, &acts);
        agrees_with_the_oracles((FixedWindow::anchored(), LeakyQueue::new()), quotas, &acts);
    }
}
