//! The quota of a key, in terms that all limiters have.

use std::hint::black_box;
use std::time::Duration;

/// `rate` cells in every `period`, and at most `burst` at once.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Cells in a period.
    pub rate: u32,
    /// How long they take to be restored.
    pub period: Duration,
    /// The cells of an idle key.
    pub burst: u32,
}

impl Plan {
    /// A plan whose numbers the compiler does not know.
    #[must_use]
    pub fn new(rate: u32, period: Duration, burst: u32) -> Self {
        black_box(Self { rate, period, burst })
    }

    /// Buckets that are always in debt here, and never at their limit.
    #[must_use]
    pub fn roomy() -> Self {
        Self::new(10_000, Duration::from_secs(1), 2_000_000_000)
    }

    /// Once asked, a bucket is empty for the next hour.
    #[must_use]
    pub fn hourly(burst: u32) -> Self {
        Self::new(1, Duration::from_secs(3_600), burst)
    }

    /// The time from one cell to the next.
    #[must_use]
    pub fn interval(&self) -> Duration {
        self.period / self.rate
    }

    /// The time in which a whole burst is restored: whole seconds, and at least one. It is the
    /// window of the peers with windows, and `burst` is their limit.
    #[must_use]
    pub fn window_secs(&self) -> u64 {
        let nanos = self.interval().as_nanos() * u128::from(self.burst);
        u64::try_from(nanos.div_ceil(1_000_000_000)).unwrap_or(u64::MAX).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_as_long_as_a_burst_takes_to_be_restored() {
        assert_eq!(Plan::hourly(10).window_secs(), 36_000);
        assert_eq!(Plan::roomy().window_secs(), 200_000);
        assert_eq!(Plan::new(100, Duration::from_secs(1), 5).window_secs(), 1);
    }
}
