//! Counts in memory that a test shares with a process that it starts. They stay when the process is killed.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// Words before those of the keys.
const HEAD: usize = 8;
const STATE: usize = 0;
const ASKED: usize = 1;
/// The first of the words that a test may use as it likes.
const FREE: usize = 2;

const STARTING: u64 = 0;
const READY: u64 = 1;
const OVER: u64 = 2;

/// The cells that a process asked for and was granted, of each key.
pub(crate) struct Tally {
    memory: OwnedFd,
    words: NonNull<AtomicU64>,
    count: usize,
}

// SAFETY: it owns its mapping, which holds atomics only.
unsafe impl Send for Tally {}
// SAFETY: as above.
unsafe impl Sync for Tally {}

impl Tally {
    /// New memory, which a process that is started later inherits as a descriptor.
    pub(crate) fn new(keys: u64) -> Self {
        // SAFETY: the name ends with a zero. Without MFD_CLOEXEC: the process that is started inherits it.
        let fd = unsafe { libc::memfd_create(c"tally".as_ptr(), 0) };
        assert!(fd >= 0, "{}", io::Error::last_os_error());
        let bytes = libc::off_t::try_from(Self::bytes(keys)).expect("few bytes");
        // SAFETY: a descriptor that was just opened.
        assert_eq!(unsafe { libc::ftruncate(fd, bytes) }, 0);
        Self::map(fd, keys)
    }

    /// The memory of the test that has started this process, which ends with that test.
    pub(crate) fn inherited(fd: RawFd, keys: u64) -> Self {
        // SAFETY: it only tells the system what to do when the thread that started this process ends.
        assert_eq!(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) }, 0);
        Self::map(fd, keys)
    }

    fn bytes(keys: u64) -> usize {
        (HEAD + usize::try_from(keys).expect("few keys")) * size_of::<AtomicU64>()
    }

    fn map(fd: RawFd, keys: u64) -> Self {
        let bytes = Self::bytes(keys);
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the system chooses an address that is not in use.
        let first =
            unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, libc::MAP_SHARED, fd, 0) };
        assert_ne!(first, libc::MAP_FAILED, "{}", io::Error::last_os_error());
        let words = NonNull::new(first.cast()).expect("a mapping is not at null");
        // SAFETY: opened by `new`, here or in the process that has started this one, for this tally only.
        let memory = unsafe { OwnedFd::from_raw_fd(fd) };
        Self { memory, words, count: bytes / size_of::<AtomicU64>() }
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.memory.as_raw_fd()
    }

    fn words(&self) -> &[AtomicU64] {
        // SAFETY: as many words were mapped, for as long as `self`; any content is valid.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr(), self.count) }
    }

    /// A word that a test may use as it likes.
    pub(crate) fn free(&self, index: usize) -> &AtomicU64 {
        &self.words()[FREE..HEAD][index]
    }

    /// Says that the process has attached its limiter.
    pub(crate) fn set_ready(&self) {
        let swap = self.words()[STATE].compare_exchange(
            STARTING,
            READY,
            Ordering::Release,
            Ordering::Relaxed,
        );
        // The test may have ended it already.
        assert!(swap.is_ok() || self.is_over());
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.words()[STATE].load(Ordering::Acquire) != STARTING
    }

    /// Asks the process to end.
    pub(crate) fn end(&self) {
        self.words()[STATE].store(OVER, Ordering::Relaxed);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.words()[STATE].load(Ordering::Relaxed) == OVER
    }

    /// Counts a decision. Cells are counted of the keys that the tally is for.
    pub(crate) fn note(&self, key: u64, is_admitted: bool) {
        let counted = self.words()[HEAD..].get(usize::try_from(key).expect("64 bits"));
        if let Some(cells) = counted.filter(|_| is_admitted) {
            cells.fetch_add(1, Ordering::Relaxed);
        }
        self.words()[ASKED].fetch_add(1, Ordering::Relaxed);
    }

    /// How many decisions were made.
    pub(crate) fn asked(&self) -> u64 {
        self.words()[ASKED].load(Ordering::Relaxed)
    }

    /// The cells that were granted of each key.
    pub(crate) fn granted(&self) -> Vec<u64> {
        self.words()[HEAD..].iter().map(|word| word.load(Ordering::Relaxed)).collect()
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        let bytes = self.count * size_of::<AtomicU64>();
        // SAFETY: mapped by `map`, and nothing borrows it any more.
        assert_eq!(unsafe { libc::munmap(self.words.as_ptr().cast(), bytes) }, 0);
    }
}
