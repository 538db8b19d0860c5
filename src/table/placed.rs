//! One value made of atomics, in the process's own memory or in a block.

use crossbeam_utils::CachePadded;

use super::memory::OutOfMemory;
use super::source::Source;
use crate::cell::HeadCell;
use crate::sync::SharedValue;

/// A value of which every content is valid, and which has no destructor.
///
/// # Safety
///
/// It is made of atomic integers only.
pub(crate) unsafe trait Atomics {}

// SAFETY: an atomic integer.
unsafe impl Atomics for CachePadded<HeadCell> {}
// SAFETY: an atomic integer.
unsafe impl Atomics for SharedValue {}

// SAFETY: an array of atomic integers, and one.
#[cfg(feature = "shared-memory")]
unsafe impl<const N: usize> Atomics for crate::sync::VersionedCell<N> {}

// SAFETY: atomic integers.
#[cfg(feature = "shared-memory")]
unsafe impl Atomics for crate::time::wall::WallWords {}

#[cfg(not(feature = "shared-memory"))]
mod imp {
    use super::{Atomics, OutOfMemory, Source};

    /// A value in the process's own memory.
    #[derive(Debug)]
    pub(crate) struct Placed<T>(T);

    impl<T: Atomics> Placed<T> {
        #[expect(clippy::unnecessary_wraps, reason = "a block can be too small")]
        pub(crate) fn new(_: &Source, first: T) -> Result<Self, OutOfMemory> {
            Ok(Self(first))
        }
    }

    impl<T> core::ops::Deref for Placed<T> {
        type Target = T;

        #[inline(always)]
        fn deref(&self) -> &T {
            &self.0
        }
    }
}

#[cfg(feature = "shared-memory")]
mod imp {
    use std::ptr::NonNull;
    use std::sync::Arc;

    use super::super::block::{Block, piece_bytes};
    use super::{Atomics, OutOfMemory, Source};
    use crate::sync::{FileLock, InBlock, LockableFile};

    /// A value in a box, or in a block that other processes map.
    pub(crate) struct Placed<T> {
        value: NonNull<T>,
        /// `None`: the value is in a box of its own.
        block: Option<Arc<Block>>,
    }

    // SAFETY: it owns the value, or shares it with processes that access it as atomics only.
    unsafe impl<T: Send + Sync> Send for Placed<T> {}
    // SAFETY: as above.
    unsafe impl<T: Sync> Sync for Placed<T> {}

    impl<T> Placed<T> {
        /// The file of the value's block, if the value is in a block.
        pub(crate) fn file(&self) -> Option<&LockableFile> {
            self.block.as_deref().map(Block::file)
        }
    }

    impl<T: Atomics> Placed<T> {
        /// The part of a block that it takes.
        pub(crate) const BLOCK_BYTES: usize = piece_bytes::<T>(1);

        /// The value `first`, or the one that an attached block holds.
        pub(crate) fn new(source: &Source, first: T) -> Result<Self, OutOfMemory> {
            match source {
                Source::Own(_) => {
                    let value = NonNull::from(Box::leak(Box::new(first)));
                    Ok(Self { value, block: None })
                }
                Source::Block(pieces) => {
                    let value = pieces.take::<T>(1).ok_or(OutOfMemory)?;
                    if pieces.is_new() {
                        // SAFETY: the piece is as large as a `T` and aligned for one, and no other process
                        // can see the block yet.
                        unsafe { value.write(first) };
                    }
                    Ok(Self { value, block: Some(pieces.block()) })
                }
            }
        }
    }

    impl<T: core::fmt::Debug + Send + Sync> InBlock<T> for Placed<T> {
        fn get(&self) -> &T {
            self
        }

        fn try_lock(&self) -> Option<FileLock<'_>> {
            self.file()?.try_lock()
        }
    }

    impl<T> core::ops::Deref for Placed<T> {
        type Target = T;

        #[inline(always)]
        fn deref(&self) -> &T {
            // SAFETY: made in `new` of a box, or of a piece of a block that `self` keeps; a `T` is atomics
            // only, so any content is valid.
            unsafe { self.value.as_ref() }
        }
    }

    impl<T> Drop for Placed<T> {
        fn drop(&mut self) {
            if self.block.is_none() {
                // SAFETY: leaked from a box in `new`.
                drop(unsafe { Box::from_raw(self.value.as_ptr()) });
            }
        }
    }

    impl<T: core::fmt::Debug> core::fmt::Debug for Placed<T> {
        fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
            (**self).fmt(f)
        }
    }
}

pub(crate) use imp::Placed;
