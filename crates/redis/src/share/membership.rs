//! Who is there: the seam between the process and the server.

use core::future::Future;
use core::time::Duration;

use crate::Unavailable;

/// The list of live nodes, on a server that all of them reach.
///
/// ```
/// use std::time::Duration;
/// use tollgate_redis::{Heartbeat, Membership, Unavailable};
///
/// /// The roll of a node that is alone.
/// struct OneNode;
///
/// impl Membership for OneNode {
///     async fn heartbeat(&self, _id: &str, _lifetime: Duration) -> Result<Heartbeat, Unavailable> {
///         Ok(Heartbeat { live: 1, member_for: Duration::MAX })
///     }
/// }
/// ```
pub trait Membership: Send + Sync + 'static {
    /// Says that the node `id` is alive, and counts those that said so within `lifetime`, by the
    /// server's clock, this one included. One step: nobody is counted in between.
    ///
    /// The answer must come within a bounded time, or be [`Unavailable`].
    fn heartbeat(
        &self,
        id: &str,
        lifetime: Duration,
    ) -> impl Future<Output = Result<Heartbeat, Unavailable>> + Send;

    /// Takes the node off the list, so that others need not wait for its lifetime. Does nothing
    /// unless written.
    fn leave(&self, _id: &str) -> impl Future<Output = Result<(), Unavailable>> + Send {
        core::future::ready(Ok(()))
    }
}

/// What a roll answers.
///
/// ```
/// use std::time::Duration;
/// use tollgate_redis::Heartbeat;
/// assert_eq!(Heartbeat { live: 3, member_for: Duration::ZERO }.live, 3);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "whoever writes a roll makes it")]
pub struct Heartbeat {
    /// Nodes that are alive, this one included.
    pub live: u64,
    /// How long this one has been counted without a gap, by the server's clock; zero at its first
    /// beat, at one after its lifetime, and after the list was lost.
    pub member_for: Duration,
}
