//! Queues of waiters in front of a limiter: first come, first served.

mod ask;
mod blocking;
mod error;
mod future;
mod queue;
#[cfg(feature = "tokio")]
mod ready;
mod retry;
mod source;
#[cfg(all(test, not(tollgate_loom)))]
mod tests;
mod ticket;
mod timer;
mod wakers;

use std::collections::HashMap;

use ahash::RandomState;

pub use error::{WaitError, Waited};
pub use future::Wait;
use queue::{Call, KeyQueue};
pub use source::Waitable;
use source::sealed::LimiterOps;
pub use timer::{Sleep, Timer};
use wakers::Wakers;

use crate::sync::Mutex;
use crate::time::Tick;

/// The default of [`WaitQueue::max_waiters`].
const MAX_WAITERS_DEFAULT: usize = 1_024;

/// A FIFO queue in front of a limiter: a caller that cannot have its cells now waits for its turn.
///
/// The queue takes a [`Limiter`](crate::Limiter) or a [`Direct`](crate::Direct) with any algorithm, by
/// value, by reference or in an `Arc`. Each key has a queue of its own; the key of a `Direct` is `()`. A
/// request is made by [`ask`](Self::ask): a thread ends it by [`wait`](crate::Ask::wait), and a task awaits
/// [`wait_async`](crate::Ask::wait_async) on any executor. The queue starts no thread and needs no runtime.
/// With the feature `tokio`, a task of that runtime awaits `queue.ready(&key)`.
///
/// With a token bucket ([`Gcra`](crate::Gcra)) the first waiter of a key is *booked*: its cells are charged
/// now, ahead of time, and it goes ahead when its turn comes. Until then the key owes more than its burst, so
/// no other caller can take cells, unless others are refunded meanwhile. The other waiters are charged nothing
/// until they are first. (A state can owe a limited amount, in most cases sixteen times the burst of the limiter's own
/// quota. If the first waiter's turn lies beyond that limit, the first waiter is not booked either until its turn is
/// near enough. That happens if other callers have overdrawn the key by so much, or if the burst of the waiter's
/// [plan](crate::plan::Plan) is as large, unless the limiter is built [for plans](crate::Gcra::for_plans).)
///
/// Other algorithms cannot be charged ahead of time. With them the first waiter asks again after the
/// `retry_after` of its denial, and the others wait behind it. The differences are listed
/// [below](Self#other-algorithms-than-the-token-bucket).
///
/// The queue takes a lock. Decisions of the limiter never take it, so callers that do not wait are
/// not slowed down.
///
/// **Guarantee.**
///
/// - The waiters of a key are granted their cells in the order of their arrival, as soon as the
///   quota has them. Each is charged at the time at which it is granted, so a queue that was not
///   polled for a long time grants no more than the burst at once.
/// - A caller that cannot be served before its deadline fails immediately and is charged nothing.
///   The wait in that error is exact if only waiters of this queue use the key, and if they are
///   woken on time.
/// - A waiter that is woken late keeps its turn. The turns of the waiters behind it move back by
///   the same time, and so do their deadlines: none of them is [`Overtaken`](WaitError::Overtaken)
///   because of it.
/// - At most [`max_waiters`](Self::max_waiters) wait at a time, over all keys. They bound the
///   memory; keys without waiters take none.
/// - A waiter that leaves before its turn (its future is dropped) leaves the key as if it had never
///   come, unless others were refunded meanwhile (see below). All waiters behind it move up.
///
/// **Not guaranteed.**
///
/// - A caller that asks the limiter directly is not in the queue. It takes what is available if the
///   key has no waiters. While a waiter is booked, such a caller is denied, unless others were refunded meanwhile;
///   between two bookings it may get ahead. A waiter may then wait longer, or be
///   [denied](WaitError::Overtaken) after all.
/// - The system does not wake threads and tasks on time: a turn is the earliest time at which a
///   waiter may go ahead. The next waiter is booked only when some waiter polls the queue. So a
///   queue grants less than its rate if it is polled more rarely than the time in which its burst
///   is restored. A wait may then end after its deadline, by at most the total lateness of the
///   waiter and of those before it.
/// - If a waiter is woken late by at least the time in which one cell is restored, a request
///   outside the queue may take cells meanwhile. The waiter goes ahead all the same, since its
///   cells were charged before. A span of time may then see one booking more than the burst and the
///   rate.
/// - If others are refunded while a waiter is booked (a [reservation](crate::reservation::Reservation), a
///   [lease](crate::lease::LocalLease), a [composite](crate::composite::Composite) that denies, a waiter of another
///   queue), its turn could be earlier. The queue does not learn of that. The waiter keeps its turn, and requests
///   outside the queue may take cells before it, with the same bound: one booking more in a span of time. If it leaves,
///   it may be refunded only what time has not restored since it was booked. If it leaves before its turn, no span sees
///   more than the burst and the rate, unless a request is charged beyond the burst (by
///   [`Ask::charge`](crate::Ask::charge), by a reservation that is settled at more than it holds, or by a plan with a
///   larger burst).
/// - A [`Wait`] that is leaked (by [`mem::forget`](core::mem::forget), or in a cycle of `Arc`s)
///   never leaves. It counts against [`max_waiters`](Self::max_waiters), and its waker stays in
///   memory, until the queue is dropped. Its cells are charged when its turn comes, and are lost.
///   It does not hold up the waiters behind it, and costs no other key anything.
/// - A future that is dropped after its turn came, and that was not polled since, refunds at most
///   what time has not restored since its turn: see [`Reservation`](crate::reservation::Reservation). Requests
///   that were granted in the meantime keep their cells.
/// - Cells that are [added](crate::Ask::refund) to a key, its [reset](crate::Limiter::reset), or a refund to others do
///   not move up a waiter that is booked: it goes ahead at the turn that it was given, and those behind it no sooner.
/// - Keys that [find no slot](crate::OnFull) do not wait: the limiter's policy admits or denies
///   them.
/// - With [`CoarseClock`](crate::clock::CoarseClock) a turn comes when that clock shows it.
/// - If the process is forked while another thread uses the queue, each call in the child may wait for ever: make the
///   queue after the fork.
///
/// # Other algorithms than the token bucket
///
/// Waiters of a key are granted their cells in the order of their arrival, each as soon as the limiter
/// admits it, and never more than the limiter admits. The first waiter wakes exactly at the time that its
/// denial states. Beyond that, less is promised:
///
/// - A caller that asks the limiter directly may take the cells for which the first waiter waits. The
///   waiter then waits for the next ones. Under a steady stream of such callers it may wait for ever,
///   unless it has a deadline. Callers of this queue never overtake one another.
/// - A waiter that is not the first is denied at once only if the cells before it and its own, up to the
///   limit, cannot be there before its deadline. Others learn that later, as
///   [`Overtaken`](WaitError::Overtaken), and at their deadline at the latest. Deadlines do not move back
///   when another waiter is woken late.
/// - A future that is dropped after its turn came, and that was not polled since, has spent its cells. A
///   waiter that leaves earlier has spent none.
/// - Before a [`SlidingLog`](crate::SlidingLog) that [counts denials](crate::SlidingLog::count_denials), the first
///   waiter asks once when it becomes the first, and again at each turn that a denial states. Each denial counts,
///   also if the waiter then leaves. A [reset](crate::Limiter::reset) of the key does not move its turn up.
/// - A waiter sleeps until the turn that its last denial stated. A quota that
///   [becomes faster](crate::dynamic::DynamicGcra), cells that are added and a reset do not wake it: call
///   [`wake_all`](Self::wake_all) after them.
/// - A key that finds no slot waits for as long as its denial says, under [`OnFull::Deny`](crate::OnFull::Deny) and
///   [`OnFull::SharedOverflow`](crate::OnFull::SharedOverflow).
///
/// ```
/// use std::time::Duration;
/// use tollgate::wait::WaitQueue;
/// use tollgate::{Direct, Quota, SlidingLog};
///
/// // The provider counts requests in any 100 ms.
/// let quota = Quota::new(3, Duration::from_millis(100));
/// let queue = WaitQueue::new(Direct::builder(quota).algorithm(SlidingLog::new()).build()?);
/// for _request in 0..5 {
///     queue.ask(&()).wait()?;
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use tollgate::wait::WaitQueue;
/// use tollgate::{Limiter, Quota};
///
/// // The provider allows 50 requests a second for each account, 5 of them at once.
/// let limiter: Limiter<str> = Limiter::builder(Quota::per_second(50).burst(5)).build()?;
/// let queue = WaitQueue::new(limiter);
/// for _request in 0..8 {
///     queue.ask("account").max_delay(Duration::from_secs(1)).wait()?;
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

