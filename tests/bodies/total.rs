//! A step is total, and never on the caller's side.

use std::time::Duration;

use tollgate::algo::{Machine, PAYLOAD_BITS, Standing, Step};
use tollgate::{Denied, Tick};

use super::choice::Cost;
use super::grid::nanos;

fn admits<P: Machine<Seen = u64>>(params: &P, word: u64, now: Tick, n: u64) -> bool {
    matches!(params.step(word, now, n), Step::Admit { .. })
}

/// What the state holds against its key; nothing, where it is idle.
fn debt<P: Machine<Seen = u64>>(params: &P, word: u64, now: Tick) -> u64 {
    match params.standing(word, params.instant(now)) {
        Standing::Idle { .. } => 0,
        Standing::Live { debt } => {
            assert!(debt > 0, "what is live has something to lose");
            debt
        }
    }
}

/// Asks again and again at one instant, which may grant `most` and no more.
///
/// Waiting is tried out only up to `latest`.
pub(crate) fn steps_are_total<P: Machine<Seen = u64>>(
    params: &P,
    word: u64,
    (now, fits, most): (Tick, u64, u64),
    latest: u64,
    asked: &[Cost],
) {
    let mut word = word;
    let (mut granted, mut rest) = (0_u64, fits);
    let _ = debt(params, word, now);
    assert_eq!(params.no_place(word, now, Duration::ZERO).remaining(), 0);
    for cost in asked {
        let n = cost.cells(fits, rest);
        let step = params.step(word, now, n);
        match (step, params.answer(word, now, n)) {
            (Step::Admit { next }, Ok(permit)) => {
                granted = granted.checked_add(n).expect("no more than is counted");
                assert_eq!(next >> PAYLOAD_BITS, 0, "no bit above the payload");
                let (before, after) = (debt(params, word, now), debt(params, next, now));
                assert!(if n > 0 { after > before } else { after == before }, "moved back");
                assert_eq!(permit.limit(), fits);
                assert!(permit.remaining() <= fits);
                assert!(permit.delay() <= permit.reset_after(), "a turn after all has drained");
                (word, rest) = (next, permit.remaining());
            }
            (Step::Refuse, Err(denied)) => {
                refusal_is_right(params, word, (now, n, fits), latest, &denied);
                rest = denied.remaining();
            }
            (step, answer) => panic!("{step:?} was told as {answer:?}"),
        }
        assert!(granted <= most, "{granted} of {most} at one instant");
    }
}

/// What holds of every refusal.
fn refusal_is_right<P: Machine<Seen = u64>>(
    params: &P,
    word: u64,
    (now, n, fits): (Tick, u64, u64),
    latest: u64,
    denied: &Denied,
) {
    assert_eq!(denied.limit(), fits);
    assert!(denied.remaining() < n, "what is left was refused");
    let Some(wait) = denied.retry_after() else {
        assert!(n > fits, "what fits comes back some day");
        return;
    };
    assert!(n <= fits && !wait.is_zero());
    assert!(wait <= denied.reset_after(), "a bucket as new admits what fits");
    // What lies beyond the last tick cannot be tried. Windows of the wall clock stand still
    // once its time is beyond it, which is less than a period earlier.
    let Some(then) = now.as_nanos().checked_add(nanos(wait)) else { return };
    if then >= latest {
        return;
    }
    assert!(admits(params, word, Tick::from_nanos(then), n), "{wait:?} is not enough");
    assert!(!admits(params, word, Tick::from_nanos(then - 1), n), "{wait:?} is too much");
}
