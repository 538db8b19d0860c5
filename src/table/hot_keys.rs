//! Shares: what a thread has charged ahead of the cells of hot keys, on lines of its own.
//!
//! A share is read and written by one thread alone, since no thread has the number of another
//! (one that begins may have that of one that has ended, and goes on with its shares). So there is no protocol here, and no locked instruction; its words are atomic because a limiter
//! is shared by reference.

use core::time::Duration;

use crossbeam_utils::CachePadded;

use super::Probe;
use crate::sync::{
    AtomicU64, Fault, Ordering::Relaxed, ThreadSlots, planted, thread_slot, thread_slot_so_far,
};
use crate::time::Tick;

/// Threads that can have shares at a time. A model has no more than this.
const THREADS: usize = if cfg!(tollgate_loom) { 3 } else { ThreadSlots::COUNT };

/// Shares of a thread, each for the keys whose hash has it: their hashes are one cache line.
const SHARES: usize = if cfg!(tollgate_loom) { 1 } else { 8 };

/// What a thread holds. A key that it holds nothing of is told by the first line.
#[derive(Default)]
struct Own {
    /// Whose the shares are: the keys, by all 64 bits of their hashes.
    keys: [AtomicU64; SHARES],
    shares: [Share; SHARES],
}

/// One thread's share of one key.
#[derive(Default)]
struct Share {
    /// Cells that are not spent yet.
    left: AtomicU64,
    /// What was left when another key last wanted the place.
    left_then: AtomicU64,
    /// When they were charged, in nanoseconds.
    at: AtomicU64,
    /// The state that the charge left.
    state: AtomicU64,
}

/// The place of a thread's share, as its thread sees it.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    key: &'a AtomicU64,
    share: &'a Share,
    life: u64,
}

/// The shares of one limiter.
pub(crate) struct Shares {
    own: Box<[CachePadded<Own>]>,
    /// Cells in a share, at most.
    cells: u64,
    /// How long they may be spent, in nanoseconds.
    life: u64,
}

impl Shares {
    pub(crate) fn new(cells: u64, life: Duration) -> Self {
        let own = (0..THREADS).map(|_| CachePadded::default()).collect();
        Self { own, cells, life: u64::try_from(life.as_nanos()).unwrap_or(u64::MAX) }
    }

    /// Cells in a share, at most.
    pub(crate) fn cells(&self) -> u64 {
        self.cells
    }

    /// The place for shares of such keys, of the thread with that number.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "the low bits are meant")]
    #[allow(clippy::modulo_one, reason = "a model's thread has one share")]
    fn place(&self, thread: usize, probe: Probe) -> Option<Place<'_>> {
        let own = self.own.get(if planted(Fault::ThreadsTakenForOne) { 0 } else { thread })?;
        let index = probe.hash() as usize % SHARES;
        Some(Place { key: &own.keys[index], share: &own.shares[index], life: self.life })
    }

    /// Where this thread has a share of the key.
    #[inline(always)]
    pub(crate) fn of(&self, probe: Probe) -> Option<Place<'_>> {
        // A thread without a number has no share.
        self.place(thread_slot_so_far(), probe).filter(|place| place.is_of(probe))
    }

    /// Where this thread may put a share of the key.
    pub(crate) fn free(&self, probe: Probe, now: Tick) -> Option<Place<'_>> {
        self.place(thread_slot(), probe).filter(|place| place.is_of(probe) || place.yields(now))
    }
}

impl Place<'_> {
    #[inline(always)]
    pub(crate) fn is_of(self, probe: Probe) -> bool {
        self.key.load(Relaxed) == probe.hash() || planted(Fault::HotKeyLeaseUncompared)
    }

    /// Spends `n` cells, and returns how many are left, and the state that their charge left.
    #[inline(always)]
    pub(crate) fn spend(self, n: u64, now: Tick) -> Option<(u64, u64)> {
        let left = self.share.left.load(Relaxed);
        if n > left || !self.is_alive(now) {
            return None;
        }
        self.share.left.store(left - n, Relaxed);
        Some((left - n, self.share.state.load(Relaxed)))
    }

    /// Cells that may be spent now.
    pub(crate) fn left(self, now: Tick) -> u64 {
        if self.is_alive(now) { self.share.left.load(Relaxed) } else { 0 }
    }

    /// Whether its cells may be spent: from the instant by which they were charged on, until time
    /// has restored as many as a share has at most.
    #[inline(always)]
    pub(crate) fn is_alive(self, now: Tick) -> bool {
        // An earlier instant wraps around, to an age beyond any life.
        let age = now.as_nanos().wrapping_sub(self.share.at.load(Relaxed));
        age < self.life || planted(Fault::HotKeyLeaseNeverExpires)
    }

    /// Whether another key may have the place: nothing is left here, or nothing was spent since
    /// another key last asked. What would be lost then is lost anyway when its time is over.
    fn yields(self, now: Tick) -> bool {
        let left = self.left(now);
        let left_then = self.share.left_then.load(Relaxed);
        self.share.left_then.store(left, Relaxed);
        left == 0 || left == left_then
    }

    /// Holds `left` cells of the key, charged by `now`, and forgets what was held before.
    pub(crate) fn hold(self, probe: Probe, left: u64, now: Tick, state: u64) {
        self.key.store(probe.hash(), Relaxed);
        self.share.left.store(left, Relaxed);
        self.share.left_then.store(0, Relaxed);
        self.share.at.store(now.as_nanos(), Relaxed);
        self.share.state.store(state, Relaxed);
    }

    /// Is no key's any more (nothing is left here for one with the hash 0).
    pub(crate) fn clear(self) {
        self.key.store(0, Relaxed);
        self.share.left.store(0, Relaxed);
    }
}
