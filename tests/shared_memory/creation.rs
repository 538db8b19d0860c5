//! Creating a file: it fails with a clear error, and leaves nothing behind.

use std::ffi::{CStr, CString};
use std::fs::{self, OpenOptions};
use std::io;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use tollgate::Limiter;
use tollgate::shared::{Shared, SharedError};

use crate::tally::Tally;
use crate::workers::{Task, Worker, this_test, wait_until};
use crate::{Folder, KINDS, quota, skipped, words};

const VARIABLE: &str = "TOLLGATE_TEST_CREATOR";

/// A process that creates a file for so many keys, and says what came of it.
fn creator(path: &Path, keys: u64, tally: &Tally) -> Command {
    let mut command = this_test("creation::create");
    let task = format!("{keys} {} {}", tally.fd(), path.display());
    command.env(VARIABLE, task).stdout(Stdio::piped());
    command
}

/// Creates a file, in a process that another test has started.
#[test]
#[ignore = "the work of a process that other tests start"]
fn create() {
    let task = std::env::var(VARIABLE).expect("started by another test");
    let words: Vec<&str> = task.splitn(3, ' ').collect();
    let [keys, fd, path] = words[..] else { panic!("not a task: {task}") };
    let keys = keys.parse().expect("a number");
    Tally::inherited(fd.parse::<RawFd>().expect("a number"), 0).set_ready();
    let built = Limiter::<u64>::builder(quota(1)).capacity(keys).build_shared(&Shared::file(path));
    let folder = Path::new(path).parent().expect("a folder");
    let files = fs::read_dir(folder).expect("a folder").count();
    match built {
        Ok(gate) => println!("created, {}, {files} files", gate.check(&7).is_ok()),
        Err(error) => println!("refused, {error}, {files} files"),
    }
}

const SMALL_BYTES: u64 = 64 << 10;

/// A preparation of a process, after which a file in this folder has no room for more than 64 KiB.
type Narrow = fn(&CStr) -> io::Result<()>;

