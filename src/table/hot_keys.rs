//! The memory of the leases of hot keys: cells that a thread has charged ahead, on cache lines of its own.
//!
//! Only one thread reads and writes a lease, since no two threads have the same
//! [slot](crate::sync::ThreadSlots). (A thread may take over the slot of one that has ended, and then
//! continues with its leases.) So there is no protocol here, and no locked instruction. The
//! words are atomic because a limiter is shared by reference.
//!
//! A process that is forked has copies of its parent's threads' slots and memory. Where both use one table, in shared
//! memory, both would spend the cells of a lease. So the leases of such a table are in memory that the system
//! empties for a child, and a child has none. Where the system cannot do that, no thread gets a lease.
//!
//! # Guarded by
//!
//! `loom-tests/tests/hot_key_leases.rs`, `hot_key_windows.rs`, `thread_slots.rs` and `stopped/lease.rs`, run
//! by `ci/check.sh loom`. Ordinary tests do not notice two threads with the same lease.

use core::time::Duration;

use crossbeam_utils::CachePadded;

use super::Probe;
use super::memory::{LeaseLines, OutOfMemory};
use super::source::Source;
use crate::sync::{
    AtomicU64, Fault, Ordering::Relaxed, ThreadSlots, planted, thread_slot, thread_slot_so_far,
};
use crate::time::{Tick, saturating_nanos};

/// Threads that can have leases at a time. A model has no more than this.
const THREADS: usize = if cfg!(tollgate_loom) { 3 } else { ThreadSlots::COUNT };

/// Leases of a thread, each for the keys whose hash selects it. The hashes of their keys are one
/// cache line.
const LEASES: usize = if cfg!(tollgate_loom) { 1 } else { 8 };

/// The leases of a thread. The first line shows whether the thread has one of a key.
#[derive(Default)]
pub(super) struct ThreadLeases {
    /// The keys of the leases, by all 64 bits of their hashes.
    keys: [AtomicU64; LEASES],
    leases: [KeyLease; LEASES],
}

/// The leases of a thread, which no other thread's share a cache line with.
pub(super) type LeaseLine = CachePadded<ThreadLeases>;

/// One thread's lease of one key.
#[derive(Default)]
struct KeyLease {
    /// Cells that are not spent yet.
    left: AtomicU64,
    /// Cells that were left when another key last wanted the lease.
    left_then: AtomicU64,
    /// The time of the charge, in nanoseconds.
    at: AtomicU64,
    /// For how long from then on its cells may be spent, in nanoseconds.
    life: AtomicU64,
    /// The key's state after the charge.
    state: AtomicU64,
}

/// A thread's lease, as that thread sees it.
#[derive(Clone, Copy)]
pub(crate) struct LeaseRef<'a> {
    key: &'a AtomicU64,
    lease: &'a KeyLease,
}

/// Cells that a thread has charged ahead.
#[derive(Clone, Copy)]
pub(crate) struct ChargedAhead {
    /// Cells that are not spent yet.
    pub(crate) left: u64,
    /// The time of the charge.
    pub(crate) at: Tick,
    /// For how long from then on they may be spent.
    pub(crate) life: Duration,
    /// The key's state after the charge.
    pub(crate) state: u64,
}

/// The leases of one limiter.
pub(crate) struct HotKeyLeases {
    threads: LeaseLines,
    /// Cells in a lease, at most.
    cells: u64,
}

impl HotKeyLeases {
    /// Leases of a table whose memory has this source.
    pub(crate) fn new(cells: u64, source: &Source) -> Result<Self, OutOfMemory> {
        Ok(Self { threads: LeaseLines::zeroed(THREADS, source)?, cells })
    }

    /// Cells in a lease, at most.
    pub(crate) fn cells(&self) -> u64 {
        self.cells
    }

    /// The lease that the key's hash selects, of the thread with that slot.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "the low bits are meant")]
    #[allow(clippy::modulo_one, reason = "a model's thread has one lease")]
    fn lease(&self, thread: usize, probe: Probe) -> Option<LeaseRef<'_>> {
        let thread = if planted(Fault::ThreadsTakenForOne) { 0 } else { thread };
        let own = self.threads.all().get(thread)?;
        let index = probe.hash() as usize % LEASES;
        Some(LeaseRef { key: &own.keys[index], lease: &own.leases[index] })
    }

    /// This thread's lease of the key, if it has one.
    #[inline(always)]
    pub(crate) fn of(&self, probe: Probe) -> Option<LeaseRef<'_>> {
        // A thread without a slot has no lease.
        self.lease(thread_slot_so_far(), probe).filter(|lease| lease.is_of(probe))
    }

    /// The lease that this thread may use for the key.
    pub(crate) fn free(&self, probe: Probe, now: Tick) -> Option<LeaseRef<'_>> {
        self.lease(thread_slot(), probe).filter(|lease| lease.is_of(probe) || lease.yields(now))
    }
}

impl LeaseRef<'_> {
    #[inline(always)]
    pub(crate) fn is_of(self, probe: Probe) -> bool {
        let key = self.key.load(Relaxed);
        key == probe.hash() || (planted(Fault::HotKeyLeaseUncompared) && key != 0)
    }

    /// Spends `n` cells. Returns how many are left, and the key's state after their charge.
    #[inline(always)]
    pub(crate) fn spend(self, n: u64, now: Tick) -> Option<(u64, u64)> {
        let left = self.lease.left.load(Relaxed);
        if n > left || !self.is_alive(now) {
            return None;
        }
        self.lease.left.store(left - n, Relaxed);
        Some((left - n, self.lease.state.load(Relaxed)))
    }

    /// Cells that may be spent now.
    pub(crate) fn left(self, now: Tick) -> u64 {
        if self.is_alive(now) { self.lease.left.load(Relaxed) } else { 0 }
    }

    /// Whether its cells may be spent: from the time of their charge, for as long as the algorithm says.
    #[inline(always)]
    pub(crate) fn is_alive(self, now: Tick) -> bool {
        // An earlier time wraps around, to an age beyond any life.
        let age = now.as_nanos().wrapping_sub(self.lease.at.load(Relaxed));
        age < self.lease.life.load(Relaxed) || planted(Fault::HotKeyLeaseNeverExpires)
    }

    /// Whether another key may have the lease: nothing is left, or nothing was spent since another
    /// key last asked. The cells that are lost by it would expire anyway.
    fn yields(self, now: Tick) -> bool {
        let left = self.left(now);
        let left_then = self.lease.left_then.load(Relaxed);
        self.lease.left_then.store(left, Relaxed);
        left == 0 || left == left_then
    }

    /// Holds cells of the key, and forgets what was held before.
    pub(crate) fn hold(self, probe: Probe, ahead: ChargedAhead) {
        let ChargedAhead { left, at, life, state } = ahead;
        self.key.store(probe.hash(), Relaxed);
        self.lease.left.store(left, Relaxed);
        self.lease.left_then.store(0, Relaxed);
        self.lease.at.store(at.as_nanos(), Relaxed);
        self.lease.life.store(saturating_nanos(life), Relaxed);
        self.lease.state.store(state, Relaxed);
    }

    /// Makes the lease no key's. (A key with the hash 0 finds no cells in it.)
    pub(crate) fn clear(self) {
        self.key.store(0, Relaxed);
        self.lease.left.store(0, Relaxed);
    }
}
