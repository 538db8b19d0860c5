//! Waits that are lengthened at random.

use core::hash::{BuildHasher, Hasher};
use core::time::Duration;
use std::hash::RandomState;

/// Lengthens the wait of a denial, so that clients that are denied together do not return together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Jitter {
    pub(crate) percent: u32,
    pub(crate) draw: fn() -> u32,
}

impl Jitter {
    pub(crate) const NONE: Self = Self { percent: 0, draw: random };

    /// The time to add to `wait`: up to `percent` percent of it, in proportion to the number drawn.
    pub(crate) fn added_to(self, wait: Duration) -> Duration {
        if self.percent == 0 {
            return Duration::ZERO;
        }
        // At most 2^64 * 2^32 * 2^32, less a little.
        let nanos = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
        let product = u128::from(nanos) * u128::from(self.percent) * u128::from((self.draw)());
        let added = product / (100 * u128::from(u32::MAX));
        Duration::from_nanos(u64::try_from(added).unwrap_or(u64::MAX))
    }
}

/// The standard library seeds each `RandomState` differently, and without a lock.
fn random() -> u32 {
    u32::try_from(RandomState::new().build_hasher().finish() >> 32).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added(percent: u32, draw: fn() -> u32, wait: Duration) -> Duration {
        Jitter { percent, draw }.added_to(wait)
    }

    #[test]
    fn a_wait_is_lengthened_by_up_to_the_percentage() {
        let wait = Duration::from_secs(10);
        assert_eq!(added(20, || 0, wait), Duration::ZERO);
        assert_eq!(added(20, || u32::MAX, wait), Duration::from_secs(2));
        assert_eq!(added(20, || u32::MAX / 2, wait), Duration::from_nanos(999_999_999));
        assert_eq!(added(0, || u32::MAX, wait), Duration::ZERO);
        assert_eq!(added(100, || u32::MAX, Duration::ZERO), Duration::ZERO);
        let longest = added(u32::MAX, || u32::MAX, Duration::MAX);
        assert_eq!(longest, Duration::from_nanos(u64::MAX), "no overflow");
    }

    #[test]
    fn draws_cover_the_range() {
        let draws: Vec<u32> = (0..400).map(|_| random()).collect();
        let quarters: Vec<usize> =
            (0..4).map(|nth| draws.iter().filter(|draw| *draw >> 30 == nth).count()).collect();
        assert!(quarters.iter().all(|count| *count > 40), "{quarters:?}");
    }
}
