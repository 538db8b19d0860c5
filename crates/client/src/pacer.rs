//! A rate, and the requests that wait for their turn.

#![allow(
    clippy::disallowed_types,
    reason = "locks are held for a few instructions, never across an await"
)]

use core::convert::Infallible;
use core::fmt;
use core::future::{Future, poll_fn};
use core::pin::pin;
use core::sync::atomic::{AtomicU64, Ordering};
use core::task::Poll;
use core::time::Duration;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use http::{StatusCode, response};
use tokio::time::Instant;
use tollgate::dynamic::{DynamicGcra, Inherit};
use tollgate::wait::{WaitError, WaitQueue};
use tollgate::{Clock, Direct, Quota, Tick};

use crate::advice::Advice;
use crate::error::{PacerError, SettingsError};
use crate::places::{Place, Places};
use crate::rate::Rate;
use crate::settings::Settings;

/// By how much the rate may be above the one in force: a new quota costs more than a decision.
const RATE_STEP: f64 = 0.002;

/// Tokio's clock, by which requests sleep, too.
#[derive(Clone, Copy, Debug)]
struct TokioClock(Instant);

impl Clock for TokioClock {
    fn now(&self) -> Tick {
        Tick::from_duration(self.0.elapsed())
    }
}

type Queue = WaitQueue<Direct<DynamicGcra, TokioClock>>;

/// Lets requests go one after the other, at a rate that responses move.
///
/// A [`PaceLayer`](crate::PaceLayer) calls it. A client without tower calls
/// [`turn`](Self::turn) before each request, and [`answered`](Turn::answered) with the response.
///
/// - A request that had to wait for its turn and is admitted lets the rate grow: it doubles each second
///   until the server first lowers it; from then on it grows by [a constant](Settings::increase).
/// - A 429 or 503 lowers the rate to [`backoff_percent`](Settings::backoff_percent) of what it was. Denials
///   of requests that were sent before that are the same event.
/// - `Retry-After` on those two pauses all requests. Without it, so does `r=0` in `RateLimit`, or
///   `X-RateLimit-Remaining: 0`, for the time that it names. On other responses these pause too, and lower the
///   rate by 5 %, but not below one request in that time.
/// - The rate is never above `q` / `w` of the `RateLimit-Policy` that the server showed last.
///
/// **Guarantee.** Requests go in the order in which they came, except across a pause. At most
/// `rate * (span + 10 ms) + 1` go in any span of time. No response pauses for longer than
/// [`max_pause`](Settings::max_pause), and none moves the rate out of [its bounds](Settings::rates). No lock
/// is held while a request waits.
///
/// **Not guaranteed.** That the server denies nothing: it is how the limit is found. Requests that are under
/// way when a pause begins are not held back.
///
/// ```
/// use tollgate_client::{Pacer, Settings};
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let pacer = Pacer::new(Settings::new(100.0))?;
/// let turn = pacer.turn().await?;
/// let (response, ()) = http::Response::builder().status(429).body(())?.into_parts();
/// turn.answered(&response);
/// assert!(pacer.rate() < 91.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Pacer {
    queue: Queue,
    /// A queue, at the same rate, of requests that were held up after their turn.
    held_up: Queue,
    places: Places,
    rate: Mutex<Rate>,
    settings: Settings,
    sent: AtomicU64,
    denied: AtomicU64,
    failed: AtomicU64,
}

/// Counts of a [`Pacer`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PacerStats {
    /// Requests that got their turn.
    pub sent: u64,
    /// Responses with 429 or 503.
    pub denied: u64,
    /// Requests that did not get their turn in time.
    pub failed: u64,
}

impl Pacer {
    /// A pacer that begins now.
    ///
    /// # Errors
    ///
    /// A setting is out of range; the error says what to do.
    ///
    /// ```
    /// use tollgate_client::{Pacer, Settings};
    /// assert!(Pacer::new(Settings::new(f64::NAN)).is_err());
    /// ```
    pub fn new(settings: Settings) -> Result<Self, SettingsError> {
        settings.check()?;
        let clock = TokioClock(Instant::now());
        let [queue, held_up] = [(); 2].map(|()| queue(&settings, clock));
        let rate = Mutex::new(Rate::new(settings, clock.now()));
        let places = Places::new(settings.max_waiting);
        let [sent, denied, failed] = [(); 3].map(|()| AtomicU64::new(0));
        Ok(Self { queue, held_up, places, rate, settings, sent, denied, failed })
    }

