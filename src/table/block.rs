//! A block of words that several processes map: the memory of a shared table.
//!
//! The block begins with a [header](crate::limiter::shared), whose words are written before another
//! process can see them. The table's words follow. All of them are atomics, so every content of them is a
//! valid value.
//!
//! This file and `memory.rs` hold the crate's unsafe code.

use std::cell::Cell;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

use crate::sync::{AtomicU64, Ordering};

/// A page, so that the table begins on a page of its own.
pub(crate) const HEADER_BYTES: usize = 4096;
/// Words of the header.
pub(crate) const HEADER_WORDS: usize = HEADER_BYTES / size_of::<u64>();

/// Mapped memory, all of it atomics.
#[derive(Debug)]
pub(crate) struct Block {
    first: NonNull<u8>,
    bytes: usize,
}

// SAFETY: it owns the mapping, and hands out only shared references to atomics in it.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

impl Block {
    /// Zeroed memory that processes forked from this one share with it.
    pub(crate) fn anonymous(bytes: usize) -> rustix::io::Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the system chooses an address that is not in use.
        let first =
            unsafe { mmap_anonymous(ptr::null_mut(), bytes, protection, MapFlags::SHARED) }?;
        Ok(Self::of(first.cast(), bytes))
    }

    /// The first `bytes` of a file, which has as many.
    pub(crate) fn of_file(file: BorrowedFd<'_>, bytes: usize) -> rustix::io::Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: as in `anonymous`. Other processes change the words, which are atomics.
        let first = unsafe { mmap(ptr::null_mut(), bytes, protection, MapFlags::SHARED, file, 0) }?;
        Ok(Self::of(first.cast(), bytes))
    }

    fn of(first: *mut u8, bytes: usize) -> Self {
        assert!(bytes >= HEADER_BYTES, "a block has a header");
        Self { first: NonNull::new(first).expect("a mapping is not at null"), bytes }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    fn header(&self) -> &[AtomicU64; HEADER_WORDS] {
        // SAFETY: a mapping begins on a page, has a header, and lives as long as `self`. Any word is valid.
        unsafe { self.first.cast().as_ref() }
    }

    /// A word of the header.
    pub(crate) fn load(&self, word: usize) -> u64 {
        // Relaxed: whoever maps the block has been handed it after the header was written.
        self.header()[word].load(Ordering::Relaxed)
    }

    pub(crate) fn store(&self, word: usize, value: u64) {
        self.header()[word].store(value, Ordering::Relaxed);
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: mapped by `anonymous` or `of_file`, and nothing borrows it any more. An error would leave
        // it mapped.
        let _ = unsafe { munmap(self.first.as_ptr().cast(), self.bytes) };
    }
}

/// A block whose memory is handed out, piece after piece.
#[derive(Debug)]
pub(crate) struct Pieces {
    block: Arc<Block>,
    taken: Cell<usize>,
}

impl Pieces {
    pub(crate) fn new(block: Arc<Block>) -> Self {
        Self { block, taken: Cell::new(HEADER_BYTES) }
    }

    pub(super) fn block(&self) -> Arc<Block> {
        Arc::clone(&self.block)
    }

    /// The next `bytes` of the block, at a multiple of `align`. `None`: it has less.
    pub(super) fn take(&self, bytes: usize, align: usize) -> Option<NonNull<u8>> {
        let start = self.taken.get().checked_next_multiple_of(align)?;
        let end = start.checked_add(bytes)?;
        if end > self.block.bytes {
            return None;
        }
        self.taken.set(end);
        // SAFETY: the offset is within the mapping, as was just checked.
        Some(unsafe { self.block.first.add(start) })
    }
}
