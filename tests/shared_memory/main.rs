//! Limiters that several processes share, with real processes.
//!
//! A test starts this program again, to run [`workers::work`] in it. The tests use calls of Linux, such as
//! `memfd_create` and `prctl`.
#![cfg(target_os = "linux")]

mod attach;
#[path = "../bodies/block.rs"]
mod body;
mod changes;
mod clocks;
mod creation;
mod describe;
mod forks;
mod garbage;
mod kills;
mod locks;
mod others;
mod quotas;
#[path = "../../fuzz/seeds.rs"]
mod seeds;
mod stops;
mod tally;
mod workers;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tollgate::clock::MonotonicClock;
use tollgate::limiter::SlotLayout;
use tollgate::shared::{Shared, SharedError};
use tollgate::{AnyAlgorithm, Limiter, OnFull, Quota};

/// Says why a test is skipped. The test harness discards what a test that passes has printed, but not what it
/// writes to standard error by itself.
fn skipped(why: &str) {
    // A test is no worse if this cannot be read.
    let _ = writeln!(std::io::stderr(), "SKIPPED: {why}");
}

type Gate = Limiter<u64, AnyAlgorithm, MonotonicClock>;

/// A kind of limiter.
#[derive(Clone, Copy, Debug)]
struct Kind {
    algorithm: &'static str,
    slots: SlotLayout,
}

const fn kind(algorithm: &'static str, slots: SlotLayout) -> Kind {
    Kind { algorithm, slots }
}

const KINDS: [Kind; 9] = [
    kind("gcra", SlotLayout::Wide),
    kind("gcra", SlotLayout::Compact),
    kind("leaky-queue", SlotLayout::Compact),
    kind("fixed-window", SlotLayout::Wide),
    kind("fixed-window", SlotLayout::Compact),
    kind("sub-windows", SlotLayout::Wide),
    kind("sliding-counter", SlotLayout::Wide),
    kind("sliding-log", SlotLayout::Wide),
    kind("fixed-window-aligned", SlotLayout::Wide),
];

/// A period of which no test sees the end.
const YEAR: Duration = Duration::from_secs(365 * 24 * 3_600);

/// So many cells, of which none comes back while a test runs.
fn quota(cells: u64) -> Quota {
    quota_of(cells, YEAR)
}

/// So many cells in a period, all of them at once.
fn quota_of(cells: u64, period: Duration) -> Quota {
    Quota::new(cells, period).burst(cells)
}

impl Kind {
    fn build(self, shared: &Shared, quota: Quota) -> Result<Gate, SharedError> {
        self.build_for(1_000, shared, quota)
    }

    /// For so many keys.
    fn build_for(self, keys: u64, shared: &Shared, quota: Quota) -> Result<Gate, SharedError> {
        let algorithm: AnyAlgorithm = self.algorithm.parse().expect("an algorithm");
        Limiter::builder(quota)
            .algorithm(algorithm)
            .slots(self.slots)
            .capacity(keys)
            .on_full(OnFull::Deny)
            .build_shared(shared)
    }
}

/// Arbitrary words, the same ones for a seed each time.
fn words(seed: u64) -> impl Iterator<Item = u64> {
    let mut state = seed;
    std::iter::repeat_with(move || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        state ^ state >> 29
    })
}

/// The counts that so many forked children return, each below 256.
fn forked<const N: usize>(_: [(); N], work: impl Fn() -> usize) -> [usize; N] {
    let children = [(); N].map(|()| {
        // SAFETY: the child works, and ends at once. No other thread of the parent holds a lock that it needs:
        // it decides, which takes none, and allocates, which the C library allows after a fork.
        match unsafe { libc::fork() } {
            0 => {
                let count = work();
                // SAFETY: it ends the child without running what other threads have registered.
                unsafe { libc::_exit(i32::try_from(count).expect("a small count")) }
            }
            child => child,
        }
    });
    children.map(|child| {
        let mut status = 0;
        // SAFETY: a child of this process, and a place for its status.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert!(libc::WIFEXITED(status), "the child ended by itself");
        usize::try_from(libc::WEXITSTATUS(status)).expect("a count")
    })
}

/// A new folder in memory, which is removed with everything in it when this is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let shm = Path::new("/dev/shm");
        let parent = if shm.is_dir() { shm.to_owned() } else { std::env::temp_dir() };
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("tollgate-test-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).expect("a new folder");
        Self(path)
    }

    fn path(&self) -> PathBuf {
        self.0.join("limits")
    }

    fn shared(&self) -> Shared {
        Shared::file(self.path())
    }

    /// The names of the files in it.
    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).expect("a folder");
        entries.map(|entry| entry.expect("an entry").file_name().into_string().unwrap()).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).expect("removed");
    }
}
