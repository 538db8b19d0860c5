//! The default clock. The only file that names quanta.

use std::time::UNIX_EPOCH;

use crate::time::{Clock, Tick, saturating_nanos};

/// The processor's own counter, scaled to nanoseconds: the default clock.
///
/// Its origin is the moment it was made. Its readings on two cores may differ by microseconds,
/// which never grants more. On processors without such a counter it is the system's monotonic
/// clock.
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
    clock: quanta::Clock,
    origin_raw: u64,
    unix_origin_nanos: u64,
}

impl QuantaClock {
    /// A clock that begins now.
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
        let clock = quanta::Clock::new();
        let unix_origin_nanos = system_unix_nanos();
        let origin_raw = clock.raw();
        Self { clock, origin_raw, unix_origin_nanos }
    }
}

/// The system's wall clock. A time before 1970 counts as 1970.
#[allow(clippy::disallowed_types, reason = "the wall clock is read here only")]
fn system_unix_nanos() -> u64 {
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
        Tick::from_nanos(self.clock.delta_as_nanos(self.origin_raw, self.clock.raw()))
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
    fn the_wall_clock_is_this_century() {
        let origin = Duration::from_nanos(QuantaClock::new().unix_origin_nanos());
        assert!(origin > Duration::from_secs(1_600_000_000), "{origin:?}");
    }
}
