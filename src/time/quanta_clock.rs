//! The default clock.

use std::sync::Arc;
use std::time::UNIX_EPOCH;

use crate::time::counter::Counter;
use crate::time::disciplined::{Disciplined, Sample, TimeSource};
use crate::time::{Clock, Tick, saturating_nanos};

/// The default clock: the processor's own counter, which follows the system's monotonic clock
/// ([`Instant`](std::time::Instant)).
///
/// Its origin is the moment it was made. Clones share one time. On processors without such a counter it
/// is the system's monotonic clock.
///
/// A reading costs the counter and six loads. No thread runs in the background: the caller that finds the
/// last correction older than half a second makes the next one, by a few readings of the system's clock,
/// some hundred nanoseconds. The first corrections come after 1, 8 and 64 milliseconds.
///
/// **Guarantee**, for any pattern of calls, whatever the error of the first calibration up to 1,000 parts
/// in a million:
///
/// - At any time it is within 1 ms of the system's clock, and within some microseconds while the counter's
///   frequency is steady. The system may slew its clock by 500 parts in a million at any time.
/// - Over a minute of steady frequency it is within 1 part in a million of the system's clock.
/// - No thread reads an earlier time than before, except by as much as the counters of two cores differ,
///   or, while another thread makes a correction, by as much as the clock was ahead: microseconds. A clock
///   that is ahead runs slower until it is not.
/// - A thread waits for no other. If a thread is halted in the middle of a correction, the others read the
///   system's clock.
/// - Idle time and suspensions are those of the system's clock: the first reading after them is corrected.
///   On Linux and macOS a suspended machine's time stops.
///
/// **Not guaranteed.**
///
/// - Between two corrections, a counter that jumps by less than half a second, or stops while the system's
///   clock runs on, is not noticed. The next correction sets the clock right, back if it is ahead by 0.9 ms
///   or more. (A reading of an earlier time never grants more.)
/// - Ticks do not follow the wall clock. [`unix_now_nanos`](Clock::unix_now_nanos) reads it, and
///   [`unix_origin_nanos`](Clock::unix_origin_nanos) is what it was when the clock was made.
/// - A process that is forked while another thread makes a correction may read the system's clock from
///   then on, which is slower.
///
/// ```
/// use tollgate::clock::QuantaClock;
/// use tollgate::Clock;
///
/// let clock = QuantaClock::new();
/// let earlier = clock.now();
/// std::thread::sleep(std::time::Duration::from_millis(2));
/// assert!(clock.now().since(earlier).as_millis() >= 1);
/// ```
#[derive(Clone, Debug)]
pub struct QuantaClock {
    source: System,
    disciplined: Arc<Disciplined>,
    unix_origin_nanos: u64,
}

impl QuantaClock {
    /// A clock that begins now, at [`Tick::ZERO`].
    ///
    /// The first one in a process calibrates the counter, which takes some milliseconds.
    ///
    /// ```
    /// # use tollgate::clock::QuantaClock;
    /// # use tollgate::Clock;
    /// assert!(QuantaClock::new().now().as_nanos() < 1_000_000_000);
    /// ```
    #[must_use]
    pub fn new() -> Self {
        let source = System::new();
        let disciplined = Disciplined::new(source.sample(), source.counter.frequency());
        Self { source, disciplined: Arc::new(disciplined), unix_origin_nanos: system_unix_nanos() }
    }
}

/// The processor's counter, and the system's monotonic clock since the clock was made.
#[derive(Clone, Debug)]
#[allow(clippy::disallowed_types, reason = "the system's clock is read here only")]
struct System {
    counter: Counter,
    origin: std::time::Instant,
}

/// The reading of both clocks that took least is the sample, out of this many.
const ATTEMPTS: usize = 3;

#[allow(clippy::disallowed_types, reason = "the system's clock is read here only")]
impl System {
    fn new() -> Self {
        Self { counter: Counter::new(), origin: std::time::Instant::now() }
    }

    /// The ticks that it took to take a sample, and the sample.
    fn attempt(&self) -> (u64, Sample) {
        let before = self.counter.ticks();
        let nanos = saturating_nanos(self.origin.elapsed());
        let took = self.counter.ticks().wrapping_sub(before);
        (took, Sample { ticks: before.wrapping_add(took / 2), nanos })
    }
}

impl TimeSource for System {
    #[inline]
    fn ticks(&self) -> u64 {
        self.counter.ticks()
    }

    fn sample(&self) -> Sample {
        let attempts: [(u64, Sample); ATTEMPTS] = core::array::from_fn(|_| self.attempt());
        attempts
            .into_iter()
            .min_by_key(|(took, _)| *took)
            .map_or(attempts[0].1, |(_, sample)| sample)
    }
}

/// The system's wall clock. A time before 1970 counts as 1970.
#[allow(clippy::disallowed_types, reason = "the wall clock is read here only")]
pub(super) fn system_unix_nanos() -> u64 {
    std::time::SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, saturating_nanos)
}

impl Default for QuantaClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for QuantaClock {
    #[inline]
    fn now(&self) -> Tick {
        Tick::from_nanos(self.disciplined.now(&self.source))
    }

    #[inline(always)]
    fn now_at_once(&self) -> Option<Tick> {
        self.disciplined.reading(self.source.counter.ticks_at_once()?).map(Tick::from_nanos)
    }

    fn unix_origin_nanos(&self) -> u64 {
        self.unix_origin_nanos
    }

    fn unix_now_nanos(&self) -> u64 {
        system_unix_nanos()
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    #[test]
    fn a_time_read_at_once_is_the_time() {
        let clock = QuantaClock::new();
        let slack = Duration::from_millis(1);
        let mut count = 0;
        for _ in 0..1_000 {
            let before = clock.now();
            let Some(at_once) = clock.now_at_once() else { continue };
            let after = clock.now();
            assert!(
                before.saturating_sub(slack) <= at_once && at_once <= after.saturating_add(slack)
            );
            count += 1;
        }
        // A line covers a millisecond at least, and thousands of readings.
        let is_read = clock.source.counter.ticks_at_once().is_some();
        assert_eq!(count > 500, is_read, "{count} of 1,000 were read at once");
    }

    #[test]
    fn the_wall_clock_is_this_century() {
        let origin = Duration::from_nanos(QuantaClock::new().unix_origin_nanos());
        assert!(origin > Duration::from_secs(1_600_000_000), "{origin:?}");
    }
}
