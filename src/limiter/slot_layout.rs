//! The layout of a keyed limiter's slots.

use core::time::Duration;

use crate::algo::{Algorithm, StateMachine};
use crate::limiter::builder::BuildError;
use crate::quota::Quota;

/// [`SlotLayout::Auto`] chooses compact slots from this capacity on: with 10,000 keys a decision took
/// as long as in wide slots, with 30,000 about a tenth less.
const COMPACT_CAPACITY_MIN: u64 = 30_000;
/// [`SlotLayout::Auto`] chooses compact slots only where the old state of a key that stays away for
/// less than thirty days cannot be taken for a new one.
const HORIZON_MIN: Duration = Duration::from_secs(30 * 24 * 3_600);

/// How a [`Limiter`](crate::Limiter) keeps its keys: in slots of two words, or of one.
///
/// A compact slot holds a fingerprint of the key and its state in 8 bytes, where a wide one takes
/// 16: 15 bytes a key instead of 29, and one cache line to look through instead of two. Decisions
/// are as exact, over all threads, as in wide slots. The price:
///
/// - Keys are told apart by 26 bits of a randomly seeded hash. A new key shares the bucket of
///   another with a chance of about 16 * load / 2^26, which is 1.3 in 10 million at the stated
///   capacity (10^-13 in a table of a million wide slots). Two keys that share may be denied too
///   early, never too late.
/// - A bucket keeps time in units of less than 500 microseconds, and a span may be granted what comes back in a
///   unit more: see [`Gcra`](crate::Gcra). In wide slots a unit is less than 5 microseconds. If the burst takes `t`,
///   longer than six days, to come back, a unit of compact slots is at most `t / 2^30` (1.2 ms for 1,000 in 30 days).
///   An anchored window's end is kept to a ten-thousandth of its length. The rate, or the limit, is as exact.
/// - A clock may be behind the one that charged by no more than a tolerance: an hour or nearly where
///   the rate is at most 5,000 cells a second and the burst takes 0.4 s or longer to come back, 10 seconds at the
///   least. In wide slots, with ordinary quotas, it may be behind by any span.
/// - A key may come back after longer than its horizon (for such a quota seven months or longer, usually a year; a
///   day at the least), to a slot that no other key has taken meanwhile. It may then be
///   denied once more for its earlier requests. That takes no longer than sixteen times what its burst
///   takes to come back (the largest debt that a state can hold), plus the tolerance above.
///
/// These need wide slots, whatever the quota: [`Gcra::leases`](crate::Gcra::leases), and with them
/// [`lease_hot_keys`](crate::Builder::lease_hot_keys);
/// [`Gcra::for_plans`](crate::Gcra::for_plans); [`DynamicGcra`](crate::dynamic::DynamicGcra); and all algorithms that are not
/// named below. With [`Auto`](Self::Auto) they get wide slots. With [`Compact`](Self::Compact) building
/// the limiter fails, and [`BuildError::NotCompact`] says what to leave out.
/// [Plans](crate::plan::Plan) of a limiter without `for_plans` work in both kinds of slot, and so do
/// [reservations](crate::reservation::Reservation), which compact slots settle less exactly (see there).
///
/// [`Gcra`](crate::Gcra) and [`LeakyQueue`](crate::LeakyQueue) can have compact slots, unless the
/// rate is above 1.5 million cells a second, the whole burst comes back in less than 0.64 ms (with some bursts below
/// 1,000 cells, in less than 1.28 ms), or the burst is above 2^31 cells. [`Auto`](Self::Auto) asks for a longer
/// horizon, which excludes rates above 50,000 cells a second and bursts that come back in less than 20 ms. For a
/// [`FixedWindow`](crate::FixedWindow) it depends on how many bits the limit leaves for the time:
/// anchored, 100,000 an hour and 60 a minute fit, 1,000 a second do not.
///
/// ```
/// use tollgate::limiter::SlotLayout;
/// use tollgate::{BuildError, Limiter, Quota};
///
/// let quota = Quota::per_second(100).burst(20);
/// let gate: Limiter<u64> =
///     Limiter::builder(quota).capacity(100_000).slots(SlotLayout::Compact).build()?;
/// assert!(gate.memory_bytes() <= 15 * 100_000);
/// let too_fast: Result<Limiter<u64>, _> =
///     Limiter::builder(Quota::per_second(1_000_000).burst(1)).slots(SlotLayout::Compact).build();
/// assert_eq!(too_fast.unwrap_err(), BuildError::NotCompact);
/// # Ok::<(), BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SlotLayout {
    /// Two words a slot: for every algorithm and quota.
    Wide,
    /// One word a slot; [`BuildError::NotCompact`] if it does not fit.
    Compact,
    /// One word a slot for a capacity of 30,000 keys or more, where it fits with a horizon of thirty
    /// days or longer and tolerates the [clock skew](crate::Builder::max_clock_skew) that is allowed;
    /// otherwise two. A smaller table stays in the processor's cache either way, and compact slots are
    /// no faster.
    #[default]
    Auto,
}

impl SlotLayout {
    /// Replaces `Auto` by `Wide` where compact slots would be no faster.
    pub(super) fn for_capacity(self, capacity: u64) -> Self {
        match self {
            Self::Auto if capacity < COMPACT_CAPACITY_MIN => Self::Wide,
            slots => slots,
        }
    }

    /// The algorithm with the quota worked in, and whether for compact slots. The quota is in range.
    pub(super) fn fit<A: Algorithm>(
        self,
        algorithm: &A,
        quota: &Quota,
        origin: u64,
        skew: Duration,
    ) -> Result<(A::Params, bool), BuildError> {
        if self != Self::Wide {
            let compact = algorithm.compact_params(quota, origin)?;
            let compact = compact.filter(|params| self == Self::Compact || lasts(params, skew));
            if let Some(params) = compact {
                check_skew(&params, skew)?;
                return Ok((params, true));
            }
            if self == Self::Compact {
                return Err(BuildError::NotCompact);
            }
        }
        let params = algorithm.params(quota, origin)?;
        check_skew(&params, skew)?;
        Ok((params, false))
    }
}

/// Whether `Auto` may choose compact slots.
fn lasts(params: &impl StateMachine, skew: Duration) -> bool {
    let horizon = params.horizon().unwrap_or(Duration::MAX);
    horizon >= HORIZON_MIN && check_skew(params, skew).is_ok()
}

/// A deciding thread may be behind the one that charged, and looks back by the skew: so the tolerance
/// must be twice the skew.
pub(crate) fn check_skew(params: &impl StateMachine, skew: Duration) -> Result<(), BuildError> {
    match params.skew_tolerance() {
        Some(tolerance) if skew > tolerance / 2 => {
            Err(BuildError::SkewTooLarge { max: tolerance / 2 })
        }
        _ => Ok(()),
    }
}
