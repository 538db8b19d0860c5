//! Clocks that are refreshed from another clock.

use std::sync::Arc;
use std::sync::mpsc;
use std::thread::Builder;
use std::time::Duration;

use crate::sync::{OwnThread, SharedNanos};
use crate::time::quanta_clock::QuantaClock;
use crate::time::{Clock, Tick, saturating_nanos};

/// A clock that is cheap to read and moves only when it is refreshed: by its owner, or by a thread
/// that it starts on request.
///
/// It is never ahead of the [`QuantaClock`] that it is refreshed from. Between two refreshes it does
/// not move: a limiter sees requests up to that much older than they are, and cells come back that
/// much later. Clones share one time. If other clocks are used beside it, the skew that a limiter
/// allows for ([`Builder::max_clock_skew`](crate::Builder::max_clock_skew)) should be at least the
/// time between refreshes.
///
/// ```
/// use tollgate::clock::CoarseClock;
/// use tollgate::{Clock, Limiter, Quota};
///
/// let clock = CoarseClock::new();
/// let gate: Limiter<str, _, _> =
///     Limiter::builder(Quota::per_second(100)).clock(clock.clone()).build()?;
/// for _turn_of_the_event_loop in 0..3 {
///     clock.refresh();
///     assert!(gate.check("somebody").is_ok());
/// }
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[derive(Clone, Debug)]
pub struct CoarseClock {
    shared: Arc<Shared>,
    upkeep: Option<Arc<Upkeep>>,
}

#[derive(Debug)]
struct Shared {
    now: SharedNanos,
    precise: QuantaClock,
}

impl Shared {
    fn refresh(&self) -> Tick {
        let now = self.precise.now();
        self.now.set(now.as_nanos());
        now
    }
}

impl CoarseClock {
    /// A clock that moves when its owner calls [`refresh`](Self::refresh).
    ///
    /// ```
    /// # use tollgate::clock::CoarseClock;
    /// # use tollgate::{Clock, Tick};
    /// let clock = CoarseClock::new();
    /// let before = clock.now();
    /// std::thread::sleep(std::time::Duration::from_millis(2));
    /// assert_eq!(clock.now(), before);
    /// assert!(clock.refresh() > before);
    /// ```
    #[must_use]
    pub fn new() -> Self {
        let shared = Shared { now: SharedNanos::default(), precise: QuantaClock::new() };
        Self { shared: Arc::new(shared), upkeep: None }
    }

    /// A clock that its own thread refreshes every `interval` (at least 50 microseconds), until its
    /// last clone is dropped.
    ///
    /// **Not guaranteed.** The child of a fork has no such thread: there the clock stands still, unless its owner
    /// [refreshes](Self::refresh) it. So make the clock after the fork.
    ///
    /// # Errors
    ///
    /// The system could not start a thread.
    ///
    /// ```
    /// use std::time::Duration;
    /// # use tollgate::clock::CoarseClock;
    /// # use tollgate::Clock;
    /// let clock = CoarseClock::with_upkeep(Duration::from_millis(1))?;
    /// let before = clock.now();
    /// while clock.now() == before {
    ///     std::thread::yield_now();
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn with_upkeep(interval: Duration) -> std::io::Result<Self> {
        let clock = Self::new();
        let upkeep = Upkeep::start(&clock.shared, interval.max(Duration::from_micros(50)))?;
        Ok(Self { upkeep: Some(Arc::new(upkeep)), ..clock })
    }

    /// Moves this clock and all its clones to the present, and returns it.
    ///
    /// ```
    /// # use tollgate::clock::CoarseClock;
    /// # use tollgate::Clock;
    /// let clock = CoarseClock::new();
    /// assert_eq!(clock.refresh(), clock.clone().now());
    /// ```
    pub fn refresh(&self) -> Tick {
        self.shared.refresh()
    }

    /// Whether a thread of this process refreshes this clock.
    ///
    /// ```
    /// assert!(!tollgate::clock::CoarseClock::new().has_upkeep());
    /// ```
    #[must_use]
    pub fn has_upkeep(&self) -> bool {
        self.upkeep.as_ref().is_some_and(|upkeep| upkeep.thread.is_of_this_process())
    }
}

impl Default for CoarseClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for CoarseClock {
    #[inline]
    fn now(&self) -> Tick {
        Tick::from_nanos(self.shared.now.read())
    }