    /// Waits until the next request may be sent.
    ///
    /// # Errors
    ///
    /// The turn does not come within [`max_wait`](Settings::max_wait), or too many wait.
    pub async fn turn(&self) -> Result<Turn<'_>, PacerError<Infallible>> {
        self.counted(self.turn_until(self.deadline()).await)
    }

    /// When a request that comes now has to have its turn.
    pub(crate) fn deadline(&self) -> Tick {
        self.now().saturating_add(self.settings.max_wait)
    }

    /// Counts a request by whether it has had its turn.
    pub(crate) fn counted<'a, E>(
        &self,
        turn: Result<Turn<'a>, PacerError<E>>,
    ) -> Result<Turn<'a>, PacerError<E>> {
        let count = match turn {
            Ok(_) | Err(PacerError::Service(_)) => &self.sent,
            Err(PacerError::Paused { .. } | PacerError::Wait(_)) => &self.failed,
        };
        count.fetch_add(1, Ordering::Relaxed);
        turn
    }

    /// As [`turn`](Self::turn), by a deadline and without counting.
    pub(crate) async fn turn_until(
        &self,
        deadline: Tick,
    ) -> Result<Turn<'_>, PacerError<Infallible>> {
        let (mut place, mut had_to_wait) = (None, false);
        loop {
            let pause = self.paused_for();
            if !pause.is_zero() {
                if self.now().saturating_add(pause) > deadline {
                    return Err(PacerError::Paused { wait: pause });
                }
                self.keep_place(&mut place)?;
                tokio::time::sleep(pause).await;
                continue;
            }
            had_to_wait |= self.waited_in(&self.queue, deadline, &mut place).await?;
            if let Some(turn) = self.turn_now(had_to_wait) {
                return Ok(turn);
            }
            // A pause has begun meanwhile, and no request is sent at this turn. The turn is refunded, so that another
            // comes when the pause ends, and not an interval later. Those behind it learn of the pause, too.
            self.queue.limiter().ask().refund();
            self.queue.wake_all();
        }
    }

    /// Waits for a turn in a queue, and keeps a place meanwhile. Returns whether it had to wait.
    async fn waited_in<'a>(
        &'a self,
        queue: &Queue,
        deadline: Tick,
        place: &mut Option<Place<'a>>,
    ) -> Result<bool, PacerError<Infallible>> {
        let ask = queue.ask(&()).deadline(deadline);
        let mut turn = pin!(ask.wait_async(tokio::time::sleep));
        let waited = match poll_fn(|context| Poll::Ready(turn.as_mut().poll(context))).await {
            Poll::Ready(waited) => waited,
            Poll::Pending => {
                self.keep_place(place)?;
                turn.await
            }
        };
        let waited = waited.map_err(|error| match error {
            // The rate did not grow enough meanwhile. No request is outside the queue.
            WaitError::Overtaken { wait } => PacerError::Wait(WaitError::TooLate { wait }),
            error => PacerError::Wait(error),
        })?;
        Ok(!waited.waited().is_zero())
    }

    /// Another wait for a request that was held up after its turn. It comes behind others that were held up, so that
    /// they do not go all at once, and not behind those that have had no turn. Returns whether it had to wait.
    pub(crate) async fn wait_again(&self, deadline: Tick) -> Result<bool, PacerError<Infallible>> {
        self.waited_in(&self.held_up, deadline, &mut None).await
    }

    /// Whether requests that were held up after their turn wait for another.
    pub(crate) fn holds_up(&self) -> bool {
        self.held_up.waiting() > 0
    }

    /// The turn of a request that is sent now, unless a pause has begun.
    fn turn_now(&self, had_to_wait: bool) -> Option<Turn<'_>> {
        let (now, rate) = (self.now(), self.lock());
        let epoch = rate.epoch();
        (rate.paused_until() <= now).then_some(Turn { pacer: self, epoch, had_to_wait })
    }

    /// Takes a place for a request that waits, unless it has one.
    fn keep_place<'a>(
        &'a self,
        place: &mut Option<Place<'a>>,
    ) -> Result<(), PacerError<Infallible>> {
        if place.is_none() {
            *place = Some(self.places.take().map_err(PacerError::Wait)?);
        }
        Ok(())
    }

    /// The rate now, in requests a second.
    pub fn rate(&self) -> f64 {
        self.lock().per_second()
    }

    /// How long no request is sent, by what the server has asked for.
    pub fn paused_for(&self) -> Duration {
        self.lock().paused_until().since(self.now())
    }

    /// Requests that wait for their turn, those among them that wait for the end of a pause.
    pub fn waiting(&self) -> usize {
        self.places.taken()
    }

    /// Counts since it was made.
    pub fn stats(&self) -> PacerStats {
        let [sent, denied, failed] =
            [&self.sent, &self.denied, &self.failed].map(|count| count.load(Ordering::Relaxed));
        PacerStats { sent, denied, failed }
    }

    pub(crate) fn now(&self) -> Tick {
        self.queue.limiter().clock().now()
    }

    /// A panic under the lock leaves a rate as good as any.
    fn lock(&self) -> MutexGuard<'_, Rate> {
        self.rate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn learn(&self, status: StatusCode, advice: &Advice, turn: &Turn<'_>) {
        let now = self.now();
        let mut rate = self.lock();
        if let Some(max_rate) = advice.max_rate {
            rate.bound(max_rate);
        }
        if denies(status) {
            self.denied.fetch_add(1, Ordering::Relaxed);
            rate.denied(now, turn.epoch);
            // `Retry-After` takes precedence: the reset of a field may be that of the whole quota.
            let pause = advice.retry_after.or(advice.exhausted_for).unwrap_or_default();
            rate.pause(now, pause);
        } else {
            rate.admitted(now, turn.had_to_wait);
            if let Some(span) = advice.exhausted_for {
                rate.exhausted(now, turn.epoch, span);
                rate.pause(now, span);
            }
        }
        // Under the lock, so that the last rate is the one in force.
        let is_faster = self.put_in_force(rate.per_second());
        drop(rate);
        if is_faster {
            self.queue.wake_all();
            self.held_up.wake_all();
        }
    }

    /// Returns whether the rate in force has become faster.
    fn put_in_force(&self, per_second: f64) -> bool {
        let (next, in_force) = (quota(per_second).period(), self.queue.limiter().quota().period());
        // A lower rate is put in force at once: a policy bounds it.
        let changes = next > in_force || next.mul_f64(1.0 + RATE_STEP) < in_force;
        // Of two that replace a quota at once, one gives up; the next response tries again.
        let is_replaced =
            |queue: &Queue| queue.limiter().set_quota(quota(per_second), Inherit::AsIs).is_ok();
        changes && is_replaced(&self.queue) && is_replaced(&self.held_up) && next < in_force
    }
}

