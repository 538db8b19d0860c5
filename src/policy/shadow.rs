//! A candidate quota judged beside the enforced one.

use core::hash::Hash;

use crate::algo::Algorithm;
use crate::algo::gcra::Gcra;
use crate::decision::Decision;
use crate::limiter::Limiter;
use crate::limiter::ask::{Ask, sealed::Gate};
use crate::table::Tally;
use crate::time::clocks::QuantaClock;
use crate::time::{Clock, Tick};

/// Two limiters that get the same requests: one is enforced, the other is a candidate to replace it.
///
/// The answer is the enforced limiter's decision, unchanged. What the candidate would have answered
/// is counted: see [`counts`](Self::counts). The two may differ in anything: quota, algorithm,
/// capacity, policy.
///
/// **Guarantee.** Every request is put to both, and counted once. The candidate charges what the
/// *candidate* admits, whatever was enforced: so for these requests it is in the state in which it
/// would be if it were enforced. A decision takes no lock and allocates nothing.
///
/// **Not guaranteed.**
///
/// - Clients react to denials: some retry later, others do not come back. The reaction to the
///   candidate's denials is not seen: its counts are of requests as they arrived under the enforced
///   quota.
/// - With several threads, two requests for a key may be put to the two limiters in different orders;
///   so limiters with the same quota may differ on which of the two is admitted, though not on how
///   many.
/// - [`check`](Self::check) has each limiter read its own clock, one shortly after the other.
/// - While other threads work, the four counts may be of slightly different moments.
///
/// It takes 16 KB beside the two limiters, and about twice the time of one. For a candidate beside
/// several limits, see [`Composite`](crate::composite::Composite#shadow-limits).
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
/// assert_eq!(gate.counts().only_candidate_denies, 40);
/// assert_eq!(gate.counts().differ(), 40);
/// # Ok::<(), tollgate::BuildError>(())
/// ```
pub struct Shadow<K: ?Sized, A = Gcra, B = Gcra, C = QuantaClock, D = QuantaClock>
where
    A: Algorithm,
    B: Algorithm,
{
    enforced: Limiter<K, A, C>,
    candidate: Limiter<K, B, D>,
    /// How the candidate decided about what was enforced as denied, and as admitted.
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
    /// assert_eq!(gate.counts().only_candidate_denies, 1);
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
    /// assert_eq!(gate.counts().only_enforced_denies, 1);
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

    #[inline]
    fn count(&self, enforced: &Decision, candidate: &Decision) {
        self.tallies[usize::from(enforced.is_ok())].count(candidate.is_ok());
    }

    /// How the two have decided so far.
    ///
    /// ```
    /// # use tollgate::shadow::Shadow;
    /// # use tollgate::{Limiter, Quota};
    /// # let limiter = |limit| Limiter::<u64>::builder(Quota::per_hour(limit)).build();
    /// let gate = Shadow::new(limiter(3)?, limiter(3)?);
    /// while gate.check(&7).is_ok() {}
    /// let counts = gate.counts();
    /// assert_eq!((counts.both_admit, counts.both_deny, counts.differ()), (3, 1, 0));
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn counts(&self) -> ShadowCounts {
        let [denied, admitted] = &self.tallies;
        ShadowCounts {
            both_admit: admitted.total(true),
            both_deny: denied.total(false),
            only_candidate_denies: admitted.total(false),
            only_enforced_denies: denied.total(true),
        }
    }

    /// The limiter whose decisions count.
    ///
    /// ```
    /// # use tollgate::shadow::Shadow;
    /// # use tollgate::{Limiter, Quota};
    /// # let limiter = |limit| Limiter::<u64>::builder(Quota::per_hour(limit)).build();
    /// let gate = Shadow::new(limiter(3)?, limiter(2)?);
    /// gate.enforced().reset(&7);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn enforced(&self) -> &Limiter<K, A, C> {
        &self.enforced
    }

    /// The limiter that is counted and not enforced.
    ///
    /// ```
    /// # use tollgate::shadow::Shadow;
    /// # use tollgate::{Limiter, Quota};
    /// # let limiter = |limit| Limiter::<u64>::builder(Quota::per_hour(limit)).build();
    /// let gate = Shadow::new(limiter(3)?, limiter(2)?);
    /// assert!(gate.candidate().is_empty());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
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

impl<K: ?Sized, A: Algorithm, B: Algorithm, C, D> Gate for Shadow<K, A, B, C, D> {
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
        gate.count(&decision, &other);
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

/// How often two limiters agree, and how they differ: see [`Shadow::counts`].
///
/// ```
/// let counts = tollgate::shadow::ShadowCounts::default();
/// assert_eq!((counts.total(), counts.differ()), (0, 0));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShadowCounts {
    /// Requests that both admit.
    pub both_admit: u64,
    /// Requests that both deny.
    pub both_deny: u64,
    /// Requests that were admitted, and that the candidate would have denied.
    pub only_candidate_denies: u64,
    /// Requests that were denied, and that the candidate would have admitted.
    pub only_enforced_denies: u64,
}

impl ShadowCounts {
    /// Requests about which the two differ.
    #[must_use]
    pub fn differ(&self) -> u64 {
        self.only_candidate_denies + self.only_enforced_denies
    }

    /// All requests.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.both_admit + self.both_deny + self.differ()
    }
}
