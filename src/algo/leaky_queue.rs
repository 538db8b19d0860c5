//! The leaky bucket as a queue: a request that fits waits for its turn, any other is denied.
//!
//! # Word
//!
//! ```text
//! bits 52..0  theoretical arrival time (TAT), in units of the grid
//! ```
//!
//! Word, grid and admission are those of [`gcra`](super::gcra): the TAT is the instant at which the
//! last cell leaves the queue, the debt is the length of the queue, and the bucket holds `burst`
//! cells. The permit also says when it is the request's turn.
//!
//! # Step
//!
//! `n` cells are admitted iff `debt + n * cell <= burst * cell`. Their turn comes in `max(0, debt -
//! (max(k, n) - n) * cell)` units, where `k` cells may pass without delay. With `k = 1` that is the
//! debt: everything ahead has then left. With a larger `k`, a request goes as soon as it and the
//! queue ahead of it are at most `k` cells.
//!
//! Source: the leaky bucket of ITU-T I.371 read as a shaper; nginx `ngx_http_limit_req_module`
//! for the cells that pass without delay.

use core::fmt::{self, Formatter};
use core::time::Duration;

use super::gcra::{Gcra, GcraParams, write_bucket};
use super::grid::Grid;
use super::numbered::Config;
#[cfg(feature = "std")]
use super::oracle::Queue;
use super::{
    Algorithm, CONFIG_WORDS, ClockChange, Liveness, Numbered, Rebase, Ring, StateMachine, Step,
    sealed::Sealed,
};
use crate::decision::{Denied, Permit};
use crate::quota::{Quota, QuotaError};
use crate::time::Tick;

/// Leaky bucket as a queue: requests leave one by one at an even rate, and up to `burst` cells
/// are in the queue.
///
/// A request that fits is admitted, and its [`Permit::delay`] says how long to wait for its turn. A
/// request that does not fit is denied at once. The limiter keeps no list of waiters: the caller
/// sleeps, or sets a timer, for the delay.
///
/// **Guarantee.** With [`new`](Self::new), each turn comes at least one emission interval (period /
/// limit) for each cell of the previous request after that request's turn, less one time
/// unit if that request had no delay, under any interleaving of threads. The queue never holds
/// more than `burst` cells, so no request waits longer than `burst - 1` intervals. The cells
/// granted in any span of time are bounded as for [`Gcra`].
///
/// **Not guaranteed.** That the caller waits: cells are charged when the request is admitted. A
/// caller that gives up leaves a gap. See [`Gcra`] for keys that lose their slot.
///
/// # In the words of nginx
///
/// | `limit_req` | here |
/// |---|---|
/// | `rate=R burst=N` | quota `R` with `.burst(N + 1)`, [`new`](Self::new) |
/// | `rate=R burst=N delay=D` | the same, `.immediate(D + 1)` |
/// | `rate=R burst=N nodelay` | the same, `.immediate(u64::MAX)` |
///
/// In nginx the request that is being served does not count, here it does. Rates are not rounded:
/// nginx keeps `1r/m` as 0.016 requests a second, which is one in 62.5 s.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Direct, LeakyQueue, Quota, Tick};
///
/// let quota = Quota::per_second(10).burst(3);
/// let gate = Direct::builder(quota).algorithm(LeakyQueue::new()).build()?;
/// assert_eq!(gate.ask().at(Tick::ZERO).check()?.delay(), Duration::ZERO);
/// assert_eq!(gate.ask().at(Tick::ZERO).check()?.delay(), Duration::from_millis(100));
/// assert_eq!(gate.ask().at(Tick::ZERO).check()?.delay(), Duration::from_millis(200));
/// let denied = gate.ask().at(Tick::ZERO).check().unwrap_err();
/// assert_eq!(denied.retry_after(), Some(Duration::from_millis(100)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeakyQueue {
    immediate: u64,
}

impl LeakyQueue {
    /// A queue that is empty when a key is first seen, and whose requests leave at even
    /// distances.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{Direct, LeakyQueue, Quota, Tick};
    /// let gate = Direct::builder(Quota::per_second(4)).algorithm(LeakyQueue::new()).build()?;
    /// assert!(gate.ask().cells(3).at(Tick::ZERO).check().unwrap().delay().is_zero());
    /// let behind_three = gate.ask().at(Tick::ZERO).check().unwrap();
    /// assert_eq!(behind_three.delay(), Duration::from_millis(750));
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    #[must_use]
    pub const fn new() -> Self {
        Self { immediate: 1 }
    }

