//! A decision, and who made it.

use tollgate::Decision;

/// Who made a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Origin {
    /// The server, asked for this request.
    Server,
    /// Cells that were taken from the server ahead, and are spent in this process.
    Lease,
    /// A refusal of the server that still holds.
    Memory,
    /// This process, by its share of the quota.
    Local,
    /// The fallback, because the server gave no decision.
    Fallback,
}

/// A decision, and who made it.
///
/// ```
/// use std::time::Duration;
/// use tollgate::Stated;
/// use tollgate_redis::{Answer, Origin};
///
/// let stated = Stated { limit: 5, remaining: 4, reset_after: Duration::from_millis(200) };
/// let answer = Answer { decision: Ok(stated.permit()), origin: Origin::Server };
/// assert!(answer.decision.is_ok());
/// ```
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs, reason = "whoever puts another tier in front makes them")]
pub struct Answer {
    /// The decision.
    pub decision: Decision,
    /// Who made it.
    pub origin: Origin,
}