    fn unix_origin_nanos(&self) -> u64 {
        self.shared.precise.unix_origin_nanos()
    }

    fn unix_now_nanos(&self) -> u64 {
        let precise = &self.shared.precise;
        let behind = saturating_nanos(precise.now().since(self.now()));
        precise.unix_now_nanos().saturating_sub(behind)
    }
}

/// Two clocks in one: a [`CoarseClock`] to admit by, and the precise clock that refreshes it, which
/// is read only if the coarse one would deny.
///
/// Most decisions then cost no clock read, and a denial is as exact as ever: the precise clock
/// denies the same request and gives the exact wait. The price: a request may be admitted too early,
/// by a bounded time.
///
/// **Guarantee.** Let the coarse clock never be behind by more than `s` (the time between two
/// refreshes). Every event is then charged at a time at most `s` before it happened, so the events
/// of any span are charged within a span longer by `s`. A token bucket grants at most
/// `burst + rate * (span + s)` cells in a span, a log its limit in any span of a period less `s`.
/// The error does not add up.
///
/// **Not guaranteed.** That `s` is small: an upkeep thread that the system delays, or an owner that
/// forgets to refresh, makes it larger. Therefore this clock is a choice, and the default is one
/// that needs no refresh.
///
/// ```
/// use std::time::Duration;
/// use tollgate::clock::{CoarseClock, TieredClock};
/// use tollgate::{Limiter, Quota};
///
/// let clock = TieredClock::new(CoarseClock::with_upkeep(Duration::from_micros(500))?);
/// let gate: Limiter<str, _, _> = Limiter::builder(Quota::per_second(100)).clock(clock).build()?;
/// assert!(gate.check("somebody").is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct TieredClock {
    coarse: CoarseClock,
}

impl TieredClock {
    /// Admits by `coarse`, and denies by the clock that it is refreshed from.
    ///
    /// ```
    /// use tollgate::clock::{CoarseClock, TieredClock};
    /// use tollgate::Clock;
    ///
    /// let coarse = CoarseClock::new();
    /// let clock = TieredClock::new(coarse.clone());
    /// coarse.refresh();
    /// assert_eq!(clock.coarse(), Some(coarse.now()));
    /// assert!(clock.now() >= coarse.now());
    /// ```
    #[must_use]
    pub fn new(coarse: CoarseClock) -> Self {
        Self { coarse }
    }
}

impl Clock for TieredClock {
    #[inline]
    fn now(&self) -> Tick {
        self.coarse.shared.precise.now()
    }

    #[inline]
    fn coarse(&self) -> Option<Tick> {
        Some(self.coarse.now())
    }

    fn unix_origin_nanos(&self) -> u64 {
        self.coarse.unix_origin_nanos()
    }

    fn unix_now_nanos(&self) -> u64 {
        self.coarse.shared.precise.unix_now_nanos()
    }
}

/// The thread that refreshes a clock, stopped and joined when dropped.
#[derive(Debug)]
struct Upkeep {
    /// Dropping it tells the thread to end.
    stop: Option<mpsc::Sender<()>>,
    thread: OwnThread,
}

impl Upkeep {
    fn start(shared: &Arc<Shared>, interval: Duration) -> std::io::Result<Self> {
        let shared = Arc::clone(shared);
        let (stop, stopped) = mpsc::channel();
        let thread = Builder::new().name("tollgate-clock".into()).spawn(move || {
            while stopped.recv_timeout(interval) == Err(mpsc::RecvTimeoutError::Timeout) {
                shared.refresh();
            }
        })?;
        Ok(Self { stop: Some(stop), thread: OwnThread::new(thread) })
    }
}

impl Drop for Upkeep {
    fn drop(&mut self) {
        // Before the thread is joined.
        let stop = self.stop.take();
        if !self.thread.is_of_this_process() {
            core::mem::forget(stop);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropping_the_last_clone_ends_the_thread() {
        let clock = CoarseClock::with_upkeep(Duration::from_millis(1)).expect("a thread");
        assert!(clock.has_upkeep());
        let shared = Arc::downgrade(&clock.shared);
        let clone = clock.clone();
        drop(clock);
        assert!(shared.upgrade().is_some());
        drop(clone);
        assert!(shared.upgrade().is_none(), "the thread holds the clock no longer");
    }
}
