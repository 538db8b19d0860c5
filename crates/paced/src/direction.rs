//! One direction of a stream: what may pass now, and when the rest may.
//!
//! # A poll
//!
//! 1. **The buckets have the cells.** They are charged, the bytes pass, and what did not pass is refunded in
//!    the same poll. So nothing is held between polls. (A reservation would do the same. It costs 40 ns more,
//!    which is 1 % of a write of 8 KiB over loopback.)
//! 2. **A bucket lacks them.** A chunk is charged ahead, as a debt, to all buckets, and the direction
//!    sleeps until the last of them has paid. Streams that share a bucket so have their turns in the order of
//!    their charges, each a chunk, and each is woken once for it. Where a bucket owes too much already, the
//!    direction sleeps without a charge. The longer it has waited, the more may be owed when it charges
//!    ([`Reading::backlog_wait`]): otherwise a stream that has just had its turn would take the room each time.
//! 3. **The turn comes.** The chunk passes. Bytes that do not pass are refunded in the same poll.
//!
//! A direction that is dropped while it waits refunds its chunk. A task that runs late may find its cells no
//! longer good ([`Ahead::good`]): it refunds what is, and charges the chunk again by the present time.

use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;
use std::sync::Arc;

use tokio::time::{Instant, Sleep};
use tollgate::{Denied, Permit, Tick};

use crate::bucket::Bucket;
use crate::chunk::{Ahead, CHUNK_MAX, Reading, half};
use crate::pace::Pace;

/// The shortest and the longest wait where nothing is charged ahead.
const NAP_MIN: Duration = Duration::from_millis(1);
const NAP_MAX: Duration = Duration::from_millis(100);
/// The longest wait that a timer is set for. A longer one is set again.
const TIMER_MAX: Duration = Duration::from_secs(3_600);
/// How often a poll asks again because other threads were faster.
const ATTEMPTS: usize = 3;

/// The buckets of one direction, and its timer.
pub(crate) struct Direction {
    buckets: Vec<PacedBucket>,
    /// Bytes that were charged ahead; 0 if none.
    ahead: u64,
    /// Since when it has waited for room to charge ahead.
    without_turn: Option<Instant>,
    timer: Timer,
}

/// A bucket, and what this direction has charged to it ahead.
struct PacedBucket {
    bucket: Arc<dyn Bucket>,
    ahead: Option<Ahead>,
    /// The bucket's answer to the charge of the poll that is under way, and the time of that charge.
    charged: Option<(Permit, Tick)>,
}

/// The next step of a poll for which a bucket lacks cells.
enum Step {
    /// So many bytes may pass now.
    Try(u64),
    /// Charge so many ahead.
    Charge(u64),
    /// Charge nothing, and ask again later.
    Nap(Duration),
}

impl Direction {
    pub(crate) fn new(pace: Pace) -> Self {
        let buckets = pace.into_buckets().into_iter();
        let buckets =
            buckets.map(|bucket| PacedBucket { bucket, ahead: None, charged: None }).collect();
        let timer = Timer { sleep: None, is_set: false };
        Self { buckets, ahead: 0, without_turn: None, timer }
    }

    /// Calls `pass` with the number of bytes that may pass now, of at most `max`. It returns how many
    /// passed, and these are charged. Until some may pass, the poll is pending.
    pub(crate) fn poll_pass<R>(
        &mut self,
        context: &mut Context<'_>,
        max: usize,
        pass: impl FnOnce(&mut Context<'_>, usize) -> (usize, Poll<R>),
    ) -> Poll<R> {
        if self.buckets.is_empty() || max == 0 {
            return pass(context, max).1;
        }
        let max = (max as u64).min(CHUNK_MAX);
        let mut pass = Some(pass);
        let mut passed = |context: &mut Context<'_>, bytes: u64| {
            let pass = pass.take().expect("a poll passes once");
            // At most `max`, which is a `usize`.
            let (bytes, result) = pass(context, usize::try_from(bytes).unwrap_or(usize::MAX));
            (bytes as u64, result)
        };
        loop {
            ready!(self.poll_turn(context));
            if self.ahead > 0 {
                let bytes = self.ahead.min(max);
                if !self.renew() {
                    continue;
                }
                let (passed, result) = passed(context, bytes);
                self.refund_all_but(passed);
                return result;
            }
            let mut result = None;
            let step = self.try_pass(max, |bytes| {
                let (passed, polled) = passed(context, bytes);
                result = Some(polled);
                passed
            });
            match (step, result) {
                (_, Some(result)) => {
                    self.without_turn = None;
                    return result;
                }
                (Step::Charge(bytes), None) => self.charge_ahead(bytes),
                (Step::Nap(wait), None) => {
                    self.without_turn.get_or_insert_with(Instant::now);
                    self.timer.set(wait);
                }
                (Step::Try(_), None) => self.timer.set(NAP_MIN),
            }
        }
    }

