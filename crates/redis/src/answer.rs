//! A decision, and the part that made it.

use tollgate::Decision;

/// The part that made a decision.
///
/// ```
/// use tollgate_redis::Origin;
///
/// assert_ne!(Origin::Server, Origin::Lease);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Origin {
    /// The server, by a call for this request.
    Server,
    /// A lease: cells that this process had taken ahead.
    Lease,
    /// An earlier answer of the server.
    Memory,
    /// This node's own part of the quota.
    Local,
    /// The fallback, because the server gave no decision.
    Fallback,
}

/// A decision, and which part made it.
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
#[allow(clippy::exhaustive_structs, reason = "other tiers build it")]
#[must_use = "the decision says whether to go ahead"]
pub struct Answer {
    /// The decision.
    pub decision: Decision,
    /// The part that made it.
    pub origin: Origin,
}