fn queue(settings: &Settings, clock: TokioClock) -> Queue {
    // The fastest first: no quota may be much faster than the one that the limiter is built with.
    let limiter = Direct::builder(quota(settings.max))
        .algorithm(DynamicGcra::new())
        .clock(clock)
        .build()
        .expect("any rate in the range of the settings is a quota");
    limiter
        .set_quota(quota(settings.initial), Inherit::Reset)
        .expect("a slower quota fits, and no other thread changes it");
    // Those that wait for the end of a pause are not in the queue, so the places count instead.
    WaitQueue::new(limiter).max_waiters(usize::MAX)
}

/// The burst is one request and those of 10 ms: a timer is late by a millisecond, which would otherwise be lost
/// with each request. The period is rounded up, so that the rate is not above the one that is asked for.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "10^-6 to 10^6")]
fn quota(per_second: f64) -> Quota {
    let burst = 1 + (per_second / 100.0) as u64;
    let period = Duration::from_nanos((1e9 / per_second).ceil() as u64);
    Quota::new(1, period).burst(burst)
}

fn denies(status: StatusCode) -> bool {
    matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE)
}

/// The turn of one request: made by [`Pacer::turn`]. Report the response by [`answered`](Self::answered).
///
/// A turn that is dropped has no effect on the rate: the request failed, or was not sent.
#[must_use = "report the response, so that the rate follows the server"]
#[derive(Debug)]
pub struct Turn<'a> {
    pacer: &'a Pacer,
    epoch: u64,
    had_to_wait: bool,
}

impl Turn<'_> {
    /// The same turn, of a request that is sent only now, unless a pause has begun. It may have waited for a second
    /// turn.
    pub(crate) fn sent_now(self, waited_again: bool) -> Option<Self> {
        self.pacer.turn_now(self.had_to_wait || waited_again)
    }

    /// Moves the rate by the head of the response.
    pub fn answered(self, head: &response::Parts) {
        let advice = Advice::from_headers(&head.headers, SystemTime::now());
        self.pacer.learn(head.status, &advice, &self);
    }
}

impl fmt::Debug for Pacer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pacer")
            .field("rate", &self.rate())
            .field("paused_for", &self.paused_for())
            .field("waiting", &self.waiting())
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

/// The same error of a request whose service has its own.
pub(crate) fn widened<E>(error: PacerError<Infallible>) -> PacerError<E> {
    match error {
        PacerError::Paused { wait } => PacerError::Paused { wait },
        PacerError::Wait(error) => PacerError::Wait(error),
        PacerError::Service(never) => match never {},
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn any_rate_of_the_settings_can_be_in_force() {
        for (initial, max) in [(1e-6, 1e6), (0.001, 100.0), (1.0, 100_000.0), (1e6, 1e6)] {
            let pacer = Pacer::new(Settings::new(initial).rates(initial, max)).expect("in range");
            for per_second in [initial, (initial * max).sqrt(), max, initial] {
                pacer.put_in_force(per_second);
                for queue in [&pacer.queue, &pacer.held_up] {
                    assert_eq!(queue.limiter().quota(), quota(per_second), "{initial} to {max}");
                }
            }
        }
    }
}
