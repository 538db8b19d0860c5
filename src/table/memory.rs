//! The slots' memory: allocated once, zeroed by the system, and resident only as keys arrive.
//!
//! A table of a million keys is 29 MB. To write zeros into it would take milliseconds and make all of it
//! resident before the first request. Memory that the system hands out zeroed costs neither. Safe code,
//! though, cannot make atomics of it. (An allocation with the buckets' own alignment does not help: the allocator
//! zeroes it by hand.) The memory of a shared table is a piece of a [block](super::block) instead.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;
#[cfg(feature = "shared-memory")]
use std::sync::Arc;

use super::BUCKET;
#[cfg(feature = "shared-memory")]
use super::block::{Block, NotInherited, Pieces, piece_bytes};
use super::counters::{Counters, TallyLine};
use super::hot_keys::LeaseLine;
use super::probe::{Probe, slots_of};
use super::source::Source;
use super::wide::Slot;
use crate::cell::CompactCell;
use crate::sync::{AtomicU64, MODEL};

/// The system has no memory for the table.
#[derive(Debug)]
pub(crate) struct OutOfMemory;

type Bucket = [Slot; BUCKET];

/// Buckets begin at a cache line, so that the first four slots share one.
const LINE_BYTES: usize = 64;
pub(super) const LINE_WORDS: usize = LINE_BYTES / size_of::<u64>();
const BUCKET_BYTES: usize = size_of::<Bucket>();
const _: () = assert!(MODEL || BUCKET_BYTES == 2 * LINE_BYTES);

/// As on x86-64 and most of AArch64. On other systems only the alignment is lost.
const HUGE_PAGE_BYTES: usize = 1 << 21;

