//! Many keys decided in one call, so that their cache misses overlap.

use core::borrow::Borrow;
use core::hash::Hash;

use crate::algo::Algorithm;
use crate::decision::Decision;
use crate::limiter::Limiter;
use crate::table::Probe;
use crate::time::{Clock, Tick};

/// Keys whose lookups are begun before the first of them is decided about: as many misses as a
/// core has at one time (10 to 16), few enough that what was fetched is still there.
const AT_ONCE: usize = 16;

impl<K: Hash + ?Sized, A: Algorithm, C: Clock> Limiter<K, A, C> {
    /// Asks for one cell for each of many keys, now, and passes each decision to `each`, with the
    /// index of its key, in order.
    ///
    /// The decisions are those of as many [`check_at`](Self::check_at) with one reading of the
    /// clock: every key is decided about by itself, not all or none. It is faster where the table
    /// is larger than the caches, since several slots are fetched at a time (see the benchmarks),
    /// and saves all but one reading of the clock everywhere; packets and records that come in
    /// batches anyway are what it is for.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// let gate: Limiter<str> = Limiter::builder(Quota::per_hour(2)).build()?;
    /// let mut admitted = Vec::new();
    /// gate.check_batch(&["a", "b", "a", "a"], |_, decision| admitted.push(decision.is_ok()));
    /// assert_eq!(admitted, [true, true, true, false]);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[inline]
    pub fn check_batch<Q: Borrow<K>>(&self, keys: &[Q], each: impl FnMut(usize, Decision)) {
        self.check_batch_at(keys, 1, self.clock().now(), each);
    }

    /// Asks for `n` cells for each of many keys at the instant `now`: see
    /// [`check_batch`](Self::check_batch).
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota, Tick};
    /// let gate: Limiter<u64> = Limiter::builder(Quota::per_hour(9)).build()?;
    /// let mut left = [0; 3];
    /// gate.check_batch_at(&[1_u64, 2, 1], 5, Tick::ZERO, |index, decision| {
    ///     left[index] = match decision {
    ///         Ok(permit) => permit.remaining(),
    ///         Err(denied) => denied.remaining(),
    ///     };
    /// });
    /// assert_eq!(left, [4, 4, 4]); // the third was denied
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[inline]
    pub fn check_batch_at<Q: Borrow<K>>(
        &self,
        keys: &[Q],
        n: u64,
        now: Tick,
        mut each: impl FnMut(usize, Decision),
    ) {
        if !self.begins_ahead() {
            for (index, key) in keys.iter().enumerate() {
                each(index, self.check_at(key.borrow(), n, now));
            }
            return;
        }
        let mut first = 0;
        for group in keys.chunks(AT_ONCE) {
            let mut begun = [Probe::default(); AT_ONCE];
            for (probe, key) in begun.iter_mut().zip(group) {
                *probe = self.begin(key.borrow());
            }
            for (index, probe) in begun.into_iter().take(group.len()).enumerate() {
                each(first + index, self.decide_begun(probe, n, now));
            }
            first += group.len();
        }
    }
}
