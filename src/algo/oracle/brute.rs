//! Checks by trying every nanosecond, over a small random sequence.

use core::time::Duration;

use super::{Oracle, Verdict};
use crate::time::Tick;

/// A linear congruential generator, with Knuth's factor for 64 bits.
pub(super) struct Lcg(u64);

impl Lcg {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number from 0 to one less than `bound`.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % bound
    }

    /// A clock's next reading: mostly a little later, at times a little or much earlier.
    pub(super) fn moved(&mut self, now: u64, step: u64) -> u64 {
        match self.below(16) {
            0 => now.saturating_sub(self.below(4 * step + 1)),
            1 => self.below(now + 1),
            2 => now + self.below(20 * step),
            _ => now + self.below(step + 1),
        }
    }
}

/// Asserts the retry time of `verdict`, just given for `n` cells: `oracle` denies the request at
/// every earlier instant, and admits it then.
pub(super) fn fits_first_after(oracle: &impl Oracle, now: Tick, n: u64, verdict: &Verdict) {
    let admits = |wait: u64| {
        let later = now.saturating_add(Duration::from_nanos(wait));
        oracle.clone().decide(later, n).admitted
    };
    match verdict.retry_after {
        Some(wait) if verdict.admitted => assert_eq!(wait, Duration::ZERO),
        Some(wait) => {
            let wait = u64::try_from(wait.as_nanos()).expect("it fits a tick");
            assert_eq!((0..=wait).find(|wait| admits(*wait)), Some(wait), "{n} at {now:?}");
        }
        None => assert!(!verdict.admitted && !admits(1 << 40), "{n} at {now:?}"),
    }
}
