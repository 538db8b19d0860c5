//! Counts, striped so that threads do not share a line.

use crossbeam_utils::CachePadded;

use crate::sync::{RelaxedCounter, ThreadSlots, thread_slot};

/// An event that is counted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// A key was given a slot.
    Claimed,
    /// A live key lost its slot to another.
    Evicted,
    /// A key found no place, and the policy denied.
    DeniedFull,
    /// A key found no place, and the policy admitted.
    AdmittedFull,
    /// A key found no place, and the shared overflow limiter decided.
    Overflowed,
    /// A thread leased cells of a hot key.
    Leased,
}

const EVENTS: usize = 6;
/// Beside the events: the nonces that were handed out.
const NONCES: usize = EVENTS;
const STRIPES: usize = 8;

/// One count per event, summed over the stripes when read.
#[derive(Default)]
pub(crate) struct Counters([CachePadded<[RelaxedCounter; EVENTS + 1]>; STRIPES]);

impl Counters {
    pub(crate) fn count(&self, event: Event) {
        self.0[thread_slot() % STRIPES][event as usize].add_one();
    }

    /// A number that no other call returns. Its low `b` bits come round after 2^`b` / 8 calls by
    /// the threads of one stripe.
    pub(super) fn nonce(&self) -> u64 {
        let stripe = thread_slot() % STRIPES;
        self.0[stripe][NONCES].add_one().wrapping_mul(STRIPES as u64) + stripe as u64
    }

    pub(crate) fn total(&self, event: Event) -> u64 {
        // Counts of a shared table may be any words.
        self.0.iter().map(|stripe| stripe[event as usize].read()).fold(0, u64::wrapping_add)
    }
}

/// Threads that have a line of a tally of their own at a time.
const THREADS: usize = ThreadSlots::COUNT;

/// How many requests were admitted, and how many denied.
pub(crate) struct Tally {
    own: Box<[CachePadded<[RelaxedCounter; 2]>]>,
    /// For threads beyond those.
    shared: CachePadded<[RelaxedCounter; 2]>,
}

impl Tally {
    pub(crate) fn new() -> Self {
        let own = (0..THREADS).map(|_| CachePadded::default()).collect();
        Self { own, shared: CachePadded::default() }
    }

    #[inline]
    pub(crate) fn count(&self, admitted: bool) {
        match self.own.get(thread_slot()) {
            Some(line) => line[usize::from(admitted)].add_one_alone(),
            None => {
                self.shared[usize::from(admitted)].add_one();
            }
        }
    }

    /// Requests admitted, or denied, so far.
    pub(crate) fn total(&self, admitted: bool) -> u64 {
        let lines = self.own.iter().chain([&self.shared]);
        lines.map(|line| line[usize::from(admitted)].read()).sum()
    }
}