    /// Passes bytes if all buckets have them, and else says what to do.
    fn try_pass(&mut self, max: u64, mut pass: impl FnMut(u64) -> u64) -> Step {
        let mut bytes = max;
        for _ in 0..ATTEMPTS {
            let Err(denied) = self.check(bytes) else {
                let passed = pass(bytes);
                if passed < bytes {
                    self.buckets.iter().for_each(|paced| paced.refund(bytes, passed));
                }
                return Step::Try(bytes);
            };
            match self.next_step(bytes, &denied) {
                Step::Try(fewer) => bytes = fewer,
                step => return step,
            }
        }
        Step::Try(bytes)
    }

    /// Charges bytes to all buckets, or to none.
    fn check(&mut self, bytes: u64) -> Result<(), Denied> {
        for index in 0..self.buckets.len() {
            let paced = &mut self.buckets[index];
            let now = paced.bucket.now();
            match paced.bucket.check(bytes, now) {
                Ok(permit) => paced.charged = Some((permit, now)),
                Err(denied) => {
                    self.buckets[..index].iter().for_each(|paced| paced.refund(bytes, 0));
                    return Err(denied);
                }
            }
        }
        Ok(())
    }

    /// The next step after a request for `asked` bytes was denied.
    fn next_step(&self, asked: u64, denied: &Denied) -> Step {
        let bursts = self.buckets.iter().map(|paced| paced.peek(1).burst);
        let max = bursts.fold(asked, |bytes, burst| bytes.min(half(burst)));
        let (mut chunk, mut available) = (max, max);
        let waited = self.without_turn.map_or(Duration::ZERO, |since| since.elapsed());
        let mut wait = None;
        for seen in self.buckets.iter().map(|paced| paced.peek(max)) {
            if seen.is_denied {
                chunk = chunk.min(seen.chunk(max));
                wait = wait.max(seen.backlog_wait(waited));
            }
            available = available.min(seen.available);
        }
        if available >= chunk {
            // If the bucket denied what it now says it has, other threads were faster, or a key has no
            // slot, and cannot be charged ahead.
            let is_same = available == asked;
            let wait = denied.retry_after().unwrap_or(NAP_MIN).clamp(NAP_MIN, NAP_MAX);
            return if is_same { Step::Nap(wait) } else { Step::Try(available) };
        }
        match wait {
            Some(wait) => Step::Nap(wait.clamp(NAP_MIN, NAP_MAX)),
            None => Step::Charge(chunk),
        }
    }

    /// Charges a chunk to all buckets, whatever they have. If the key of one finds no slot, none is charged.
    fn charge_ahead(&mut self, bytes: u64) {
        self.ahead = bytes;
        self.without_turn = None;
        if !self.buckets.iter_mut().all(|paced| paced.charge_ahead(bytes)) {
            self.give_up_turn();
        }
    }

    /// Refunds what was charged ahead, and asks again later.
    fn give_up_turn(&mut self) {
        self.refund_all_but(0);
        self.timer.set(NAP_MAX);
    }

    /// Ready if nothing is waited for.
    fn poll_turn(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            ready!(self.timer.poll(context));
            if self.ahead == 0 {
                return Poll::Ready(());
            }
            // Clocks may differ, and the timer has a bound: so the buckets are asked.
            let waits = self.buckets.iter().filter_map(PacedBucket::wait);
            match waits.max().filter(|wait| !wait.is_zero()) {
                Some(wait) => self.timer.set(wait),
                None => return Poll::Ready(()),
            }
        }
    }

    /// Charges again where cells are no longer good. Returns `false` if that failed, and the turn is given up.
    fn renew(&mut self) -> bool {
        let bytes = self.ahead;
        let is_charged = self.buckets.iter_mut().all(|paced| paced.renew(bytes));
        if !is_charged {
            self.give_up_turn();
        }
        is_charged
    }

    /// Refunds what was charged ahead beyond `passed` bytes, as far as it is good.
    fn refund_all_but(&mut self, passed: u64) {
        for paced in &mut self.buckets {
            let Some(ahead) = paced.ahead.take() else { continue };
            let unused = ahead.bytes.saturating_sub(passed);
            if unused > 0 {
                let now = paced.bucket.now();
                paced.bucket.refund(unused.min(ahead.good(now)), now);
            }
        }
        self.ahead = 0;
    }
}

