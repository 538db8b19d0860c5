//! A process that was stopped while it holds the lock of a file holds up no decision of the others, and nothing of
//! other files.

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::time::Duration;

use tollgate::Clock;
use tollgate::clock::MonotonicClock;
use tollgate::dynamic::{DynamicGcra, Inherit};
use tollgate::shared::Shared;
use tollgate::{FixedWindow, Limiter};

use crate::workers::wait_until;
use crate::{Folder, KINDS, quota, quota_of};

/// A process that holds the lock of a file until this is dropped.
struct Holder(i32);

impl Holder {
    fn of(file: &File) -> Self {
        let mut ends = [0; 2];
        // SAFETY: a place for two descriptors.
        assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
        let [read, write] = ends;
        let kind = i16::try_from(libc::F_WRLCK).expect("a small number");
        // SAFETY: the child calls the system only, and never returns.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: descriptors of this test, and values that live while the call lasts. All zeros are a lock of
            // the whole file.
            unsafe {
                let mut whole: libc::flock = std::mem::zeroed();
                whole.l_type = kind;
                let locked = libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &raw mut whole) == 0;
                libc::write(write, (&raw const locked).cast(), 1);
                libc::alarm(60);
                loop {
                    libc::pause();
                }
            }
        }
        let mut locked = 0_u8;
        // SAFETY: the pipe of above, and a place for a byte.
        unsafe {
            assert_eq!(libc::read(read, (&raw mut locked).cast(), 1), 1);
            libc::close(read);
            libc::close(write);
        }
        assert_eq!(locked, 1, "the child has the lock");
        Self(child)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // SAFETY: a child of this process, and no place for its status.
        unsafe {
            libc::kill(self.0, libc::SIGKILL);
            libc::waitpid(self.0, std::ptr::null_mut(), 0);
        }
    }
}

fn open(folder: &Folder) -> File {
    OpenOptions::new().read(true).write(true).open(folder.path()).expect("a file")
}

#[test]
fn a_process_stopped_while_it_follows_an_edge_delays_no_decision_of_the_others() {
    const PERIOD: Duration = Duration::from_millis(20);
    let folder = Folder::new();
    let gate = Limiter::<u64>::builder(quota_of(1_000_000, PERIOD))
        .algorithm(FixedWindow::aligned())
        .build_shared(&folder.shared())
        .expect("created");
    assert!(gate.check(&1).is_ok());
    let file = open(&folder);
    let _holder = Holder::of(&file);
    let nanos = || {
        let begun = gate.clock().now().as_nanos();
        assert!(gate.check(&1).is_ok());
        gate.clock().now().as_nanos() - begun
    };
    // The edges that pass are published by none of the decisions that follow them. Any decision may be the one
    // during which a busy machine pauses the thread, but not most of them.
    let (mut first, mut others) = (Vec::new(), Vec::new());
    for _ in 0..9 {
        std::thread::sleep(PERIOD);
        first.push(nanos());
        others.extend((0..20).map(|_| nanos()));
    }
    for mut taken in [first, others] {
        taken.sort_unstable();
        assert!(taken[taken.len() / 2] < 1_000_000, "{taken:?} ns");
        assert!(taken.last().is_some_and(|most| *most < 5_000_000_000), "{taken:?} ns");
    }
}

#[test]
fn a_process_stopped_while_it_creates_a_block_holds_up_only_those_that_attach_it() {
    let (passed, other) = (Folder::new(), Folder::new());
    File::create(passed.path()).expect("a new file");
    let file = open(&passed);
    let holder = Holder::of(&file);
    let dropped = KINDS[0].build(&other.shared(), quota(1)).expect("created");
    let changed = Limiter::<u64>::builder(quota(10)).algorithm(DynamicGcra::new());
    let changed = changed.build_shared(&Shared::anonymous()).expect("memory");
    std::thread::scope(|scope| {
        let attaching = scope.spawn(|| {
            let shared = Shared::descriptor(file.into());
            KINDS[0].build(&shared, quota(3)).map(drop)
        });
        // It waits by now.
        std::thread::sleep(Duration::from_millis(100));
        let dropping = scope.spawn(move || drop(dropped));
        let could_change = changed.set_quota(quota(11), Inherit::Spent);
        let clock = MonotonicClock::new();
        let end = clock.now().saturating_add(Duration::from_secs(10));
        while !dropping.is_finished() && clock.now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
        let could_drop = dropping.is_finished();
        assert!(!attaching.is_finished(), "it waits for the lock");
        // Also if that has failed, so that the test ends.
        drop(holder);
        assert!(could_drop, "a limiter of another file is dropped");
        could_change.expect("a quota of another file is changed");
        wait_until("the lock is free", || attaching.is_finished());
        attaching.join().expect("no panic").expect("attached");
    });
}

#[test]
fn an_attachment_ends_with_an_error_while_a_stopped_process_holds_the_lock() {
    let folder = Folder::new();
    File::create(folder.path()).expect("a new file");
    let file = open(&folder);
    let _holder = Holder::of(&file);
    let error = KINDS[0].build(&Shared::descriptor(file.into()), quota(3)).map(drop);
    let error = error.expect_err("the lock is never free").to_string();
    assert!(error.contains("lock the file: another process holds its lock"), "{error}");
}
