//! Worker processes. A worker writes the key of each cell that it was granted to its output, a line each.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

use tollgate::shared::Shared;

use crate::{KINDS, quota};

const VARIABLE: &str = "TOLLGATE_TEST_WORKER";

/// The requests that a worker makes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task {
    /// An index of [`KINDS`].
    pub(crate) kind: usize,
    /// The cells of each key.
    pub(crate) limit: u64,
    /// It asks for the keys 0 to this in turn.
    pub(crate) keys: u64,
    /// How often it asks for each.
    pub(crate) rounds: u64,
}

/// A worker process, and the thread that reads what it is granted.
pub(crate) struct Worker {
    child: Child,
    reader: JoinHandle<Vec<usize>>,
}

impl Worker {
    pub(crate) fn start(path: &Path, task: Task) -> Self {
        let Task { kind, limit, keys, rounds } = task;
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "workers::work", "--ignored", "--nocapture"])
            .env(VARIABLE, format!("{kind} {limit} {keys} {rounds} {}", path.display()))
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let reader = std::thread::spawn(move || {
            let lines = output.lines().map_while(Result::ok);
            lines.filter_map(|line| line.strip_prefix('+')?.parse().ok()).collect()
        });
        Self { child, reader }
    }

    /// Kills it at once.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("killed");
    }

    /// The keys of the cells that it was granted, when it has ended. A worker that is killed may leave out
    /// the last.
    pub(crate) fn granted(mut self) -> Vec<usize> {
        self.child.wait().expect("ended");
        self.reader.join().expect("read")
    }
}

/// Does a task, in a process that [`Worker::start`] has started.
#[test]
#[ignore = "the work of a process that other tests start"]
fn work() {
    let task = std::env::var(VARIABLE).expect("started by another test");
    let words: Vec<&str> = task.splitn(5, ' ').collect();
    let [kind, limit, keys, rounds, path] = words[..] else { panic!("not a task: {task}") };
    let number = |word: &str| word.parse::<u64>().expect("a number");
    let kind = KINDS[kind.parse::<usize>().expect("a number")];
    let gate = kind.build(&Shared::file(path), quota(number(limit))).expect("a limiter");
    let mut output = std::io::stdout().lock();
    // Ends the line that the test runner has begun.
    writeln!(output).expect("a pipe");
    for _ in 0..number(rounds) {
        for key in 0..number(keys) {
            if gate.check(&key).is_ok() {
                // Written at once, since standard output ends with the line.
                writeln!(output, "+{key}").expect("a pipe");
            }
        }
    }
}
