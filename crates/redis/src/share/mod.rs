//! Each node enforces its part of the quota by itself: the whole, divided by the live nodes.
//!
//! **Why the parts never sum to more than the quota.** A node uses its part for two intervals from
//! when the beat was sent that it was computed from; without a beat by then it lapses. It uses one
//! only if that beat says that it has been on the roll for two intervals without a gap. The roll
//! counts a member for three intervals after a beat.
//!
//! So look at any moment, and at any two nodes that then use their parts. The beats that these were
//! computed from are at most two intervals old. At either of them the other node had been on the
//! roll already (for its own beat says that it came two intervals before that or earlier), and
//! was not dropped yet: so it was counted. Everybody's part is the quota divided by at least the
//! number of those who use one.
//!
//! That holds while messages are lost, too, when the server loses all data, and when its clock is set
//! back. It takes one list, a clock of the server that is not set ahead, and clocks that run at the same
//! speed. What parts may sum to for a while where a replica takes over with an older list, or a clock
//! jumps, is in `docs/distributed.md`, and shown by `verify/states/`.

mod builder;
#[cfg(all(test, not(tollgate_loom)))]
mod fault_simulation;
mod part_status;
mod node;
mod part;
mod membership;
#[cfg(all(test, not(tollgate_loom)))]
mod tests;

pub use builder::{WithoutPart, ShareBuilder, ShareError};
pub use node::{Share, ShareStats};
pub use membership::{Heartbeat, Membership};