    /// The same queue, in which the first `cells` cells pass without delay: a request need not wait
    /// if the queue, with its own cells, is at most that long. The default is 1.
    ///
    /// No request waits for itself, so 0 means the same as 1, and a request for more than `cells`
    /// waits only for the queue ahead of it. With `cells` of at least the burst (`u64::MAX` for
    /// any), no request is delayed: the queue is a meter and answers as [`Gcra`] does.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{Direct, LeakyQueue, Quota, Tick};
    /// let two_at_once = LeakyQueue::new().immediate(2);
    /// let gate = Direct::builder(Quota::per_second(4)).algorithm(two_at_once).build()?;
    /// let mut delay = || gate.ask().at(Tick::ZERO).check().unwrap().delay();
    /// assert_eq!([delay(), delay()], [Duration::ZERO; 2]);
    /// assert_eq!(delay(), Duration::from_millis(250));
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    #[must_use]
    pub const fn immediate(self, cells: u64) -> Self {
        Self { immediate: cells }
    }
}

impl Default for LeakyQueue {
    fn default() -> Self {
        Self::new()
    }
}

impl Sealed for LeakyQueue {}

impl Algorithm for LeakyQueue {
    type Params = LeakyQueueParams;

    fn params(&self, quota: &Quota, origin: u64) -> Result<LeakyQueueParams, QuotaError> {
        let bucket = Gcra::new().params(quota, origin)?;
        Ok(LeakyQueueParams { bucket, immediate: self.immediate })
    }

    fn compact_params(
        &self,
        quota: &Quota,
        origin: u64,
    ) -> Result<Option<LeakyQueueParams>, QuotaError> {
        let bucket = Gcra::new().compact_params(quota, origin)?;
        Ok(bucket.map(|bucket| LeakyQueueParams { bucket, immediate: self.immediate }))
    }
}

/// The parameters of [`LeakyQueue`] for a quota.
///
/// A request for 0 cells has no delay.
///
/// ```
/// use tollgate::algorithm::Algorithm;
/// use tollgate::internals::StateMachine;
/// use tollgate::{LeakyQueue, Quota, Tick};
///
/// let params = LeakyQueue::new().params(&Quota::per_second(2), 0)?;
/// let permit = params.answer(params.fresh(Tick::ZERO), Tick::ZERO, 2).unwrap();
/// assert!(permit.delay().is_zero());
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeakyQueueParams {
    bucket: GcraParams,
    /// Cells that pass without delay.
    immediate: u64,
}

impl LeakyQueueParams {
    /// Units until the turn of `n` cells that find a queue of `debt` units.
    #[inline(always)]
    fn delay(&self, debt: u64, n: u64) -> u64 {
        match n {
            0 => 0,
            // The product saturates only for what passes at once, and no debt is that large.
            n => debt.saturating_sub(self.bucket.cost(self.immediate.saturating_sub(n))),
        }
    }
}

impl Numbered for LeakyQueueParams {
    const NUMBER: u64 = 2;

    fn write_quota(config: &Config, f: &mut Formatter<'_>) -> fmt::Result {
        write_bucket(config, "may wait", f)
    }
}

impl Rebase for LeakyQueueParams {
    fn algorithm(&self) -> u64 {
        Self::NUMBER
    }

    fn config_words(&self, unix_origin_nanos: u64) -> [u64; CONFIG_WORDS] {
        let mut config = self.bucket.config_words(unix_origin_nanos);
        config[CONFIG_WORDS - 1] = self.immediate;
        config
    }

    fn rebase(&self, word: u64, ring: &mut [u64], change: &ClockChange) -> Option<u64> {
        self.bucket.rebase(word, ring, change)
    }
}

impl Sealed for LeakyQueueParams {}

impl StateMachine for LeakyQueueParams {
    #[cfg(feature = "std")]
    type Oracle = Queue;
    type View = u64;
    const MAY_BE_COMPACT: bool = true;
    const MAY_DELAY: bool = true;

    #[inline]
    fn fresh(&self, now: Tick) -> u64 {
        self.bucket.fresh(now)
    }

    #[inline(always)]
    fn read<R: Ring>(&self, word: u64, _: R, _: Tick, _: u64) -> u64 {
        word
    }

    #[inline(always)]
    fn step(&self, word: u64, now: Tick, n: u64) -> Step {
        self.bucket.step(word, now, n)
    }

    #[inline(always)]
    fn step_by_branch(&self, word: u64, now: Tick, n: u64) -> Step {
        self.bucket.step_by_branch(word, now, n)
    }

    #[inline(always)]
    fn permit(&self, word: u64, now: Tick, n: u64) -> Permit {
        let floor = self.bucket.grid().floor(now);
        let debt = self.bucket.debt(word, floor);
        let measured = self.bucket.measured(now, floor, debt + self.bucket.cost(n));
        Permit::delayed(measured, self.delay(debt, n))
    }

    #[inline(always)]
    fn denied(&self, word: u64, now: Tick, n: u64) -> Denied {
        self.bucket.denied(word, now, n)
    }