/// Asks the system to back this memory with huge pages. The memory works without them too.
fn ask_for_huge_pages(first: NonNull<u8>, bytes: usize) {
    #[cfg(target_os = "linux")]
    {
        use std::ffi::{c_int, c_void};
        /// From `asm-generic/mman-common.h`.
        const MADV_HUGEPAGE: c_int = 14;
        // SAFETY: the declaration of the C library, which the standard library links.
        unsafe extern "C" {
            fn madvise(address: *mut c_void, length: usize, advice: c_int) -> c_int;
        }
        // SAFETY: the caller owns the memory, and the advice changes nothing that is stored in it.
        let _ = unsafe { madvise(first.as_ptr().cast(), bytes, MADV_HUGEPAGE) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (first, bytes);
}

/// Asks the processor for the cache line of a value, without waiting for it. Does nothing on
/// processors for which the language has no such instruction.
#[inline(always)]
pub(super) fn prefetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: part of every x86-64 processor, and any address will do.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}

/// Zeroed memory that begins on a cache line, for `count` values of a type made of atomics.
struct Zeroed<T> {
    values: NonNull<T>,
    count: usize,
    allocation: NonNull<u8>,
    /// Without a size: the memory is a piece of a block or of a mapping, and is not freed.
    layout: Layout,
}

/// Whether the system is asked to back memory with huge pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HugePages(pub(crate) bool);

// SAFETY: it owns its memory, and hands out only shared references to atomics in it.
unsafe impl<T: Sync> Send for Zeroed<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Zeroed<T> {}

impl<T> Zeroed<T> {
    /// # Safety
    ///
    /// A `T` is made of atomics, of which any content is valid, and has no destructor. If the source is a
    /// block, the block outlives this (a table's [counters](TableCounters) keep it).
    unsafe fn new(count: usize, source: &Source) -> Result<Self, OutOfMemory> {
        match source {
            // SAFETY: the caller has promised what this function asks for.
            Source::Own(huge_pages) => unsafe { Self::allocate(count, *huge_pages) },
            #[cfg(feature = "shared-memory")]
            // SAFETY: the caller has promised what this function asks for.
            Source::Block(pieces) => unsafe { Self::piece(count, pieces) },
        }
    }

    /// A piece of a block, which begins as zeros and is used by other processes, too.
    ///
    /// # Safety
    ///
    /// As for [`new`](Self::new).
    #[cfg(feature = "shared-memory")]
    unsafe fn piece(count: usize, pieces: &Pieces) -> Result<Self, OutOfMemory> {
        let values = pieces.take::<T>(count).ok_or(OutOfMemory)?;
        Ok(Self { values, count, allocation: values.cast(), layout: Layout::new::<()>() })
    }

    /// # Safety
    ///
    /// A `T` of zeros is valid, and `T` has no destructor.
    unsafe fn allocate(count: usize, huge_pages: HugePages) -> Result<Self, OutOfMemory> {
        let line = LINE_BYTES.max(align_of::<T>());
        let start = if huge_pages.0 { HUGE_PAGE_BYTES } else { line };
        let bytes = count
            .checked_mul(size_of::<T>())
            .and_then(|bytes| bytes.checked_add(start))
            .ok_or(OutOfMemory)?;
        // The system's calloc aligns to 16; memory with more would be zeroed by hand.
        let layout = Layout::from_size_align(bytes, 16).map_err(|_| OutOfMemory)?;
        // SAFETY: the size is not zero.
        let allocation = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(OutOfMemory)?;
        let padding = allocation.align_offset(start);
        assert!(padding < start, "byte pointers can be aligned");
        // SAFETY: the padding is less than what was allocated in addition.
        let first = unsafe { allocation.add(padding) };
        if huge_pages.0 {
            ask_for_huge_pages(first, bytes - start);
        }
        Ok(Self { values: first.cast(), count, allocation, layout })
    }

    #[inline(always)]
    fn all(&self) -> &[T] {
        // SAFETY: the memory is aligned, as long as this, lives as long as `self`, and holds
        // zeros, which are valid (see `new`), or what was stored through its atomics, be it by another
        // process.
        unsafe { std::slice::from_raw_parts(self.values.as_ptr(), self.count) }
    }
}

impl<T> Drop for Zeroed<T> {
    fn drop(&mut self) {
        if self.layout.size() > 0 {
            // SAFETY: allocated in `allocate` with this layout; the values have no destructor.
            unsafe { dealloc(self.allocation.as_ptr(), self.layout) }
        }
    }
}

/// All slots of a table, as buckets that begin on a cache line.
pub(super) struct Slots {
    buckets: Zeroed<Bucket>,
    slot_count: u64,
}

impl Slots {
    pub(super) fn zeroed(count: u32, source: &Source) -> Result<Self, OutOfMemory> {
        assert!(count > 0, "a table has buckets");
        // SAFETY: a slot is two atomic integers.
        let buckets = unsafe { Zeroed::new(count as usize, source) }?;
        Ok(Self { buckets, slot_count: slots_of(count) })
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "as many as were asked for")]
    pub(super) fn bucket_count(&self) -> u32 {
        (self.slot_count / BUCKET as u64) as u32
    }

    #[inline]
    pub(super) fn bucket(&self, index: u32) -> &Bucket {
        &self.buckets.all()[index as usize]
    }

    /// The first of a key's buckets.
    #[inline(always)]
    pub(crate) fn first_bucket(&self, probe: Probe) -> &Bucket {
        let index = self.home(probe) / BUCKET;
        // SAFETY: as in `preferred`, so the index of the slot's bucket is below the count of buckets.
        unsafe { self.buckets.all().get_unchecked(index) }
    }

    /// The index of the slot that a key prefers.
    #[inline(always)]
    pub(super) fn home(&self, probe: Probe) -> usize {
        probe.home(self.slot_count)
    }

    /// The slot that a key prefers in the first of its buckets.
    #[inline(always)]
    pub(super) fn preferred(&self, probe: Probe) -> &Slot {
        let index = self.home(probe);
        // SAFETY: a number below 2^64 times the count of slots, divided by 2^64, is below the count, and
        // that many were allocated.
        unsafe { self.buckets.all().as_flattened().get_unchecked(index) }
    }

    /// The address of the first bucket.
    #[inline(always)]
    pub(super) fn address(&self) -> usize {
        self.buckets.values.addr().get()
    }
}

