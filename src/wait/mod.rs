//! Waiting for one's turn: lines before a limiter, first come first served.

mod blocking;
mod error;
mod future;
mod queue;
mod source;
#[cfg(all(test, not(tollgate_loom)))]
mod tests;
mod ticket;
mod timer;

use std::collections::HashMap;

use ahash::RandomState;

pub use error::{WaitError, Waited};
pub use future::Wait;
use queue::{Queue, Request};
pub use source::Waitable;
use source::sealed::Gate;
pub use timer::{Sleep, Timer};

use crate::sync::Mutex;
use crate::time::Tick;

/// How many may wait unless told otherwise.
const WAITERS_MAX: usize = 1_024;

/// A line before a limiter, for every key: whoever asks for more than there is waits for its turn,
/// first come first served.
///
/// It stands before a [`Limiter`](crate::Limiter) or a [`Direct`](crate::Direct) with a token bucket
/// ([`Gcra`](crate::Gcra)), which it holds by value, by reference or in an `Arc`; the key of a
/// `Direct` is `()`. A thread [waits](Self::wait), a task [awaits](Self::wait_async) on any executor:
/// the line starts no thread and needs no runtime.
///
/// The first in a line has its cells charged ahead of their time, and goes ahead when that has come.
/// Until then the key owes more than its burst, so that nobody can take cells in between. The others
/// have charged nothing yet. (Nor has the first while its turn is further away than a state can tell,
/// sixteen times the burst in most cases: where others have overdrawn the key by so much.)
///
/// A line takes a lock, which no decision of the limiter ever touches: those who do not wait are not
/// slowed down.
///
/// **Guarantee.**
///
/// - Those who wait for a key are granted their cells in the order in which they came, as soon as the
///   quota has them. Each is charged as of when it is granted, so that a line that was not looked at for
///   long grants no more at once than the burst.
/// - Who cannot have its turn in time is told so at once, and charges nothing. How long it takes is
///   exact if only those in line ask for the key, and are woken on time.
/// - A turn is not lost by being late. If one in line is woken late, those behind it have their turns
///   later by as much, and their deadlines move with them: none of them is
///   [`Overtaken`](WaitError::Overtaken) for it.
/// - At most [`max_waiters`](Self::max_waiters) wait at a time, over all keys, and memory is bounded by
///   them. Keys for which nobody waits take none.
/// - Who stops waiting (a future that is dropped) leaves the key as if it had never come, at any
///   moment before its turn. Everybody behind it moves up.
///
/// **Not guaranteed.**
///
/// - Who asks the limiter itself stands in no line. Where nobody waits it takes what is there; where
///   somebody does, it is denied while a booking stands, but may come first between two of them. One
///   in line may then have to wait longer, or be [denied](WaitError::Overtaken) after all.
/// - The system wakes nobody on time. A turn is a time from which on it may go ahead. As the next one
///   is booked only when somebody in line looks, a line gets less than its rate if it is looked at
///   more rarely than the time in which its burst comes back. A wait may then end after its deadline,
///   by as much as those before it, and itself, were late in all.
/// - A waiter that is woken late by the time in which a cell comes back, or more, may find that a request
///   outside the line took cells meanwhile. The waiter goes ahead all the same, since its cells were
///   charged before. A span of time may then see one booking more than the burst and the rate.
/// - A [`Wait`] that is leaked (by [`mem::forget`](core::mem::forget), or in a cycle of `Arc`s) never
///   leaves. It counts against [`max_waiters`](Self::max_waiters), with its waker in memory, until the
///   line is dropped. Its cells are charged when its turn comes, as if it had gone ahead, and so lost.
///   It does not hold up those behind it, and no other key loses cells to it.
/// - A future that is dropped after its turn came, without having been polled since, gives back what
///   time has not restored since its turn, never more: see [`Reservation`](crate::reservation::Reservation). Whoever
///   was granted in the meantime keeps what it was granted.
/// - Keys that [find no place](crate::OnFull) do not wait: they are admitted or denied by the
///   limiter's policy.
/// - With [`CoarseClock`](crate::clock::CoarseClock) a turn comes when the clock says so.
///
/// ```
/// use std::time::Duration;
/// use tollgate::wait::WaitQueue;
/// use tollgate::{Limiter, Quota};
///
/// // The provider allows 50 requests a second for each account, 5 of them at once.
/// let gate: Limiter<str> = Limiter::builder(Quota::per_second(50).burst(5)).build()?;
/// let line = WaitQueue::new(gate);
/// for _request in 0..8 {
///     line.wait("account", 1, Duration::from_secs(1))?;
///     // Send it.
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct WaitQueue<S: Waitable> {
    limiter: S,
    max_waiters: usize,
    jitter_percent: u32,
    random: RandomState,
    queues: Mutex<Queues>,
}

