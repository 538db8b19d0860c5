//! Counts, striped so that threads do not share a line.

use crossbeam_utils::CachePadded;

#[cfg(feature = "shared-memory")]
use super::block::piece_bytes;
use super::memory::{OutOfMemory, TallyLines};
use super::source::Source;
use crate::sync::{RelaxedCounter, ThreadSlots, thread_slot};

/// An event that is counted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// A key was given a slot.
    Claimed,
    /// A live key lost its slot to another.
    Evicted,
    /// A key found no slot, and the policy denied.
    DeniedFull,
    /// A key found no slot, and the policy admitted.
    AdmittedFull,
    /// A key found no slot, and the shared overflow limiter decided.
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
    /// Words that they take.
    #[cfg(feature = "shared-memory")]
    pub(crate) const WORDS: usize = size_of::<Self>() / size_of::<u64>();

    /// As [`total`](Self::total), of words that were read from a block.
    #[cfg(feature = "shared-memory")]
    pub(crate) fn total_in(words: &[u64], event: Event) -> u64 {
        let stripes = words.chunks(Self::WORDS / STRIPES);
        stripes
            .filter_map(|stripe| stripe.get(event as usize))
            .fold(0, |all, one| all.wrapping_add(*one))
    }

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

/// Requests denied, and requests admitted.
pub(super) type TallyLine = CachePadded<[RelaxedCounter; 2]>;

/// How many requests were admitted, and how many denied.
pub(crate) struct Tally {
    /// One for each thread, and the last for threads beyond those.
    lines: TallyLines,
    /// Threads of other processes count on the same lines.
    is_shared: bool,
}

impl Tally {
    /// In the process's own memory.
    pub(crate) fn new() -> Self {
        Self::within(&Source::default()).expect("the allocator has 8 KB, or aborts")
    }

    /// In memory of `source`, which outlives it.
    pub(crate) fn within(source: &Source) -> Result<Self, OutOfMemory> {
        let lines = TallyLines::zeroed(THREADS + 1, source)?;
        Ok(Self { lines, is_shared: source.is_shared() })
    }

    /// The part of a block that it takes.
    #[cfg(feature = "shared-memory")]
    pub(crate) const BLOCK_BYTES: usize = piece_bytes::<TallyLine>(THREADS + 1);

    #[inline]
    pub(crate) fn count(&self, admitted: bool) {
        let (slot, event) = (thread_slot(), usize::from(admitted));
        match self.lines.all()[..THREADS].get(slot) {
            Some(line) if !self.is_shared => line[event].add_one_alone(),
            line => {
                line.unwrap_or(&self.lines.all()[THREADS])[event].add_one();
            }
        }
    }

    /// Requests admitted, or denied, so far.
    pub(crate) fn total(&self, admitted: bool) -> u64 {
        let counts = self.lines.all().iter().map(|line| line[usize::from(admitted)].read());
        // Counts of a shared limiter may be any words.
        counts.fold(0, u64::wrapping_add)
    }
}

#[cfg(all(test, feature = "shared-memory"))]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_a_block_have_the_counts_of_all_stripes() {
        let mut words = vec![0; Counters::WORDS];
        let stripe = Counters::WORDS / STRIPES;
        for (index, stripe) in words.chunks_mut(stripe).enumerate() {
            stripe[Event::Evicted as usize] = 10 + index as u64;
            stripe[Event::Claimed as usize] = 1;
        }
        let total = |event| Counters::total_in(&words, event);
        assert_eq!(total(Event::Evicted), 108);
        assert_eq!((total(Event::Claimed), total(Event::Leased)), (8, 0));
        // Any words have a sum.
        words[Event::Claimed as usize] = u64::MAX;
        assert_eq!(Counters::total_in(&words, Event::Claimed), 6);
    }
}