impl Drop for Direction {
    fn drop(&mut self) {
        self.refund_all_but(0);
    }
}

impl fmt::Debug for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Direction")
            .field("buckets", &self.buckets.len())
            .field("ahead", &self.ahead)
            .field("waits", &self.timer.is_set)
            .finish()
    }
}

impl PacedBucket {
    fn peek(&self, bytes: u64) -> Reading {
        Reading::new(&self.bucket.peek(bytes, self.bucket.now()), bytes)
    }

    /// Refunds what did not pass of the bytes that this poll has charged.
    #[cold]
    fn refund(&self, bytes: u64, passed: u64) {
        let Some((permit, charged)) = self.charged else { return };
        let charge = Reading::new(&Ok(permit), bytes).ahead(bytes, charged, Duration::ZERO);
        let (now, unused) = (self.bucket.now(), bytes.saturating_sub(passed));
        self.bucket.refund(unused.min(charge.good(now)), now);
    }

    /// Charges bytes whatever the bucket has. Returns `false` if its key finds no slot.
    fn charge_ahead(&mut self, bytes: u64) -> bool {
        let now = self.bucket.now();
        let seen = Reading::new(&self.bucket.peek(bytes, now), bytes);
        let wait = self.bucket.charge(bytes, now);
        self.ahead = wait.map(|wait| seen.ahead(bytes, now, wait));
        wait.is_some()
    }

    /// Charges again if cells are no longer good. Returns `false` if the key finds no slot any more.
    fn renew(&mut self, bytes: u64) -> bool {
        let Some(ahead) = self.ahead else { return true };
        let now = self.bucket.now();
        let good = ahead.good(now);
        if good >= bytes {
            return true;
        }
        self.bucket.refund(good, now);
        self.charge_ahead(bytes)
    }

    /// How long until the turn of what was charged ahead.
    fn wait(&self) -> Option<Duration> {
        self.ahead.map(|ahead| ahead.turn.since(self.bucket.now()))
    }
}

/// One timer, made when it is first needed.
struct Timer {
    sleep: Option<Pin<Box<Sleep>>>,
    is_set: bool,
}

impl Timer {
    fn set(&mut self, wait: Duration) {
        let end = Instant::now() + wait.min(TIMER_MAX);
        match &mut self.sleep {
            Some(sleep) => sleep.as_mut().reset(end),
            None => self.sleep = Some(Box::pin(tokio::time::sleep_until(end))),
        }
        self.is_set = true;
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if let Some(sleep) = self.sleep.as_mut().filter(|_| self.is_set) {
            ready!(sleep.as_mut().poll(context));
            self.is_set = false;
        }
        Poll::Ready(())
    }
}

#[cfg(test)]
mod tests {
    use core::task::Waker;

    use tollgate::{Direct, ManualClock, Quota};

    use super::*;

    /// A thread is held up while the stream that it polls takes nothing.
    #[test]
    fn a_poll_that_is_held_up_refunds_no_more_than_the_bucket_would_have_had() {
        let clock = ManualClock::new();
        let quota = Quota::new(1_000_000, Duration::from_secs(1)).burst(100_000);
        let bucket =
            Arc::new(Direct::builder(quota).clock(clock.clone()).build().expect("a bucket"));
        let pace = Pace::shared(&bucket).expect("a burst");
        let [mut held_up, mut other] = [pace.clone(), pace].map(Direction::new);
        let mut context = Context::from_waker(Waker::noop());
        let mut all = |bytes: usize| {
            let mut passed = 0;
            while let Poll::Ready(more) = other.poll_pass(
                &mut Context::from_waker(Waker::noop()),
                bytes - passed,
                |_, max| (max, Poll::Ready(max)),
            ) {
                passed += more;
                if passed == bytes {
                    break;
                }
            }
            passed
        };
        let polled: Poll<()> = held_up.poll_pass(&mut context, 50_000, |_, max| {
            assert_eq!(max, 50_000);
            clock.advance(Duration::from_millis(20));
            // All that the bucket has: 50,000, and 20,000 restored.
            assert_eq!(all(70_000), 70_000);
            (0, Poll::Pending)
        });
        assert!(polled.is_pending());
        // One burst at this instant, and no more.
        assert_eq!(bucket.ask().cells(0).peek().expect("none are asked for").remaining(), 30_000);
    }
}
