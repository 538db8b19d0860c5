//! Each node enforces its own part of the quota: the whole, divided by the live nodes.
//!
//! **Why the parts never sum to more than the quota.** A node computes its part from the answer to a
//! heartbeat, and uses it for two intervals, counted from when that heartbeat was sent. Without
//! another heartbeat by then the part expires. A node uses a part only if that answer says that the
//! node has been a member for two intervals without a gap. The list counts a member for three
//! intervals after a heartbeat.
//!
//! So take any moment, and any two nodes that then use their parts. The heartbeats that the parts
//! were computed from are at most two intervals old. At either heartbeat the other node was already
//! a member (its own heartbeat says that it joined two intervals before that or earlier), and had
//! not been dropped yet. So it was counted. Each node's part is therefore the quota divided by at
//! least the number of nodes that use one.
//!
//! This holds also while messages are lost, when the server loses all data, and when its clock is
//! set back. It requires one list, a server clock that is not set ahead, and clocks that run at the
//! same speed. `docs/distributed-evidence.md` says what parts may sum to for a while if a replica
//! takes over with an older list, or if a clock jumps. The models in `verify/states/`, run by
//! `ci/check.sh states`, show it.

mod builder;
#[cfg(test)]
mod fault_simulation;
mod membership;
mod node;
mod node_id;
mod part;
mod part_status;
#[cfg(test)]
mod tests;

pub use builder::{ShareBuilder, ShareError, WithoutPart};
pub use membership::{Heartbeat, Membership};
pub use node::{Share, ShareStats};
