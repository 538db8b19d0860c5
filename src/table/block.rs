//! A block of words that several processes map: the memory of a shared table.
//!
//! The block begins with a [header](crate::limiter::shared), whose words are written before another
//! process can see them. The table's words follow. All of them are atomics, so every content of them is a
//! valid value.
//!
//! This file, `memory.rs` and `placed.rs` hold the unsafe code of the table.
//!
//! # Guarded by
//!
//! `tests/shared_memory/creation.rs` and `ci/check.sh shared-memory`: creators are killed, and no process sees a block
//! without its header.

use std::cell::Cell;
use std::ffi::c_void;
use std::os::fd::AsFd;
use std::ptr::{self, NonNull};
use std::sync::Arc;

#[cfg(target_os = "linux")]
use rustix::mm::{Advice, madvise};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

use crate::sync::{AtomicU64, LockableFile, Ordering};

/// A page, so that the table begins on a page of its own.
pub(crate) const HEADER_BYTES: usize = 4096;
/// Pieces of a block begin at multiples of this, so that no two share a cache line or its neighbour.
const PIECE_ALIGN: usize = 128;
/// Words of the header.
pub(crate) const HEADER_WORDS: usize = HEADER_BYTES / size_of::<u64>();

/// Memory that the system has mapped, until this is dropped.
#[derive(Debug)]
struct Mapping {
    first: NonNull<u8>,
    bytes: usize,
}

// SAFETY: it owns the memory, and accesses none of it.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// # Safety
    ///
    /// The system has mapped this many bytes there, and nothing else unmaps them.
    unsafe fn new(first: *mut c_void, bytes: usize) -> Self {
        Self { first: NonNull::new(first.cast()).expect("a mapping is not at null"), bytes }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped, and nothing borrows it any more. An error would leave it mapped.
        let _ = unsafe { munmap(self.first.as_ptr().cast(), self.bytes) };
    }
}

/// Mapped memory, all of it atomics. It hands out only shared references to them.
#[derive(Debug)]
pub(crate) struct Block {
    mapping: Mapping,
    file: Arc<LockableFile>,
}

impl Block {
    /// The first `bytes` of a file, which has as many.
    pub(crate) fn of_file(file: Arc<LockableFile>, bytes: usize) -> rustix::io::Result<Self> {
        assert!(bytes >= HEADER_BYTES, "a block has a header");
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let (no_address, flags) = (ptr::null_mut(), MapFlags::SHARED);
        // SAFETY: the system chooses an address that is not in use. Other processes change the words, which
        // are atomics.
        let first = unsafe { mmap(no_address, bytes, protection, flags, file.as_fd(), 0) }?;
        // SAFETY: mapped just now.
        Ok(Self { mapping: unsafe { Mapping::new(first, bytes) }, file })
    }

    /// The file that is mapped.
    pub(crate) fn file(&self) -> &LockableFile {
        &self.file
    }

    pub(crate) fn bytes(&self) -> usize {
        self.mapping.bytes
    }

    fn header(&self) -> &[AtomicU64; HEADER_WORDS] {
        // SAFETY: a mapping begins on a page, has a header, and lives as long as `self`. Any word is valid.
        unsafe { self.mapping.first.cast().as_ref() }
    }

    /// A word of the header.
    pub(crate) fn load(&self, word: usize) -> u64 {
        // Acquire: pairs with the Release in `store`. A process that reads the magic word, which is stored
        // last, reads all that was stored before it.
        self.header()[word].load(Ordering::Acquire)
    }

    pub(crate) fn store(&self, word: usize, value: u64) {
        self.header()[word].store(value, Ordering::Release);
    }
}

/// Zeroed memory of this process, which a child that it forks finds zeroed again.
pub(super) struct NotInherited(Mapping);

impl NotInherited {
    /// `None`: the system cannot empty memory for a child, or has none.
    pub(super) fn new(bytes: usize) -> Option<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the system chooses an address that is not in use.
        let first =
            unsafe { mmap_anonymous(ptr::null_mut(), bytes, protection, MapFlags::PRIVATE) };
        // SAFETY: mapped just now.
        let mapping = Self(unsafe { Mapping::new(first.ok()?, bytes) });
        mapping.is_emptied_for_children().then_some(mapping)
    }

    #[cfg(target_os = "linux")]
    fn is_emptied_for_children(&self) -> bool {
        let (first, advice) = (self.0.first.as_ptr().cast(), Advice::LinuxWipeOnFork);
        // SAFETY: this owns the memory, and the advice changes nothing in this process.
        unsafe { madvise(first, self.0.bytes, advice) }.is_ok()
    }

    #[cfg(not(target_os = "linux"))]
    fn is_emptied_for_children(&self) -> bool {
        false
    }

    pub(super) fn first(&self) -> NonNull<u8> {
        self.0.first
    }
}

/// The part of a block that `count` values take.
pub(crate) const fn piece_bytes<T>(count: usize) -> usize {
    assert!(align_of::<T>() <= PIECE_ALIGN, "a piece is aligned for its values");
    match count.saturating_mul(size_of::<T>()).checked_next_multiple_of(PIECE_ALIGN) {
        Some(bytes) => bytes,
        None => usize::MAX,
    }
}

/// A block whose memory is handed out, piece after piece.
#[derive(Debug)]
pub(crate) struct Pieces {
    block: Arc<Block>,
    taken: Cell<usize>,
    is_new: bool,
}

impl Pieces {
    /// `is_new`: no other process can see the block yet, and its memory is zeros.
    pub(crate) fn new(block: Arc<Block>, is_new: bool) -> Self {
        Self { block, taken: Cell::new(HEADER_BYTES), is_new }
    }

    pub(crate) fn is_new(&self) -> bool {
        self.is_new
    }

    pub(super) fn block(&self) -> Arc<Block> {
        Arc::clone(&self.block)
    }

    /// Memory for `count` values. `None`: the block has less.
    pub(super) fn take<T>(&self, count: usize) -> Option<NonNull<T>> {
        let start = self.taken.get();
        let end = start.checked_add(piece_bytes::<T>(count))?;
        if end > self.block.bytes() {
            return None;
        }
        self.taken.set(end);
        // SAFETY: the offset is within the mapping, as was just checked.
        Some(unsafe { self.block.mapping.first.add(start) }.cast())
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    use super::*;

    #[test]
    fn a_block_hands_out_no_more_than_it_has() {
        let file = memfd_create("tollgate-test", MemfdFlags::CLOEXEC).expect("memory");
        ftruncate(&file, 2 * HEADER_BYTES as u64).expect("space");
        let file = Arc::new(LockableFile::new(file.into()));
        let block = Block::of_file(file, 2 * HEADER_BYTES).expect("a mapping");
        let pieces = Pieces::new(Arc::new(block), true);
        // A page, in pieces of 128 bytes.
        assert!(pieces.take::<u64>(HEADER_BYTES / 8 + 1).is_none());
        assert!(pieces.take::<u64>(usize::MAX).is_none());
        let taken = (0..100).take_while(|_| pieces.take::<u64>(1).is_some()).count();
        assert_eq!(taken, HEADER_BYTES / PIECE_ALIGN);
    }

    #[test]
    fn a_piece_of_more_bytes_than_there_are_is_as_long_as_can_be() {
        assert_eq!([1, 16, 17].map(piece_bytes::<u64>), [128, 128, 256]);
        for count in [usize::MAX, usize::MAX / 8 + 1] {
            assert_eq!(piece_bytes::<u64>(count), usize::MAX, "{count:x}");
        }
    }
}
