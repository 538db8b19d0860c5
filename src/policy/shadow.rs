//! Limits that decide and are counted, and never deny: what a quota would do if it were enforced.
//!
//! There are two kinds:
//!
//! - A [`Shadow`] puts a candidate beside an enforced limiter that it may *replace*. The candidate is
//!   asked about all requests.
//! - A [shadow limit](crate::composite::CompositeBuilder::shadow) of a
//!   [`Composite`](crate::composite::Composite) may be *added* to the limits that are enforced. The
//!   shadow limit is asked last, about the requests that all enforced limits admit.
//!
//! Both are counted in [`ShadowCounts`].
//!
//! **Guarantee.** A shadow charges what *it* admits, whatever was enforced. So its state is what it would
//! be if the shadow were enforced on the requests that it is asked about. Each of these requests is
//! counted once. The answer to the request is that of the enforced limits, unchanged. A decision
//! takes no lock and allocates nothing.
//!
//! **Not guaranteed.**
//!
//! - Clients react to denials: some retry later, others do not come back. The reaction to a shadow's
//!   denials is not seen: its counts are of requests as they arrived under the enforced limits.
//! - Enforced limits charge for the requests that a shadow would deny. If a shadow limit of a
//!   composite were enforced, the others would be charged less. Several shadow limits do not see each
//!   other.
//! - With several threads, two requests for a key may be put to two limiters in different orders. So
//!   limiters with the same quota may differ on which of the two is admitted, though not on how many.
//! - Unless the request says its [time](Ask::at), each limiter reads its own clock, one shortly after
//!   the other.
//! - While other threads work, counts may be of slightly different moments.

use core::hash::Hash;

use crate::algo::Algorithm;
use crate::algo::gcra::Gcra;
use crate::decision::Decision;
use crate::limiter::Limiter;
use crate::limiter::ask::{Ask, sealed::Askable};
use crate::table::Tally;
use crate::time::quanta_clock::QuantaClock;
use crate::time::{Clock, Tick};

/// Two limiters that get the same requests: one is enforced, the other is a candidate to replace it.
///
/// The answer is the enforced limiter's decision. The candidate's decision is counted: see
/// [`of_admitted`](Self::of_admitted) and [`of_denied`](Self::of_denied). The two may differ in
/// anything: quota, algorithm, capacity, policy. The [module](self) says what a shadow guarantees.
///
/// It takes 16 KB beside the two limiters, and about twice the time of one.
///
/// ```
/// use tollgate::shadow::Shadow;
/// use tollgate::{Limiter, Quota, SlidingLog};
///
/// let enforced: Limiter<str> = Limiter::builder(Quota::per_minute(100)).build()?;
/// let candidate =
///     Limiter::builder(Quota::per_minute(60)).algorithm(SlidingLog::new()).build()?;
/// let gate = Shadow::new(enforced, candidate);
///
/// for _request in 0..100 {
///     assert!(gate.check("somebody").is_ok()); // as ever
/// }
/// assert_eq!(gate.of_admitted().would_deny, 40);
/// # Ok::<(), tollgate::BuildError>(())
/// ```
pub struct Shadow<K: ?Sized, A = Gcra, B = Gcra, C = QuantaClock, D = QuantaClock>
where
    A: Algorithm,
    B: Algorithm,
{
    enforced: Limiter<K, A, C>,
    candidate: Limiter<K, B, D>,
    /// How the candidate decides about requests that are denied, and about those that are admitted.
    tallies: [Tally; 2],
}

