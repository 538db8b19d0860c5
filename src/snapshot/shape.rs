//! The parameters that two limiters must share so that a snapshot of one fits the other.

use crate::algo::{Algorithm, CONFIG_WORDS, Rebase};
use crate::limiter::{Limiter, WhenFull};
use crate::time::Clock;

/// The parameters of a limiter that give its slots their meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// 1: compact, 2: wide.
    words_in_slot: u64,
    buckets: u64,
    algorithm: u64,
    /// Words of a slot's ring that are saved.
    pub(super) ring_cells: u64,
    /// Quota, time grid and options, as the algorithm encodes them.
    config: [u64; CONFIG_WORDS],
    /// 1 if keys without a slot share a bucket.
    has_overflow: u64,
    /// Words of that bucket's ring that are saved.
    pub(super) overflow_ring_cells: u64,
    /// The configuration of that bucket.
    overflow_config: [u64; CONFIG_WORDS],
}

impl Shape {
    pub(super) const WORDS: usize = 6 + 2 * CONFIG_WORDS;

    pub(super) fn of<K: ?Sized, A: Algorithm<Params: Rebase>, C: Clock>(
        gate: &Limiter<K, A, C>,
    ) -> Self {
        let origin = gate.clock().unix_origin_nanos();
        let shared = match gate.when_full() {
            WhenFull::Share(shared) => Some(&shared.0),
            WhenFull::Evict | WhenFull::Deny | WhenFull::Admit => None,
        };
        Self {
            words_in_slot: gate.table().words_in_slot() as u64,
            buckets: gate.table().bucket_count().into(),
            algorithm: gate.params().algorithm(),
            ring_cells: gate.params().kept_cells() as u64,
            config: gate.params().config_words(origin),
            has_overflow: shared.is_some().into(),
            overflow_ring_cells: shared.map_or(0, |params| params.kept_cells() as u64),
            overflow_config: shared.map_or([0; CONFIG_WORDS], |params| params.config_words(origin)),
        }
    }

    pub(super) fn words(&self) -> [u64; Self::WORDS] {
        let mut words = [self.words_in_slot, self.buckets, self.algorithm, self.ring_cells]
            .into_iter()
            .chain(self.config)
            .chain([self.has_overflow, self.overflow_ring_cells])
            .chain(self.overflow_config);
        core::array::from_fn(|_| words.next().expect("WORDS counts them all"))
    }

    pub(super) fn from_words(words: [u64; Self::WORDS]) -> Self {
        let mut words = words.into_iter();
        let mut next = || words.next().expect("WORDS counts them all");
        let [words_in_slot, buckets, algorithm, ring_cells] = core::array::from_fn(|_| next());
        let config = core::array::from_fn(|_| next());
        let [has_overflow, overflow_ring_cells] = core::array::from_fn(|_| next());
        let overflow_config = core::array::from_fn(|_| next());
        Self {
            words_in_slot,
            buckets,
            algorithm,
            ring_cells,
            config,
            has_overflow,
            overflow_ring_cells,
            overflow_config,
        }
    }

    /// The first parameter that differs in `other`, in the order in which they explain each other.
    pub(super) fn difference(&self, other: &Self) -> Option<&'static str> {
        let is_same = [
            (self.algorithm == other.algorithm, "the algorithm"),
            (
                self.words_in_slot == other.words_in_slot,
                "the kind of slots (Builder::slots, or a `max_clock_skew` by which `Auto` chooses others)",
            ),
            (self.config == other.config, "the quota, or an option of the algorithm"),
            (self.ring_cells == other.ring_cells, "how long a key's ring is"),
            (self.buckets == other.buckets, "the capacity"),
            (self.has_overflow == other.has_overflow, "whether keys share an overflow (on_full)"),
            (self.overflow_config == other.overflow_config, "the quota of the shared overflow"),
            (
                self.overflow_ring_cells == other.overflow_ring_cells,
                "how long the shared overflow's ring is",
            ),
        ];
        is_same.into_iter().find(|(same, _)| !same).map(|(_, what)| what)
    }
}
