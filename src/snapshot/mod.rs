//! Snapshots: the states of a limiter's keys, as bytes that outlive the process.

mod checksum;
mod format;
mod restore;
mod shape;
#[cfg(all(test, not(any(tollgate_loom, tollgate_shuttle))))]
mod tests;

pub use restore::RestoreError;

use core::time::Duration;

use crate::algo::{Algorithm, Moment, Rebase, StateMachine};
use crate::limiter::{Limiter, WhenFull};
use crate::table::TRIES;
use crate::time::Clock;
use format::Header;
use shape::Shape;

impl<K: ?Sized, A: Algorithm<Params: Rebase>, C: Clock> Limiter<K, A, C> {
    /// The states of all live keys, to [restore](crate::Builder::restore) in another process or
    /// another run.
    ///
    /// A snapshot takes 17 bytes for each key in wide slots and 9 in [compact](crate::limiter::SlotLayout)
    /// ones (at the stated capacity), 8 more for each word of a ring, and 312. It contains neither
    /// the keys themselves nor idle keys. A checksum detects damage. On a busy machine a million
    /// keys without a ring took 80 ms to save and 470 ms to restore in wide slots, 40 and 60 ms in
    /// compact ones (`benches/benches/snapshot.rs`).
    ///
    /// All algorithms but [`DynamicGcra`](crate::dynamic::DynamicGcra) support it; for that one it does not
    /// compile. Its quota may change at any moment, so a state would not say which quota it was
    /// made by. An [`AnyAlgorithm`](crate::AnyAlgorithm) is saved as the algorithm that it holds.
    ///
    /// The time is that of the [clock](Self::clock): times that the caller passes to
    /// [`check`](crate::Ask::check) must count from its origin.
    ///
    /// Other threads may decide meanwhile: no decision waits for a snapshot, and a snapshot changes
    /// nothing. Each key's state is that of one moment during the call.
    ///
    /// **Not guaranteed.**
    ///
    /// - The whole is not of one moment. Cells charged during the call may be in it or not, and a
    ///   key that moves to another slot meanwhile may be missing. To have all charges, stop the
    ///   requests first.
    /// - A key with a ring is read again if it was charged while its ring was read. If that fails
    ///   256 times in a row, the key is missing, and so is the [shared
    ///   overflow](crate::OnFull::SharedOverflow). It takes a charge during every attempt to read
    ///   the ring.
    /// - Cells in a [`LocalLease`](crate::lease::LocalLease), or held by
    ///   [`lease_hot_keys`](crate::Builder::lease_hot_keys), are saved as charged: they are lost in
    ///   a restart.
    /// - Idle keys are not in it. With [`Gcra::start_empty`](crate::Gcra::start_empty) such a key
    ///   begins empty again, like a key that was evicted.
    /// - [`Stats`](crate::stats::Stats) are not in it.
    /// - It is not signed, and it contains the seeds of the hash. A reader of the snapshot can
    ///   choose keys that collide, and a writer can choose states. Keep it where only the process
    ///   has access.
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
        // In this order: a pause between the two makes the states younger.
        let (now, unix_nanos) =
            at_once(self.clock(), || (self.clock().now(), self.clock().unix_now_nanos()));
        let algo = self.still(self.params(), now);
        let moment = Moment { tick: now, unix_origin_nanos: self.clock().unix_origin_nanos() };
        let moment = self.params().unstepped(&algo, moment);
        let overflow = match self.when_full() {
            WhenFull::Share(shared) => shared.1.cell().state::<A::Params>(TRIES),
            WhenFull::Evict | WhenFull::Deny | WhenFull::Admit => None,
        };
        let header = Header {
            keys: 0,
            unix_nanos,
            tick: moment.tick.as_nanos(),
            unix_origin_nanos: moment.unix_origin_nanos,
            seeds: self.seeds(),
            proof: self.seeds().proof(),
            shape: Shape::of(self),
            overflow,
        };
        format::write(header, self.table().rows(&*algo, algo.instant(now)))
    }
}

/// A thread that is stopped for longer than this between two clocks reads them again.
const PAUSE_MAX: Duration = Duration::from_millis(1);
const READS_MAX: usize = 16;

/// Reads the clock's present time and the Unix time. A pause between the two would move the states of a snapshot by as
/// much. The caller reads them in the order in which the states become younger, so that a restored limiter grants less.
fn at_once<R>(clock: &impl Clock, read: impl Fn() -> R) -> R {
    let mut reads = 1;
    loop {
        let before = clock.now();
        let times = read();
        if clock.now().since(before) < PAUSE_MAX || reads == READS_MAX {
            return times;
        }
        reads += 1;
    }
}