/// Mounts a small file system that only the process sees. It vanishes with the process.
fn small_file_system(folder: &CStr) -> io::Result<()> {
    let (none, private) = (std::ptr::null(), libc::MS_REC | libc::MS_PRIVATE);
    let (kind, size) = (c"tmpfs".as_ptr(), c"size=64k".as_ptr().cast());
    // SAFETY: the strings end with zeros, and the others may be null.
    let is_done = unsafe {
        libc::unshare(libc::CLONE_NEWNS) == 0
            && libc::mount(none, c"/".as_ptr(), none, private, none.cast()) == 0
            && libc::mount(kind, folder.as_ptr(), kind, 0, size) == 0
    };
    if is_done { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Limits the length of any file that the process writes.
fn short_files(_: &CStr) -> io::Result<()> {
    let limit = libc::rlimit { rlim_cur: SMALL_BYTES, rlim_max: SMALL_BYTES };
    // SAFETY: ignoring a signal runs no code of ours; the limit is read only.
    let is_done = unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN) != libc::SIG_ERR
            && libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) == 0
    };
    if is_done { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[test]
fn without_room_creating_is_an_error_that_leaves_no_file() {
    let ways: [(&str, Narrow, &str); 2] = [
        ("a small file system", small_file_system, "No space left on device"),
        ("a limit of the process's files", short_files, "File too large"),
    ];
    for (way, narrow, reason) in ways {
        let folder = Folder::new();
        let path = folder.path();
        let parent = CString::new(path.parent().expect("a folder").as_os_str().as_bytes());
        let parent = parent.expect("no zeros");
        let said = |keys| {
            let tally = Tally::new(0);
            let mut command = creator(&path, keys, &tally);
            let parent = parent.clone();
            // SAFETY: the preparation makes system calls and nothing else.
            unsafe { command.pre_exec(move || narrow(&parent)) };
            let output = command.spawn()?.wait_with_output()?;
            Ok::<_, io::Error>(String::from_utf8_lossy(&output.stdout).into_owned())
        };
        let refused = match said(100_000) {
            Ok(said) => said,
            Err(error) => {
                skipped(&format!("{way} cannot be had here: {error}"));
                continue;
            }
        };
        let error = format!("shared memory: set space aside for the file: {reason}");
        assert!(refused.contains(&format!("refused, {error}")), "{way}: {refused}");
        assert!(refused.contains("check the path, its permissions and its free space, 0 files"));
        let created = said(100).expect("a process, as before");
        assert!(created.contains("created, true, 1 files"), "{way}: {created}");
    }
}

/// Whether the file system has files without names.
fn has_nameless_files(folder: &Path) -> bool {
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(libc::O_TMPFILE).open(folder).is_ok()
}

#[test]
fn a_creator_that_is_killed_leaves_the_whole_file_or_none() {
    // Setting aside so much space takes about ten milliseconds.
    const KEYS: u64 = 2_000_000;
    const ROUNDS: u32 = 16;
    let mut random = words(u64::from(std::process::id()) << 11 | 1);
    let mut without_file = 0;
    // Where other processes take the processors, this one may be late many times, so there are more rounds then.
    for round in 0..100 * ROUNDS {
        if round >= ROUNDS && without_file > 0 {
            return;
        }
        let (folder, tally) = (Folder::new(), Tally::new(0));
        let path = folder.path();
        let parent = path.parent().expect("a folder");
        if !has_nameless_files(parent) {
            skipped(&format!("the file system of {} has no O_TMPFILE", parent.display()));
            return;
        }
        let mut creator = creator(&path, KEYS, &tally).spawn().expect("a process");
        wait_until("a process begins to create a file", || tally.is_ready());
        let pause = (random.next().expect("endless") >> 20) % 30_000;
        std::thread::sleep(Duration::from_micros(if round % ROUNDS == 0 { 0 } else { pause }));
        creator.kill().expect("killed");
        creator.wait().expect("ended");
        let names = folder.names();
        without_file += u32::from(names.is_empty());
        assert!(names.is_empty() || names == ["limits"], "{names:?}");
        let later = Limiter::<u64>::builder(quota(1)).capacity(KEYS);
        let later = later.build_shared(&folder.shared()).expect("attached, or created");
        assert!(later.check(&8).is_ok());
    }
    panic!("none was killed before the file had its name");
}

#[test]
fn a_file_that_is_removed_while_processes_use_it_stays_with_them() {
    const KEYS: u64 = 50;
    let folder = Folder::new();
    let task = Task::in_turn(0, 3_000, KEYS, u64::MAX);
    let start = || {
        let gate = KINDS[0].build(&folder.shared(), quota(3_000)).expect("attached, or created");
        let workers = [(); 2].map(|()| Worker::start(&folder.path(), task));
        workers.iter().for_each(Worker::wait_until_ready);
        (gate, workers)
    };
    let first = start();
    fs::remove_file(folder.path()).expect("removed");
    let second = start();
    for (gate, workers) in [first, second] {
        wait_until("the quota is used up", || (0..KEYS).all(|key| gate.peek(&key).is_err()));
        workers.iter().for_each(|worker| worker.tally.end());
        let granted: u64 = workers.into_iter().flat_map(Worker::granted).sum();
        assert_eq!(granted, 3_000 * KEYS, "each file has the whole quota");
    }
    assert_eq!(folder.names(), ["limits"]);
}

#[test]
fn a_file_from_before_the_machine_was_started_is_refused() {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("Linux has one");
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    for half in [&digits[..16], &digits[16..]] {
        let word = u64::from_str_radix(half, 16).expect("digits").to_ne_bytes();
        let folder = Folder::new();
        let create = || KINDS[0].build(&folder.shared(), quota(1));
        drop(create().expect("created"));
        let file = OpenOptions::new().read(true).write(true).open(folder.path()).expect("a file");
        let mut header = [0; 4_096];
        file.read_exact_at(&mut header, 0).expect("a header");
        let place = header.chunks(8).position(|found| found == word).expect("the boot's identity");
        // As if written in another boot.
        file.write_all_at(&[!word[0]], place as u64 * 8).expect("written");
        let error = create().expect_err("refused");
        assert!(matches!(error, SharedError::OtherBoot), "{error}");
        assert!(error.to_string().ends_with("by another clock: remove it"), "{error}");
        fs::remove_file(folder.path()).expect("removed, as the error says");
        assert!(create().expect("created anew").check(&1).is_ok());
    }
}