impl<K: Hash + ?Sized, A: Algorithm, B: Algorithm, C: Clock, D: Clock> Shadow<K, A, B, C, D> {
    /// Puts the two beside each other. Each may have been used before.
    ///
    /// ```
    /// use tollgate::shadow::Shadow;
    /// use tollgate::{Limiter, Quota};
    /// let limiter = |limit| Limiter::<u64>::builder(Quota::per_second(limit)).build();
    /// let gate = Shadow::new(limiter(50)?, limiter(40)?);
    /// assert!(gate.check(&7).is_ok());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn new(enforced: Limiter<K, A, C>, candidate: Limiter<K, B, D>) -> Self {
        Self { enforced, candidate, tallies: [Tally::new(), Tally::new()] }
    }

    /// Begins a request to both for `key`: one cell, now, unless the [`Ask`] says otherwise.
    ///
    /// ```
    /// # use tollgate::shadow::Shadow;
    /// # use tollgate::{Limiter, Quota, Tick};
    /// # let limiter = |limit| Limiter::<u64>::builder(Quota::per_second(limit)).build();
    /// let gate = Shadow::new(limiter(5)?, limiter(4)?);
    /// assert!(gate.ask(&7).cells(5).at(Tick::ZERO).check().is_ok());
    /// assert_eq!(gate.of_admitted().would_deny, 1);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[inline]
    pub fn ask<'g, 'k>(&'g self, key: &'k K) -> Ask<'g, 'k, Self> {
        Ask::new(self, key)
    }

    /// Asks both for one cell for `key`, now, and answers as the enforced limiter does.
    ///
    /// # Errors
    ///
    /// The enforced limiter's denial, with the time to come back.
    ///
    /// ```
    /// # use tollgate::shadow::Shadow;
    /// # use tollgate::{Limiter, Quota};
    /// # let limiter = |limit| Limiter::<u64>::builder(Quota::per_hour(limit)).build();
    /// let gate = Shadow::new(limiter(1)?, limiter(2)?);
    /// assert!(gate.check(&7).is_ok());
    /// assert!(gate.check(&7).is_err());
    /// assert_eq!(gate.of_denied().would_admit, 1);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[inline]
    pub fn check(&self, key: &K) -> Decision {
        self.ask(key).check()
    }

    /// Asks both for `n` cells for `key`, now, and answers as the enforced limiter does.
    ///
    /// # Errors
    ///
    /// The enforced limiter's denial, with the time to come back.
    #[inline]
    pub fn check_n(&self, key: &K, n: u64) -> Decision {
        self.ask(key).cells(n).check()
    }

    /// How the candidate has decided about requests that were admitted.
    ///
    /// ```
    /// # use tollgate::shadow::Shadow;
    /// # use tollgate::{Limiter, Quota};
    /// # let limiter = |limit| Limiter::<u64>::builder(Quota::per_hour(limit)).build();
    /// let gate = Shadow::new(limiter(3)?, limiter(2)?);
    /// while gate.check(&7).is_ok() {}
    /// let counts = gate.of_admitted();
    /// assert_eq!((counts.would_admit, counts.would_deny), (2, 1));
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn of_admitted(&self) -> ShadowCounts {
        ShadowCounts::read(&self.tallies[1])
    }

    /// How the candidate has decided about requests that were denied.
    ///
    /// ```
    /// # use tollgate::shadow::Shadow;
    /// # use tollgate::{Limiter, Quota};
    /// # let limiter = |limit| Limiter::<u64>::builder(Quota::per_hour(limit)).build();
    /// let gate = Shadow::new(limiter(3)?, limiter(3)?);
    /// while gate.check(&7).is_ok() {}
    /// let counts = gate.of_denied();
    /// assert_eq!((counts.would_admit, counts.would_deny), (0, 1));
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn of_denied(&self) -> ShadowCounts {
        ShadowCounts::read(&self.tallies[0])
    }

    /// The limiter whose decisions are enforced.
    pub fn enforced(&self) -> &Limiter<K, A, C> {
        &self.enforced
    }

    /// The limiter that is counted and not enforced.
    pub fn candidate(&self) -> &Limiter<K, B, D> {
        &self.candidate
    }

    /// The enforced limiter and the candidate, with the states that they are in.
    ///
    /// ```
    /// # use tollgate::shadow::Shadow;
    /// # use tollgate::{Limiter, Quota};
    /// # let limiter = |limit| Limiter::<u64>::builder(Quota::per_hour(limit)).build();
    /// let gate = Shadow::new(limiter(3)?, limiter(1)?);
    /// assert!(gate.check(&7).is_ok());
    /// let (_, candidate) = gate.into_parts();
    /// assert!(candidate.check(&7).is_err()); // it keeps its state
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn into_parts(self) -> (Limiter<K, A, C>, Limiter<K, B, D>) {
        (self.enforced, self.candidate)
    }
}

impl<K: ?Sized, A: Algorithm, B: Algorithm, C, D> Askable for Shadow<K, A, B, C, D> {
    type Key = K;
    type Params = ();
    type Time = Option<Tick>;
}

impl<K, A, B, C, D> Ask<'_, '_, Shadow<K, A, B, C, D>>
where
    K: Hash + ?Sized,
    A: Algorithm,
    B: Algorithm,
    C: Clock,
    D: Clock,
{
    /// Asks both limiters, counts how they decide, and answers as the enforced one does.
    ///
    /// # Errors
    ///
    /// The enforced limiter's denial, with the time to come back.
    #[inline]
    pub fn check(self) -> Decision {
        let Self { gate, key, cells, at, .. } = self;
        let decision = Ask { cells, at, ..gate.enforced.ask(key) }.check();
        let other = Ask { cells, at, ..gate.candidate.ask(key) }.check();
        gate.tallies[usize::from(decision.is_ok())].count(other.is_ok());
        decision
    }
}

impl<K, A, B, C, D> core::fmt::Debug for Shadow<K, A, B, C, D>
where
    K: ?Sized,
    A: Algorithm,
    B: Algorithm,
    C: core::fmt::Debug,
    D: core::fmt::Debug,
{
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Shadow")
            .field("enforced", &self.enforced)
            .field("candidate", &self.candidate)
            .finish_non_exhaustive()
    }
}

/// How a shadow would have decided, if it were enforced: see the [module](self).
///
/// ```
/// let counts = tollgate::shadow::ShadowCounts::default();
/// assert_eq!((counts.would_admit, counts.would_deny), (0, 0));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShadowCounts {
    /// Requests that the shadow would have admitted. It was charged for them.
    pub would_admit: u64,
    /// Requests that the shadow would have denied.
    pub would_deny: u64,
}

impl ShadowCounts {
    pub(super) fn read(tally: &Tally) -> Self {
        Self { would_admit: tally.total(true), would_deny: tally.total(false) }
    }
}
