//! Strikes and bans from many threads.

use std::time::Duration;

use tollgate::penalty::{Penalties, PenaltyDenied};
use tollgate::shadow::Shadow;
use tollgate::{Limiter, ManualClock, Quota, Tick};

use crate::{Random, together};

const NOW: Tick = Tick::from_nanos(3_600_000_000_000);
const KEYS: u64 = 50;
const BURST: u64 = 20;
const STRIKES: u64 = 30;
const THREADS: u64 = 4;

/// Each key is granted its burst, denied until its last strike, and banned from then on.
#[test]
fn each_key_is_banned_at_its_last_strike_and_not_before() {
    for prolonged in [false, true] {
        let limiter = Limiter::builder(Quota::per_day(1).burst(BURST)).clock(ManualClock::new());
        let limiter: Limiter<u64, _, _> = limiter.build().expect("in range");
        let strikes = Quota::per_day(STRIKES);
        let gate = Penalties::builder(limiter, strikes, Duration::from_secs(600)).capacity(5_000);
        let gate = if prolonged { gate.prolonged() } else { gate };
        let gate = gate.build().expect("in range");
        let counted = together(THREADS, |index| {
            let mut random = Random::new(index);
            let mut counted = vec![[0_u64; 4]; 50];
            for _ in 0..20_000 {
                let key = random.below(KEYS);
                let which = match gate.ask(&key).at(NOW).check() {
                    Ok(_) => 0,
                    Err(PenaltyDenied::Limited(_)) => 1,
                    Err(PenaltyDenied::Banned(ban)) if ban.begins() => 2,
                    Err(PenaltyDenied::Banned(_)) => 3,
                };
                counted[usize::try_from(key).expect("few")][which] += 1;
            }
            counted
        });
        let mut banned = 0;
        for key in 0..50 {
            let [admitted, limited, began, denied] =
                [0, 1, 2, 3].map(|which| counted.iter().map(|keys| keys[key][which]).sum::<u64>());
            assert_eq!(admitted, BURST, "{key}");
            // A denial by the limiter for each strike but the last, or by the ban if another
            // thread's ban began meanwhile.
            let denied_by_limit = STRIKES - THREADS..STRIKES;
            assert!(denied_by_limit.contains(&limited), "{key}: {limited} denials by the limiter");
            assert_eq!(began, 1, "{key}: one ban");
            banned += denied;
        }
        let stats = gate.stats_at(NOW);
        assert_eq!((stats.bans, stats.banned_now, stats.denied_banned), (50, 50, banned));
    }
}

/// Both limiters are exact by themselves, and every request is counted.
#[test]
fn a_shadow_limit_is_charged_for_what_it_admits() {
    let limiter = |burst| {
        let built = Limiter::builder(Quota::per_day(1).burst(burst)).clock(ManualClock::new());
        built.build().expect("in range")
    };
    let gate: Shadow<u64, _, _, _, _> = Shadow::new(limiter(40), limiter(25));
    together(4, |index| {
        let mut random = Random::new(index);
        for _ in 0..20_000 {
            let _ = gate.ask(&random.below(KEYS)).at(NOW).check();
        }
    });
    let (admitted, denied) = (gate.of_admitted(), gate.of_denied());
    assert_eq!(admitted.would_admit + admitted.would_deny, 40 * KEYS, "enforced");
    assert_eq!(admitted.would_admit + denied.would_admit, 25 * KEYS, "candidate");
    assert_eq!(denied.would_admit + denied.would_deny, 80_000 - 40 * KEYS);
}
