//! The slots' memory under loom, whose atomics cannot be zeroed memory.

use super::BUCKET;
use super::counters::{Counters, TallyLine};
use super::hot_keys::LeaseLine;
use super::probe::{Probe, slots_of};
use super::source::Source;
use super::wide::Slot;
use crate::cell::{CompactCell, CompactWord};
use crate::sync::AtomicU64;

#[derive(Debug)]
pub(crate) struct OutOfMemory;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HugePages(#[expect(dead_code, reason = "a model has none")] pub(crate) bool);

/// As in the memory that ships.
pub(super) const LINE_WORDS: usize = 8;

/// A model has no caches.
pub(super) fn prefetch<T>(_: &T) {}

pub(super) struct Slots(Vec<[Slot; BUCKET]>);

impl Slots {
    pub(super) fn zeroed(count: u32, _: &Source) -> Result<Self, OutOfMemory> {
        Ok(Self((0..count).map(|_| std::array::from_fn(|_| Slot::new())).collect()))
    }

    pub(super) fn bucket_count(&self) -> u32 {
        u32::try_from(self.0.len()).expect("few")
    }

    pub(super) fn bucket(&self, index: u32) -> &[Slot; BUCKET] {
        &self.0[index as usize]
    }

    pub(crate) fn first_bucket(&self, probe: Probe) -> &[Slot; BUCKET] {
        self.bucket(probe.first(self.bucket_count()))
    }

    pub(super) fn home(&self, probe: Probe) -> usize {
        probe.home(slots_of(self.bucket_count()))
    }

    pub(super) fn preferred(&self, probe: Probe) -> &Slot {
        &self.0.as_flattened()[self.home(probe)]
    }

    pub(crate) fn address(&self) -> usize {
        self.0.as_ptr().addr()
    }
}

pub(super) struct Lines(Vec<[CompactCell; BUCKET]>);

impl Lines {
    #[expect(clippy::unnecessary_wraps, reason = "the memory that ships can run out")]
    pub(super) fn zeroed(count: u32, _: &Source) -> Result<Self, OutOfMemory> {
        Ok(Self(
            (0..count)
                .map(|_| std::array::from_fn(|_| CompactCell::new(CompactWord::VACANT)))
                .collect(),
        ))
    }

    pub(super) fn bucket_count(&self) -> u32 {
        u32::try_from(self.0.len()).expect("few")
    }

    pub(super) fn bucket(&self, index: u32) -> &[CompactCell; BUCKET] {
        &self.0[index as usize]
    }

    pub(crate) fn first_bucket(&self, probe: Probe) -> &[CompactCell; BUCKET] {
        self.bucket(probe.first(self.bucket_count()))
    }

    pub(super) fn preferred(&self, probe: Probe) -> &CompactCell {
        &self.0.as_flattened()[probe.home(slots_of(self.bucket_count()))]
    }
}

pub(super) struct RingWords {
    words: Vec<AtomicU64>,
    length: usize,
}

impl RingWords {
    #[expect(clippy::unnecessary_wraps, reason = "the memory that ships can run out")]
    pub(super) fn zeroed(
        slot_count: usize,
        length: usize,
        _: &Source,
    ) -> Result<Self, OutOfMemory> {
        Ok(Self { words: (0..slot_count * length).map(|_| AtomicU64::new(0)).collect(), length })
    }

    pub(super) fn all(&self) -> &[AtomicU64] {
        &self.words
    }

    pub(super) fn length(&self) -> usize {
        self.length
    }

    pub(super) fn of_slot(&self, index: usize) -> &[AtomicU64] {
        &self.words[index * self.length..][..self.length]
    }
}

pub(super) struct TallyLines(Vec<TallyLine>);

impl TallyLines {
    #[expect(clippy::unnecessary_wraps, reason = "the memory that ships can run out")]
    pub(super) fn zeroed(count: usize, _: &Source) -> Result<Self, OutOfMemory> {
        Ok(Self((0..count).map(|_| TallyLine::default()).collect()))
    }

    pub(super) fn all(&self) -> &[TallyLine] {
        &self.0
    }
}

pub(super) struct LeaseLines(Vec<LeaseLine>);

impl LeaseLines {
    #[expect(clippy::unnecessary_wraps, reason = "the memory that ships can run out")]
    pub(super) fn zeroed(count: usize, _: &Source) -> Result<Self, OutOfMemory> {
        Ok(Self((0..count).map(|_| LeaseLine::default()).collect()))
    }

    pub(super) fn all(&self) -> &[LeaseLine] {
        &self.0
    }
}

pub(super) struct TableCounters(Box<Counters>);

impl TableCounters {
    #[expect(clippy::unnecessary_wraps, reason = "the memory that ships can run out")]
    pub(super) fn zeroed(_: &Source) -> Result<Self, OutOfMemory> {
        Ok(Self(Box::default()))
    }
}

impl core::ops::Deref for TableCounters {
    type Target = Counters;

    fn deref(&self) -> &Counters {
        &self.0
    }
}