/// Those who wait, by the hashes of their keys.
#[derive(Debug, Default)]
struct Queues {
    by_key: HashMap<u64, Queue>,
    waiters: usize,
    next_ticket: u64,
}

impl<S: Waitable> WaitQueue<S> {
    /// A line before `limiter`, in which 1,024 may wait.
    ///
    /// All who wait for a key should stand in one line: those in two lines before one limiter are
    /// granted no more than its quota, but in no order.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::wait::WaitQueue;
    /// use tollgate::{Direct, Quota};
    /// let gate = Arc::new(Direct::new(Quota::per_second(9))?);
    /// let line = WaitQueue::new(Arc::clone(&gate));
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    #[must_use]
    pub fn new(limiter: S) -> Self {
        Self {
            limiter,
            max_waiters: WAITERS_MAX,
            jitter_percent: 0,
            random: RandomState::new(),
            queues: Mutex::new(Queues::default()),
        }
    }

    /// Lets so many wait at a time, over all keys; one more is denied at once.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::wait::{WaitError, WaitQueue};
    /// # use tollgate::{Direct, Quota};
    /// let line = WaitQueue::new(Direct::new(Quota::per_minute(1))?).max_waiters(0);
    /// line.wait(&(), 1, Duration::MAX)?; // does not have to wait
    /// let error = line.wait(&(), 1, Duration::MAX).unwrap_err();
    /// assert_eq!(error, WaitError::Crowded { waiters: 0 });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn max_waiters(self, waiters: usize) -> Self {
        Self { max_waiters: waiters, ..self }
    }

    /// Adds to each sleep up to so many percent of it, at random, but not beyond the deadline: so that
    /// many processes that wait for one thing do not all wake at once. Nobody goes ahead before its
    /// turn; some may do so after others whose turn comes later.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::wait::WaitQueue;
    /// # use tollgate::{Direct, Quota};
    /// let line = WaitQueue::new(Direct::new(Quota::per_second(200).burst(1))?).jitter_percent(20);
    /// line.wait(&(), 1, Duration::MAX)?;
    /// line.wait(&(), 1, Duration::MAX)?; // sleeps for 5 to 6 ms
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn jitter_percent(self, percent: u32) -> Self {
        Self { jitter_percent: percent, ..self }
    }

    /// How many wait now, over all keys.
    ///
    /// ```
    /// # use tollgate::wait::WaitQueue;
    /// # use tollgate::{Direct, Quota};
    /// assert_eq!(WaitQueue::new(Direct::new(Quota::per_second(9))?).waiting(), 0);
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    pub fn waiting(&self) -> usize {
        self.lock().waiters
    }

    /// What the line stands before.
    ///
    /// ```
    /// # use tollgate::wait::WaitQueue;
    /// # use tollgate::{Direct, Quota};
    /// let line = WaitQueue::new(Direct::new(Quota::per_second(9))?);
    /// assert!(line.limiter().check().is_ok()); // without standing in line
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    pub fn limiter(&self) -> &S {
        &self.limiter
    }

    fn request(&self, key: &S::Key, n: u64, deadline: Tick) -> Request {
        Request { place: self.limiter.gate().place(key), n, deadline }
    }

    fn now(&self) -> Tick {
        self.limiter.gate().now()
    }
}
