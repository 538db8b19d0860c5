//! Another process holds the lock of a block, as one does that was stopped while it changed the quota.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::fs::{FlockOperation, fcntl_lock};
use tollgate_rules::ReloadError;

use crate::sharing::{Name, admits, left};

const BLOCK: &str = "TOLLGATE_TEST_BLOCK";
const LOCKED: &str = "the block is locked";

/// A process that holds the lock of a block until this is dropped.
struct Holder(Child);

impl Holder {
    fn of(block: &Path) -> Self {
        let mut holder = Command::new(std::env::current_exe().expect("this program"));
        holder.args(["--exact", "held_block::holds_a_block", "--nocapture"]).env(BLOCK, block);
        holder.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut holder = Self(holder.spawn().expect("it starts"));
        let mut lines = BufReader::new(holder.0.stdout.as_mut().expect("it is piped")).lines();
        assert!(lines.any(|line| line.expect("UTF-8").contains(LOCKED)), "it has the lock");
        holder
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Does nothing by itself: the process of a [`Holder`] runs it, until its standard input ends.
#[test]
fn holds_a_block() {
    let Some(block) = std::env::var_os(BLOCK) else { return };
    let file = OpenOptions::new().read(true).write(true).open(block).expect("a block");
    fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive).expect("it is free");
    println!("{LOCKED}");
    let _ = std::io::stdin().read(&mut [0]);
}

/// The block of a rule with one limit.
fn block_of(name: &Name, rule: &str) -> PathBuf {
    let mut entries = std::fs::read_dir(name.folder()).expect("a folder");
    let is_of_rule = |path: &PathBuf| {
        let file = path.file_name().expect("it has a name").to_string_lossy();
        file.starts_with(&format!("{rule}."))
    };
    entries.find_map(|entry| Some(entry.expect("an entry").path()).filter(is_of_rule)).expect("it")
}

#[test]
fn a_reload_that_waits_for_one_block_leaves_the_quotas_of_all_as_they_were() {
    let rules = |one: &str, other: &str| {
        format!("limits = \"{one}\" }}, {{ name = \"b\", key = \"none\", limits = \"{other}\"")
    };
    let name = Name::new();
    let (path, mut file) = name.file(0, &rules("5/d", "50/d"));
    let other = name.build(&rules("5/d", "50/d"));
    assert_eq!(left(&other), 5);
    let holder = Holder::of(&block_of(&name, "b"));
    std::fs::write(&path, name.text(&rules("9/d", "90/d"))).expect("written");
    let admitted = std::thread::scope(|scope| {
        let polled = scope.spawn(|| file.poll());
        let mut admitted = 0;
        while !polled.is_finished() {
            admitted += usize::from(admits(&other, 1));
            std::thread::sleep(Duration::from_millis(1));
        }
        let polled = polled.join().expect("no panic");
        assert!(matches!(polled, Err(ReloadError::Build(_))), "{polled:?}");
        admitted
    });
    assert_eq!((admitted, left(&other)), (0, 0), "the first rule counts by its old quota");
    drop(holder);
    assert!(file.poll().expect("the lock is free").is_some());
    assert_eq!(left(&other), 4);
    std::fs::remove_file(path).expect("removed");
}
