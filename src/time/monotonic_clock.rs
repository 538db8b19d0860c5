//! The clock that all processes of a machine share.

use rustix::time::{ClockId, clock_gettime};

use crate::time::quanta_clock::system_unix_nanos;
use crate::time::{Clock, Tick};

/// The system's monotonic clock since the machine was started: the same in all processes.
///
/// Limiters in [shared memory](crate::shared) decide by it. A reading asks the system. A
/// [`QuantaClock`](crate::clock::QuantaClock) reads the processor's counter instead, but each process corrects
/// its own, so those of two processes may differ by up to 2 ms.
///
/// ```
/// use tollgate::Clock;
/// use tollgate::clock::MonotonicClock;
///
/// let (one, other) = (MonotonicClock::new(), MonotonicClock::new());
/// let earlier = one.now();
/// assert!(other.now() >= earlier);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct MonotonicClock {
    unix_origin_nanos: u64,
}

impl MonotonicClock {
    /// A clock whose [`Tick::ZERO`] is the start of the machine.
    #[must_use]
    pub fn new() -> Self {
        let since_start = monotonic_nanos();
        Self { unix_origin_nanos: system_unix_nanos().saturating_sub(since_start) }
    }

    /// The same with the Unix time of the origin that another process has read.
    pub(crate) fn with_origin(unix_origin_nanos: u64) -> Self {
        Self { unix_origin_nanos }
    }
}

fn monotonic_nanos() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    let nanos = i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec);
    u64::try_from(nanos).unwrap_or(0)
}

impl Default for MonotonicClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for MonotonicClock {
    #[inline]
    fn now(&self) -> Tick {
        Tick::from_nanos(monotonic_nanos())
    }

    fn unix_origin_nanos(&self) -> u64 {
        self.unix_origin_nanos
    }

    fn unix_now_nanos(&self) -> u64 {
        system_unix_nanos()
    }
}
