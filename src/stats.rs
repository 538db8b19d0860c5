//! What a limiter counts.

/// Counts since the limiter was built, read without stopping anybody.
///
/// While other threads work, the counts may be of slightly different moments.
///
/// ```
/// use tollgate::{Limiter, Quota};
///
/// let gate: Limiter<u32> = Limiter::builder(Quota::per_second(5)).build()?;
/// assert!(gate.check(&1).is_ok() && gate.check(&1).is_ok() && gate.check(&2).is_ok());
/// assert_eq!(gate.stats().claimed, 2);
/// assert_eq!(gate.stats().evicted, 0);
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Requests that were admitted; `None` unless the limiter
    /// [counts decisions](crate::Builder::count_decisions).
    pub admitted: Option<u64>,
    /// Requests that were refused, for whatever reason; `None` unless the limiter counts decisions.
    pub refused: Option<u64>,
    /// Times that a key was given a slot. Now and then two threads are given one each for the
    /// same key, and one of them is given up, so this may exceed the number of keys.
    pub claimed: u64,
    /// Times that a live key was forgotten to make room
    /// ([`OnFull::EvictNearestIdle`](crate::OnFull::EvictNearestIdle)).
    pub evicted: u64,
    /// Requests refused because their key found no place
    /// ([`OnFull::Refuse`](crate::OnFull::Refuse)).
    pub refused_full: u64,
    /// Requests admitted although their key found no place
    /// ([`OnFull::Admit`](crate::OnFull::Admit)).
    pub admitted_full: u64,
    /// Requests decided by the shared overflow limiter
    /// ([`OnFull::SharedOverflow`](crate::OnFull::SharedOverflow)).
    pub overflowed: u64,
    /// Times that a thread took cells of a hot key ahead
    /// ([`share_hot_keys`](crate::Builder::share_hot_keys)).
    pub shared: u64,
}
