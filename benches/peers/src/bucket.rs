//! The bucket that a user would write: GCRA in one atomic word, to be put into a map.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::plan::Plan;

/// A plan in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    interval_nanos: u64,
    burst_nanos: u64,
}

impl Pace {
    /// Converts a plan, with the interval in whole nanoseconds.
    ///
    /// # Panics
    ///
    /// If a cell takes centuries.
    #[must_use]
    pub fn new(plan: Plan) -> Self {
        let interval_nanos = u64::try_from(plan.interval().as_nanos()).expect("below 584 years");
        Self { interval_nanos, burst_nanos: interval_nanos.saturating_mul(plan.burst.into()) }
    }

    /// The arrival time after `n` more cells, if there are as many.
    #[inline]
    #[must_use]
    pub fn charged(&self, tat_nanos: u64, now_nanos: u64, n: u64) -> Option<u64> {
        let cost = self.interval_nanos.saturating_mul(n);
        let most = now_nanos.saturating_add(self.burst_nanos);
        let next = tat_nanos.max(now_nanos).saturating_add(cost);
        (next <= most).then_some(next)
    }
}

/// The time at which all charges are restored (the theoretical arrival time), in nanoseconds. Zero
/// is a full bucket.
///
/// Relaxed: the word guards no other memory. Its compare-and-swap makes the total exact.
#[derive(Debug, Default)]
pub struct Bucket(AtomicU64);

impl Bucket {
    /// Charges `n` cells at `now_nanos`, if there are as many.
    #[inline]
    pub fn charge(&self, pace: &Pace, now_nanos: u64, n: u64) -> bool {
        let mut seen = self.0.load(Ordering::Relaxed);
        while let Some(next) = pace.charged(seen, now_nanos, n) {
            let swap =
                self.0.compare_exchange_weak(seen, next, Ordering::Relaxed, Ordering::Relaxed);
            match swap {
                Ok(_) => return true,
                Err(actual) => seen = actual,
            }
        }
        false
    }

    /// Whether it is as full as a new one.
    #[inline]
    #[must_use]
    pub fn is_idle(&self, now_nanos: u64) -> bool {
        self.0.load(Ordering::Relaxed) <= now_nanos
    }
}

/// The clock: the processor's counter, scaled by quanta.
#[derive(Debug)]
pub struct Watch {
    clock: quanta::Clock,
    origin: u64,
}

impl Watch {
    /// Starts now.
    #[must_use]
    pub fn start() -> Self {
        let clock = quanta::Clock::new();
        let origin = clock.raw();
        Self { clock, origin }
    }

    /// Nanoseconds since the start.
    #[inline]
    #[must_use]
    pub fn nanos(&self) -> u64 {
        self.clock.delta_as_nanos(self.origin, self.clock.raw())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn three_a_second() -> Pace {
        Pace::new(Plan::new(3, Duration::from_secs(1), 5))
    }

    #[test]
    fn a_burst_is_granted_once_and_restored_cell_by_cell() {
        let (pace, bucket) = (three_a_second(), Bucket::default());
        let granted = (0..20).filter(|_| bucket.charge(&pace, 1_000, 1)).count();
        assert_eq!(granted, 5);
        assert!(!bucket.charge(&pace, 333_334_332, 1), "a nanosecond too early");
        assert!(bucket.charge(&pace, 333_334_333, 1));
        assert!(!bucket.charge(&pace, 333_334_333, 1));
    }

    #[test]
    fn idle_time_beyond_the_burst_grants_no_more() {
        let (pace, bucket) = (three_a_second(), Bucket::default());
        assert!(bucket.charge(&pace, 0, 5));
        assert!(!bucket.is_idle(1_666_666_664) && bucket.is_idle(1_666_666_665));
        let granted = (0..20).filter(|_| bucket.charge(&pace, 3_600_000_000_000, 1)).count();
        assert_eq!(granted, 5);
    }

    #[test]
    fn several_cells_are_charged_whole_or_not_at_all() {
        let (pace, bucket) = (three_a_second(), Bucket::default());
        assert!(!bucket.charge(&pace, 0, 6), "beyond the burst");
        assert!(!bucket.charge(&pace, 0, u64::MAX));
        assert!(bucket.charge(&pace, 0, 4));
        assert!(!bucket.charge(&pace, 0, 2));
        assert!(bucket.charge(&pace, 0, 1));
    }

    #[test]
    fn an_earlier_time_grants_no_more() {
        let (pace, bucket) = (three_a_second(), Bucket::default());
        assert!(bucket.charge(&pace, 5_000_000_000, 5));
        assert!(!bucket.charge(&pace, 0, 1));
    }

    #[test]
    fn threads_together_are_granted_exactly_the_burst() {
        let pace = Pace::new(Plan::hourly(10_000));
        let bucket = Bucket::default();
        let granted: usize = std::thread::scope(|scope| {
            let ask = || (0..5_000).filter(|_| bucket.charge(&pace, 7, 1)).count();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
        });
        assert_eq!(granted, 10_000);
    }
}
