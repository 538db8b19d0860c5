//! Snapshots: what a limiter knows of its keys, in bytes that outlive the process.

mod checksum;
mod format;
mod restore;
mod shape;

pub use restore::RestoreError;

use crate::algo::{Algorithm, Rebase, StateMachine};
use crate::limiter::{Limiter, WhenFull};
use crate::table::TRIES;
use crate::time::Clock;
use format::Header;
use shape::Shape;

impl<K: ?Sized, A: Algorithm<Params: Rebase>, C: Clock> Limiter<K, A, C> {
    /// The states of all live keys, for [`Builder::restore`](crate::Builder::restore) in another
    /// process or another run.
    ///
    /// Takes 17 bytes for a key in wide slots and 9 in [compact](crate::limiter::SlotLayout) ones (at the stated
    /// capacity), 8 more for each word of a ring, and 312. Keys themselves are not in it, and idle
    /// ones are not either. A checksum tells whether it was damaged. A million keys without a ring
    /// took 80 ms to save and 470 ms to restore in wide slots, 40 and 60 ms in compact ones, on a busy
    /// machine (`benches/benches/snapshot.rs`).
    ///
    /// Available for all algorithms but [`DynamicGcra`](crate::dynamic::DynamicGcra), for which it does not compile: its
    /// quota may change at any moment, so a state would not say by which quota it was made. An
    /// [`AnyAlgorithm`](crate::AnyAlgorithm) is saved as the algorithm that it is.
    ///
    /// Time is the [clock](Self::clock)'s: times that are passed to
    /// [`check`](crate::Ask::check) must count from its origin.
    ///
    /// Other threads may go on deciding: no decision waits for it, and it changes nothing. Each
    /// key's state is that of one moment during the call.
    ///
    /// **Not guaranteed.**
    ///
    /// - It is not of one moment as a whole. What is charged during the call may be in it or not,
    ///   and a key that is given another slot meanwhile may be missing. For all that was charged,
    ///   stop the requests first.
    /// - A key with a ring is read again if it was charged while its ring was read. One that is
    ///   charged so often that this fails 256 times in a row is missing, and so is the
    ///   [shared overflow](crate::OnFull::SharedOverflow): that takes a charge in every span of time
    ///   in which its ring can be read.
    /// - Cells that [leases](crate::lease::LocalLease) or [shares](crate::Builder::lease_hot_keys) hold are in it
    ///   as charged: they are gone after a restart.
    /// - A key that is idle is not in it. With [`Gcra::start_empty`](crate::Gcra::start_empty) it
    ///   begins empty again, as one does that has lost its place.
    /// - [`Stats`](crate::stats::Stats) are not in it.
    /// - It is not signed, and it holds the seeds of the hash: who can read it can choose keys that
    ///   collide, and who can write it can write states. Keep it where only the process can reach
    ///   it.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// let builder = || Limiter::<str>::builder(Quota::per_hour(2));
    /// let gate = builder().build()?;
    /// assert_eq!(gate.check("a").unwrap().remaining(), 1);
    /// let bytes = gate.snapshot();
    /// drop(gate);
    ///
    /// let gate = builder().restore(&bytes)?;
    /// assert_eq!(gate.check("a").unwrap().remaining(), 0);
    /// assert!(gate.check("a").is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn snapshot(&self) -> Vec<u8> {
        // In this order: a pause in between makes states younger.
        let now = self.clock().now();
        let unix_nanos = self.clock().unix_now_nanos();
        let overflow = match self.when_full() {
            WhenFull::Share(shared) => shared.1.state::<A::Params>(TRIES),
            WhenFull::Evict | WhenFull::Deny | WhenFull::Admit => None,
        };
        let header = Header {
            keys: 0,
            unix_nanos,
            tick: now.as_nanos(),
            unix_origin_nanos: self.clock().unix_origin_nanos(),
            seeds: self.seeds(),
            proof: self.seeds().proof(),
            shape: Shape::of(self),
            overflow,
        };
        format::write(header, self.table().rows(self.params(), self.params().instant(now)))
    }
}
