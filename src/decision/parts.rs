//! A decision made outside this crate, from what another limiter knows of its key.

use core::num::NonZeroU64;
use core::time::Duration;

use crate::decision::{Denied, Measurements, NEVER, Permit, Scale};
use crate::quota::CELLS_MAX;

/// The answer of a limiter outside this crate, to be converted to a [`Permit`] or a [`Denied`].
///
/// With it, a limiter whose state is elsewhere, for example on a server that several processes
/// share, answers as the limiters of this crate do.
///
/// The limit and the remaining cells are kept up to 2^40, durations up to 2^64 - 2 nanoseconds (584
/// years); larger values are reduced to those.
///
/// ```
/// use std::time::Duration;
/// use tollgate::decision::DecisionParts;
/// use tollgate::Decision;
///
/// fn answer(used: u64, window_ends_in: Duration) -> Decision {
///     let limit = 10;
///     let remaining = limit - used.min(limit);
///     let parts = DecisionParts { limit, remaining, reset_after: window_ends_in };
///     if remaining == 0 { Err(parts.denied(Some(window_ends_in))) } else { Ok(parts.permit()) }
/// }
/// let end = Duration::from_secs(3);
/// assert_eq!(answer(4, end).unwrap().remaining(), 6);
/// assert_eq!(answer(10, end).unwrap_err().retry_after(), Some(end));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "limiters outside this crate build it")]
pub struct DecisionParts {
    /// The cells that a fully restored key may spend at once.
    pub limit: u64,
    /// The whole cells that could be spent right after the decision.
    pub remaining: u64,
    /// How long until the key is as if it had never been used.
    pub reset_after: Duration,
}

impl DecisionParts {
    /// The request may go ahead.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::decision::DecisionParts;
    /// let parts = DecisionParts { limit: 5, remaining: 4, reset_after: Duration::from_millis(200) };
    /// assert_eq!(parts.permit().reset_after(), Duration::from_millis(200));
    /// ```
    pub fn permit(self) -> Permit {
        Permit::new(self.measured())
    }

    /// The request is denied, and would be admitted after this time; `None` if it never would be.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::decision::DecisionParts;
    /// let parts = DecisionParts { limit: 5, remaining: 2, reset_after: Duration::from_millis(600) };
    /// assert_eq!(parts.denied(None).retry_after(), None);
    /// assert_eq!(parts.denied(None).remaining(), 2);
    /// ```
    pub fn denied(self, retry_after: Option<Duration>) -> Denied {
        Denied::new(self.measured(), retry_after.map_or(NEVER, nanos))
    }

    fn measured(self) -> Measurements {
        Measurements {
            limit: self.limit.min(CELLS_MAX),
            room: self.remaining.min(CELLS_MAX),
            cell: NonZeroU64::MIN,
            until_idle: nanos(self.reset_after),
            scale: Scale::NANOS,
        }
    }
}

/// The nanoseconds of a span that is not [`NEVER`].
fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX).min(NEVER - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_found_in_the_answer() {
        for (limit, remaining) in [(0, 0), (5, 5), (CELLS_MAX, 7), (3, CELLS_MAX)] {
            for nanos in [0, 1, 999_999_999, u64::MAX - 1] {
                let span = Duration::from_nanos(nanos);
                let parts = DecisionParts { limit, remaining, reset_after: span };
                let (permit, denied) = (parts.permit(), parts.denied(Some(span)));
                assert_eq!((permit.limit(), permit.remaining()), (limit, remaining));
                assert_eq!((denied.limit(), denied.remaining()), (limit, remaining));
                assert_eq!((permit.reset_after(), denied.reset_after()), (span, span));
                assert_eq!(denied.retry_after(), Some(span));
                assert_eq!(permit.delay(), Duration::ZERO);
                assert_eq!(parts.denied(None).retry_after(), None);
            }
        }
    }

    #[test]
    fn values_out_of_range_are_reduced_to_the_largest() {
        let max =
            DecisionParts { limit: u64::MAX, remaining: u64::MAX, reset_after: Duration::MAX };
        assert_eq!((max.permit().limit(), max.permit().remaining()), (CELLS_MAX, CELLS_MAX));
        let longest = Duration::from_nanos(u64::MAX - 1);
        assert_eq!(max.permit().reset_after(), longest);
        assert_eq!(max.denied(Some(Duration::MAX)).retry_after(), Some(longest));
    }
}