/// All compact slots of a table, as buckets of one cache line each.
pub(super) struct Lines {
    lines: Zeroed<Line>,
    slot_count: u64,
}

type Line = [CompactCell; BUCKET];
const _: () = assert!(MODEL || size_of::<Line>() == LINE_BYTES);

impl Lines {
    pub(super) fn zeroed(count: u32, source: &Source) -> Result<Self, OutOfMemory> {
        assert!(count > 0, "a table has buckets");
        // SAFETY: a compact slot is an atomic integer.
        let lines = unsafe { Zeroed::new(count as usize, source) }?;
        Ok(Self { lines, slot_count: slots_of(count) })
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "as many as were asked for")]
    pub(super) fn bucket_count(&self) -> u32 {
        (self.slot_count / BUCKET as u64) as u32
    }

    #[inline(always)]
    pub(super) fn bucket(&self, index: u32) -> &Line {
        &self.lines.all()[index as usize]
    }

    /// The first of a key's buckets.
    #[inline(always)]
    pub(super) fn first_bucket(&self, probe: Probe) -> &Line {
        let index = probe.home(self.slot_count) / BUCKET;
        // SAFETY: as in `Slots::first_bucket`.
        unsafe { self.lines.all().get_unchecked(index) }
    }

    /// The slot that a key prefers in the first of its buckets.
    #[inline(always)]
    pub(super) fn preferred(&self, probe: Probe) -> &CompactCell {
        let index = probe.home(self.slot_count);
        // SAFETY: as in `Slots::preferred`.
        unsafe { self.lines.all().as_flattened().get_unchecked(index) }
    }
}

/// The ring words of all slots, one slot's after the other's.
pub(super) struct RingWords {
    words: Zeroed<AtomicU64>,
    slot_count: usize,
    /// Words of one slot.
    length: usize,
}

impl RingWords {
    /// The part of a block that `count` words take.
    #[cfg(feature = "shared-memory")]
    pub(super) fn block_bytes(count: usize) -> usize {
        piece_bytes::<AtomicU64>(count)
    }

    /// `length` words for each slot.
    pub(super) fn zeroed(
        slot_count: usize,
        length: usize,
        source: &Source,
    ) -> Result<Self, OutOfMemory> {
        let none = Source::Own(HugePages(false));
        let count = slot_count.checked_mul(length).ok_or(OutOfMemory)?;
        let source = if count == 0 { &none } else { source };
        // SAFETY: atomic integers.
        Ok(Self { words: unsafe { Zeroed::new(count, source) }?, slot_count, length })
    }

    #[inline(always)]
    pub(super) fn all(&self) -> &[AtomicU64] {
        self.words.all()
    }

    /// Words of one slot.
    #[inline(always)]
    pub(super) fn length(&self) -> usize {
        self.length
    }

    /// The words of a slot.
    #[inline(always)]
    pub(super) fn of_slot(&self, index: usize) -> &[AtomicU64] {
        assert!(index < self.slot_count, "the slot is of this table");
        let first = index * self.length;
        // SAFETY: there are `length` words for each of the slots, and this is one of them.
        unsafe { self.all().get_unchecked(first..first + self.length) }
    }
}

/// One value a thread, and one for all threads beyond those, on cache lines of their own.
pub(super) struct TallyLines(Zeroed<TallyLine>);

impl TallyLines {
    pub(super) fn zeroed(count: usize, source: &Source) -> Result<Self, OutOfMemory> {
        // SAFETY: atomic integers.
        Ok(Self(unsafe { Zeroed::new(count, source) }?))
    }

    #[inline(always)]
    pub(super) fn all(&self) -> &[TallyLine] {
        self.0.all()
    }
}

/// The leases of all threads, on cache lines of their own.
pub(super) struct LeaseLines {
    lines: Zeroed<LeaseLine>,
    /// The memory of leases whose table other processes use, too.
    #[cfg(feature = "shared-memory")]
    _mapping: Option<NotInherited>,
}

