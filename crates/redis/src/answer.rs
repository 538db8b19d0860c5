//! A decision, and who made it.

use tollgate::Decision;

/// Who made a decision.
///
/// ```
/// use tollgate_redis::Origin;
///
/// assert_ne!(Origin::Server, Origin::Lease);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Origin {
    /// The server was asked for this request.
    Server,
    /// Cells that this process had taken ahead.
    Lease,
    /// What the server said a moment ago.
    Memory,
    /// This node's own part of the quota.
    Local,
    /// What was chosen for when the server gives no decision.
    Fallback,
}

/// A decision, and who made it.
///
/// ```
/// use std::time::Duration;
/// use tollgate::decision::DecisionParts;
/// use tollgate_redis::{Answer, Origin};
///
/// let parts = DecisionParts { limit: 5, remaining: 4, reset_after: Duration::from_millis(200) };
/// let answer = Answer { decision: Ok(parts.permit()), origin: Origin::Server };
/// assert!(answer.decision.is_ok());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "whoever puts another tier in front makes them")]
#[must_use = "the decision says whether to go ahead"]
pub struct Answer {
    /// Go ahead, or come back later.
    pub decision: Decision,
    /// Who made the decision.
    pub origin: Origin,
}
