//! The slots' memory: taken once, zeroed by the system, touched only as keys arrive.
//!
//! This is the crate's only unsafe code. A table of a million keys is 29 MB; writing zeros into
//! it would take milliseconds and make all of it resident before the first request. Memory that
//! the system hands out zeroed costs neither, but atomics cannot be made of it safely. (An
//! allocation of the buckets' own alignment is no way out: such memory is zeroed by hand.)

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

use super::layout::{BUCKET, Slot};
use crate::sync::AtomicU64;

/// The system has no memory for the table.
#[derive(Debug)]
pub(crate) struct OutOfMemory;

type Bucket = [Slot; BUCKET];

/// Buckets begin at a cache line, so that the first four slots share one.
const LINE_BYTES: usize = 64;
const BUCKET_BYTES: usize = size_of::<Bucket>();
const _: () = assert!(BUCKET_BYTES == 2 * LINE_BYTES);

/// Zeroed memory that begins on a cache line, for `count` values of a type made of atomics.
struct Zeroed<T> {
    values: NonNull<T>,
    count: usize,
    allocation: NonNull<u8>,
    layout: Layout,
}

// SAFETY: it owns its memory, and hands out only shared references to atomics in it.
unsafe impl<T: Sync> Send for Zeroed<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Zeroed<T> {}

impl<T> Zeroed<T> {
    /// # Safety
    ///
    /// A `T` of zeros is valid, `T` has no destructor, and its alignment is at most a line.
    unsafe fn new(count: usize) -> Result<Self, OutOfMemory> {
        let bytes = count
            .checked_mul(size_of::<T>())
            .and_then(|bytes| bytes.checked_add(LINE_BYTES))
            .ok_or(OutOfMemory)?;
        // Alignment 16 is what the system's calloc gives; more would be zeroed by hand.
        let layout = Layout::from_size_align(bytes, 16).map_err(|_| OutOfMemory)?;
        // SAFETY: the size is not zero.
        let allocation = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(OutOfMemory)?;
        let padding = allocation.align_offset(LINE_BYTES);
        assert!(padding < LINE_BYTES, "byte pointers can be aligned");
        // SAFETY: the padding is less than the line that was allocated in addition.
        let values = unsafe { allocation.add(padding) }.cast();
        Ok(Self { values, count, allocation, layout })
    }

    #[inline(always)]
    fn all(&self) -> &[T] {
        // SAFETY: the memory is aligned, as long as this, lives as long as `self`, and holds
        // zeros, which are valid (see `new`), or what was stored through its atomics.
        unsafe { std::slice::from_raw_parts(self.values.as_ptr(), self.count) }
    }
}

impl<T> Drop for Zeroed<T> {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout; the values have no destructor.
        unsafe { dealloc(self.allocation.as_ptr(), self.layout) }
    }
}

/// All slots of a table, as buckets that begin on a cache line.
pub(crate) struct Slots {
    buckets: Zeroed<Bucket>,
    count: u32,
}

impl Slots {
    pub(crate) fn zeroed(count: u32) -> Result<Self, OutOfMemory> {
        assert!(count > 0, "a table has buckets");
        // SAFETY: a slot is two atomic integers.
        let buckets = unsafe { Zeroed::new(count as usize) }?;
        Ok(Self { buckets, count })
    }

    #[inline]
    pub(crate) fn bucket_count(&self) -> u32 {
        self.count
    }

    #[inline]
    pub(crate) fn bucket(&self, index: u32) -> &Bucket {
        &self.buckets.all()[index as usize]
    }
}

/// The ring words of all slots, one slot's after the other's.
pub(crate) struct RingWords(Option<Zeroed<AtomicU64>>);

impl RingWords {
    pub(crate) fn zeroed(count: usize) -> Result<Self, OutOfMemory> {
        if count == 0 {
            return Ok(Self(None));
        }
        // SAFETY: atomic integers.
        Ok(Self(Some(unsafe { Zeroed::new(count) }?)))
    }

    #[inline]
    pub(crate) fn all(&self) -> &[AtomicU64] {
        self.0.as_ref().map_or(&[], Zeroed::all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_begin_as_zeros_on_a_line_of_their_own() {
        let slots = Slots::zeroed(3).expect("memory");
        for index in 0..3 {
            let bucket = slots.bucket(index);
            assert_eq!(std::ptr::from_ref(bucket).addr() % LINE_BYTES, 0);
            assert!(bucket.iter().all(|slot| !slot.owner().belongs()));
        }
    }

    #[test]
    #[should_panic(expected = "out of bounds")]
    fn a_bucket_out_of_range_is_a_broken_invariant() {
        Slots::zeroed(1).expect("memory").bucket(1);
    }
}