impl LeaseLines {
    /// For a shared table, memory that a forked child does not inherit; none if the system has no such memory.
    pub(super) fn zeroed(count: usize, source: &Source) -> Result<Self, OutOfMemory> {
        #[cfg(feature = "shared-memory")]
        if source.is_shared() {
            return Ok(Self::not_inherited(count));
        }
        #[cfg(not(feature = "shared-memory"))]
        let Source::Own(_) = source;
        // SAFETY: atomic integers.
        let lines = unsafe { Zeroed::allocate(count, HugePages(false)) }?;
        Ok(Self {
            lines,
            #[cfg(feature = "shared-memory")]
            _mapping: None,
        })
    }

    #[cfg(feature = "shared-memory")]
    fn not_inherited(count: usize) -> Self {
        let mapping = NotInherited::new(count * size_of::<LeaseLine>());
        let (first, count) = match &mapping {
            Some(mapping) => (mapping.first().cast(), count),
            None => (NonNull::dangling(), 0),
        };
        // The values are atomic integers, begin on a page, and the mapping is kept beside them.
        let layout = Layout::new::<()>();
        let lines = Zeroed { values: first, count, allocation: first.cast(), layout };
        Self { lines, _mapping: mapping }
    }

    #[inline(always)]
    pub(super) fn all(&self) -> &[LeaseLine] {
        self.lines.all()
    }
}

/// The counters of a table.
pub(super) struct TableCounters {
    own: Counters,
    /// Those of a shared table are in its block.
    #[cfg(feature = "shared-memory")]
    shared: Option<(Zeroed<Counters>, Arc<Block>)>,
}

impl TableCounters {
    #[cfg_attr(not(feature = "shared-memory"), expect(clippy::unnecessary_wraps))]
    pub(super) fn zeroed(source: &Source) -> Result<Self, OutOfMemory> {
        #[cfg(not(feature = "shared-memory"))]
        let Source::Own(_) = source;
        #[cfg(feature = "shared-memory")]
        let shared = match source {
            Source::Own(_) => None,
            Source::Block(pieces) => {
                // SAFETY: atomic integers, and the block is kept beside them.
                let counters = unsafe { Zeroed::piece(1, pieces) }?;
                Some((counters, pieces.block()))
            }
        };
        Ok(Self {
            own: Counters::default(),
            #[cfg(feature = "shared-memory")]
            shared,
        })
    }
}

impl core::ops::Deref for TableCounters {
    type Target = Counters;

    #[inline]
    fn deref(&self) -> &Counters {
        #[cfg(feature = "shared-memory")]
        if let Some((shared, _)) = &self.shared {
            return &shared.all()[0];
        }
        &self.own
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_slots_begin_as_zeros_on_a_line_of_their_own() {
        for huge_pages in [HugePages(false), HugePages(true)] {
            let slots = Slots::zeroed(3, &Source::Own(huge_pages)).expect("memory");
            for index in 0..3 {
                let bucket = slots.bucket(index);
                assert_eq!(std::ptr::from_ref(bucket).addr() % LINE_BYTES, 0);
                assert!(bucket.iter().all(|slot| !slot.owner().is_a_key()));
            }
        }
    }

    #[test]
    fn compact_slots_begin_vacant_on_a_line_of_their_own() {
        let lines = Lines::zeroed(3, &Source::Own(HugePages(true))).expect("memory");
        for index in 0..3 {
            let bucket = lines.bucket(index);
            assert_eq!(std::ptr::from_ref(bucket).addr() % LINE_BYTES, 0);
            assert!(bucket.iter().all(|cell| cell.load().is_vacant()));
        }
    }

    #[test]
    #[should_panic(expected = "out of bounds")]
    fn a_bucket_out_of_range_panics() {
        Slots::zeroed(1, &Source::Own(HugePages(false))).expect("memory").bucket(1);
    }
}