    #[inline]
    fn instant(&self, now: Tick) -> u64 {
        self.bucket.instant(now)
    }

    #[inline]
    fn liveness(&self, word: u64, instant: u64) -> Liveness {
        self.bucket.liveness(word, instant)
    }

    fn no_slot(&self, word: u64, now: Tick, skew: Duration) -> Denied {
        self.bucket.no_slot(word, now, skew)
    }

    fn grid(&self) -> &Grid {
        self.bucket.grid()
    }

    #[cfg(feature = "std")]
    fn oracle(&self) -> Queue {
        Queue::new(self.bucket.oracle(), self.immediate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn params(quota: &str, queue: LeakyQueue) -> LeakyQueueParams {
        queue.params(&quota.parse().expect("a quota"), 0).expect("in range")
    }

    /// Requests at one instant, one after the other; the first that has no delay in the list is
    /// denied.
    #[test]
    fn turns_depend_on_the_immediate_cells_and_the_cost() {
        let ones = [1; 7].as_slice();
        let cases: [(u64, &[u64], &[u64]); 9] = [
            (1, ones, &[0, 100, 200, 300, 400, 500]),
            (0, ones, &[0, 100, 200, 300, 400, 500]),
            (4, ones, &[0, 0, 0, 0, 100, 200]),
            (6, ones, &[0; 6]),
            (u64::MAX, ones, &[0; 6]),
            (1, &[2, 3, 1, 1], &[0, 200, 500]),
            (3, &[2, 3, 1, 1], &[0, 200, 300]),
            (3, &[6], &[0]),
            (1, &[3, 0, 3, 0], &[0, 0, 300, 0]),
        ];
        for (immediate, costs, delays_ms) in cases {
            let params = params("10/s burst 6", LeakyQueue::new().immediate(immediate));
            let mut word = params.fresh(Tick::ZERO);
            for (turn, n) in costs.iter().enumerate() {
                let answer = params.answer(word, Tick::ZERO, *n).map(|permit| permit.delay());
                let expected = delays_ms.get(turn).map(|ms| Duration::from_millis(*ms));
                assert_eq!(answer.ok(), expected, "{immediate}: {turn} of {costs:?}");
                if let Step::Admit { next } = params.step(word, Tick::ZERO, *n) {
                    word = next;
                }
            }
        }
    }

    /// A turn is an instant: a clock that is behind waits that much longer.
    #[test]
    fn a_stale_clock_waits_longer_for_the_same_turn() {
        let params = params("10/s burst 6", LeakyQueue::new());
        let later = Tick::from_nanos(1_000_000_000);
        let Step::Admit { next } = params.step(params.fresh(later), later, 1) else {
            panic!("an empty queue");
        };
        for (behind_ms, delay_ms) in [(0, 100), (1, 101), (400, 500)] {
            let stale = later.saturating_sub(Duration::from_millis(behind_ms));
            let permit = params.answer(next, stale, 1).expect("it fits");
            assert_eq!(permit.delay(), Duration::from_millis(delay_ms));
        }
        let staler = later.saturating_sub(Duration::from_millis(401));
        assert_eq!(params.step(next, staler, 1), Step::Deny);
    }

    #[test]
    fn no_delay_overflows() {
        for immediate in [0, 1, u64::MAX] {
            for quota in ["1/y burst 100", "1000000000/s burst 1", "1000/s burst 4294967296"] {
                let params = params(quota, LeakyQueue::new().immediate(immediate));
                for word in [0, 1 << 52, u64::MAX >> 11] {
                    for now in [Tick::ZERO, Tick::MAX] {
                        let _ = params.permit(word, now, 0).delay();
                        let _ = params.answer(word, now, 1).map(|permit| permit.delay());
                    }
                }
            }
        }
    }

    proptest! {
        /// Every answer is the token bucket's, except for the delay.
        #[test]
        fn charges_are_those_of_the_token_bucket(
            immediate: u64, word: u64, now: u64, n in 0_u64..30, near: bool,
        ) {
            let queue = params("7/s burst 20", LeakyQueue::new().immediate(immediate));
            let now = Tick::from_nanos(now);
            let word = if near { queue.fresh(now).wrapping_add(word >> 40) } else { word };
            prop_assert_eq!(queue.step(word, now, n), queue.bucket.step(word, now, n));
            match (queue.answer(word, now, n), queue.bucket.answer(word, now, n)) {
                (Ok(queued), Ok(passed)) => {
                    prop_assert_eq!(queued.remaining(), passed.remaining());
                    prop_assert_eq!(queued.reset_after(), passed.reset_after());
                    prop_assert!(queued.delay() <= queued.reset_after());
                }
                (queued, passed) => prop_assert_eq!(queued, passed),
            }
        }
    }
}
