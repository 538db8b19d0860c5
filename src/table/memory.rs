//! The slots' memory: taken once, zeroed by the system, touched only as keys arrive.
//!
//! This is the crate's only unsafe code. A table of a million keys is 29 MB; writing zeros into
//! it would take milliseconds and make all of it resident before the first request. Memory that
//! the system hands out zeroed costs neither, but atomics cannot be made of it safely. (An
//! allocation of the buckets' own alignment is no way out: such memory is zeroed by hand.)

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

use super::layout::{BUCKET, Slot};

/// The system has no memory for the table.
#[derive(Debug)]
pub(crate) struct OutOfMemory;

type Bucket = [Slot; BUCKET];

/// Buckets begin at a cache line, so that the first four slots share one.
const LINE_BYTES: usize = 64;
const BUCKET_BYTES: usize = size_of::<Bucket>();
const _: () = assert!(BUCKET_BYTES == 2 * LINE_BYTES);

/// All slots of a table, as buckets that begin on a cache line.
pub(crate) struct Slots {
    buckets: NonNull<Bucket>,
    count: u32,
    allocation: NonNull<u8>,
    layout: Layout,
}

// SAFETY: `Slots` owns its memory, and hands out only shared references to atomics in it.
unsafe impl Send for Slots {}
// SAFETY: as above.
unsafe impl Sync for Slots {}

impl Slots {
    pub(crate) fn zeroed(count: u32) -> Result<Self, OutOfMemory> {
        assert!(count > 0, "a table has buckets");
        let bytes = (count as usize)
            .checked_mul(BUCKET_BYTES)
            .and_then(|bytes| bytes.checked_add(LINE_BYTES))
            .ok_or(OutOfMemory)?;
        // Alignment 16 is what the system's calloc gives; more would be zeroed by hand.
        let layout = Layout::from_size_align(bytes, 16).map_err(|_| OutOfMemory)?;
        // SAFETY: the size is not zero.
        let allocation = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(OutOfMemory)?;
        let padding = allocation.align_offset(LINE_BYTES);
        assert!(padding < LINE_BYTES, "byte pointers can be aligned");
        // SAFETY: the padding is less than the line that was allocated in addition.
        let buckets = unsafe { allocation.add(padding) }.cast();
        Ok(Self { buckets, count, allocation, layout })
    }

    #[inline]
    pub(crate) fn bucket_count(&self) -> u32 {
        self.count
    }

    #[inline]
    pub(crate) fn bucket(&self, index: u32) -> &Bucket {
        assert!(index < self.count);
        // SAFETY: `index` is in range; the memory is aligned, lives as long as `self`, and holds
        // zeros or what was stored through these atomics; a slot of zeros is a valid slot.
        unsafe { self.buckets.add(index as usize).as_ref() }
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        // SAFETY: allocated in `zeroed` with this layout; slots have no destructor.
        unsafe { dealloc(self.allocation.as_ptr(), self.layout) }
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
    #[should_panic(expected = "index < self.count")]
    fn a_bucket_out_of_range_is_a_broken_invariant() {
        Slots::zeroed(1).expect("memory").bucket(1);
    }
}
