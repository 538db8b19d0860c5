//! Counts of what happens off the hot path, striped so that threads do not share a line.

use crossbeam_utils::CachePadded;

use crate::sync::{PlainCount, stripe};

/// What is counted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// A key was given a slot.
    Claimed,
    /// A live key lost its slot to another.
    Evicted,
    /// No slot was to be had, and the policy refused.
    RefusedFull,
    /// No slot was to be had, and the policy admitted.
    AdmittedFull,
    /// No slot was to be had, and the shared overflow limiter decided.
    Overflowed,
}

const EVENTS: usize = 5;
const STRIPES: usize = 8;

/// One count per event, summed over the stripes when read.
#[derive(Default)]
pub(crate) struct Counters([CachePadded<[PlainCount; EVENTS]>; STRIPES]);

impl Counters {
    pub(crate) fn count(&self, event: Event) {
        self.0[stripe() % STRIPES][event as usize].add_one();
    }

    pub(crate) fn total(&self, event: Event) -> u64 {
        self.0.iter().map(|stripe| stripe[event as usize].read()).sum()
    }
}