/// The waiters, by the hash of their key.
#[derive(Debug, Default)]
struct Queues {
    by_key: HashMap<u64, KeyQueue>,
    waiters: usize,
    next_ticket: u64,
}

impl<S: Waitable> WaitQueue<S> {
    /// A queue in front of `limiter`, for at most 1,024 waiters.
    ///
    /// Use one queue for each limiter. Waiters in two queues of one limiter are granted no more than its quota, but in
    /// no order. If a booked waiter of one queue leaves, a span may see one booking more of each other queue.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::wait::WaitQueue;
    /// use tollgate::{Direct, Quota};
    /// let limiter = Arc::new(Direct::new(Quota::per_second(9))?);
    /// let queue = WaitQueue::new(Arc::clone(&limiter));
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    #[must_use]
    pub fn new(limiter: S) -> Self {
        Self {
            limiter,
            max_waiters: MAX_WAITERS_DEFAULT,
            jitter_percent: 0,
            random: RandomState::new(),
            queues: Mutex::new(Queues::default()),
        }
    }

    /// Sets how many may wait at a time, over all keys. The default is 1,024. One more is denied at once.
    ///
    /// ```
    /// # use tollgate::wait::{WaitError, WaitQueue};
    /// # use tollgate::{Direct, Quota};
    /// let queue = WaitQueue::new(Direct::new(Quota::per_minute(1))?).max_waiters(0);
    /// queue.ask(&()).wait()?; // does not wait
    /// let error = queue.ask(&()).wait().unwrap_err();
    /// assert_eq!(error, WaitError::Crowded { waiters: 0 });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn max_waiters(self, waiters: usize) -> Self {
        Self { max_waiters: waiters, ..self }
    }

    /// Lengthens each sleep at random, by up to `percent` percent, but not beyond the deadline. So
    /// processes that wait for the same thing do not all wake at once. No waiter goes ahead before
    /// its turn; some may go ahead after others whose turn comes later.
    ///
    /// ```
    /// # use tollgate::wait::WaitQueue;
    /// # use tollgate::{Direct, Quota};
    /// let queue = WaitQueue::new(Direct::new(Quota::per_second(200).burst(1))?).jitter_percent(20);
    /// queue.ask(&()).wait()?;
    /// queue.ask(&()).wait()?; // sleeps for 5 to 6 ms
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn jitter_percent(self, percent: u32) -> Self {
        Self { jitter_percent: percent, ..self }
    }

    /// Asks the limiter again for the first waiter of each key, and wakes the waiters whose turn has become earlier:
    /// after the quota has become faster, cells were added or keys were reset. The waiters behind them follow in their
    /// order.
    ///
    /// A waiter that is booked by a token bucket keeps its turn. Nor does it ask before its turn where each denial
    /// [counts](crate::SlidingLog::count_denials).
    ///
    /// ```
    /// use tollgate::dynamic::{DynamicGcra, Inherit};
    /// use tollgate::wait::WaitQueue;
    /// use tollgate::{Direct, Quota};
    ///
    /// let gate = Direct::builder(Quota::per_day(1)).algorithm(DynamicGcra::new()).build()?;
    /// let queue = WaitQueue::new(gate);
    /// queue.limiter().set_quota(Quota::per_hour(1), Inherit::AsIs)?;
    /// queue.wake_all(); // those that would have slept for a day
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    pub fn wake_all(&self) {
        let mut wakers = Wakers::default();
        let mut queues = self.lock();
        let mut call = Call::begin(self.limiter.ops(), &mut wakers);
        queues.by_key.values_mut().for_each(|queue| queue.advance(&mut call));
        drop(queues);
        wakers.wake();
    }

    /// The number of waiters now, over all keys.
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

    /// The limiter behind the queue.
    pub fn limiter(&self) -> &S {
        &self.limiter
    }

    fn now(&self) -> Tick {
        self.limiter.ops().now()
    }
}
