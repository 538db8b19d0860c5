//! The list of live nodes: the interface between a node and the server.

use core::future::Future;
use core::time::Duration;

use crate::unavailable::Unavailable;

/// The list of live nodes, on a server that all nodes reach.
///
/// ```
/// use std::time::Duration;
/// use tollgate_redis::{Heartbeat, Membership, Unavailable};
///
/// /// The list of a single node.
/// struct OneNode;
///
/// impl Membership for OneNode {
///     async fn heartbeat(&self, _id: &str, _lifetime: Duration) -> Result<Heartbeat, Unavailable> {
///         Ok(Heartbeat { live: 1, member_for: Duration::MAX })
///     }
/// }
/// ```
pub trait Membership: Send + Sync + 'static {
    /// Reports that the node `id` is alive, and counts the nodes that reported within `lifetime` by
    /// the server's clock, this one included. Both happen atomically.
    ///
    /// The answer must come within a bounded time, or be [`Unavailable`].
    fn heartbeat(
        &self,
        id: &str,
        lifetime: Duration,
    ) -> impl Future<Output = Result<Heartbeat, Unavailable>> + Send;

    /// Removes the node from the list, so that others need not wait for its lifetime. The default
    /// does nothing.
    fn leave(&self, _id: &str) -> impl Future<Output = Result<(), Unavailable>> + Send {
        core::future::ready(Ok(()))
    }
}

/// The answer to a heartbeat.
///
/// ```
/// use std::time::Duration;
/// use tollgate_redis::Heartbeat;
/// assert_eq!(Heartbeat { live: 3, member_for: Duration::ZERO }.live, 3);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "every membership list builds it")]
pub struct Heartbeat {
    /// Live nodes, this one included.
    pub live: u64,
    /// How long this node has been a member without a gap, by the server's clock. Zero at its first
    /// heartbeat, at one after its lifetime, and after the list was lost.
    pub member_for: Duration,
}
