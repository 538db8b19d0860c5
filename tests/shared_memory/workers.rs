//! Worker processes, which count what they are granted in a [`Tally`].

use std::os::fd::RawFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tollgate::Clock;
use tollgate::clock::MonotonicClock;
use tollgate::shared::Shared;

use crate::tally::Tally;
use crate::{KINDS, YEAR, quota_of, words};

const VARIABLE: &str = "TOLLGATE_TEST_WORKER";
/// A process does what it must by then, on a machine that is busy with other work.
const PATIENCE: Duration = Duration::from_secs(60);

/// The requests that a worker makes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task {
    /// An index of [`KINDS`].
    pub(crate) kind: usize,
    /// Of the limiter, in keys.
    pub(crate) capacity: u64,
    /// The cells of each key in a period.
    pub(crate) cells: u64,
    pub(crate) period: Duration,
    /// It asks for the keys 0 to this, whose cells it counts.
    pub(crate) keys: u64,
    /// How often it asks in all.
    pub(crate) asks: u64,
    /// Zero: it asks for these keys in turn. Otherwise for those that [`mixed`] draws from this seed.
    pub(crate) seed: u64,
}

impl Task {
    /// Keys in turn, of which no cell comes back while a test runs.
    pub(crate) fn in_turn(kind: usize, cells: u64, keys: u64, asks: u64) -> Self {
        Self { kind, capacity: 1_000, cells, period: YEAR, keys, asks, seed: 0 }
    }
}

/// So many keys half the time, and a key that is drawn once the other half: what a killed process leaves of it
/// is not finished by a later request for the same key.
fn mixed(seed: u64, keys: u64) -> impl Iterator<Item = u64> {
    words(seed).map(move |word| if word & 1 == 0 { (word >> 32) % keys } else { word | 1 << 63 })
}

/// A worker process.
pub(crate) struct Worker {
    child: Child,
    pub(crate) tally: Tally,
}

impl Worker {
    pub(crate) fn start(path: &Path, task: Task) -> Self {
        let Task { kind, capacity, cells, period, keys, asks, seed } = task;
        let (tally, period) = (Tally::new(keys), period.as_nanos());
        let mut command = this_test("workers::work");
        let numbers =
            format!("{kind} {capacity} {cells} {period} {keys} {asks} {seed} {}", tally.fd());
        let child = command.env(VARIABLE, format!("{numbers} {}", path.display())).spawn();
        Self { child: child.expect("a process"), tally }
    }

    /// Waits until it has attached its limiter.
    pub(crate) fn wait_until_ready(&self) {
        wait_until("a process attaches its limiter", || self.tally.is_ready());
    }

    /// Kills it at once.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("ended");
    }

    /// Stops it, and returns when it stands still.
    pub(crate) fn stop(&self) {
        self.signal(libc::SIGSTOP);
        // SAFETY: all zeros are a value of it.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        let how = libc::WSTOPPED | libc::WEXITED | libc::WNOWAIT;
        // SAFETY: a child of this process, and a place for what the system says.
        let waited = unsafe { libc::waitid(libc::P_PID, self.child.id(), &raw mut info, how) };
        assert_eq!((waited, info.si_code), (0, libc::CLD_STOPPED), "stopped, and not ended");
    }

    /// Lets it go on.
    pub(crate) fn resume(&self) {
        self.signal(libc::SIGCONT);
    }

    fn signal(&self, signal: i32) {
        let process = i32::try_from(self.child.id()).expect("a process's number");
        // SAFETY: a child of this process that was not waited for.
        assert_eq!(unsafe { libc::kill(process, signal) }, 0);
    }

    /// The cells that it was granted of each key, when it has ended by itself.
    pub(crate) fn granted(mut self) -> Vec<u64> {
        let status = self.child.wait().expect("ended");
        assert!(status.success(), "a worker has failed: {status}");
        self.tally.granted()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // A test that fails leaves no process behind. Most have ended by now, which is an error here.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// This program, to run a test that other tests start as a process.
pub(crate) fn this_test(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", name, "--ignored", "--nocapture"]).stdout(Stdio::null());
    command
}

/// Waits for something that happens soon.
pub(crate) fn wait_until(what: &str, mut has_happened: impl FnMut() -> bool) {
    let clock = MonotonicClock::new();
    let end = clock.now().saturating_add(PATIENCE);
    while !has_happened() {
        assert!(clock.now() < end, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_micros(100));
    }
}

/// Adds the cells of each key.
pub(crate) fn add(sum: &mut [u64], granted: &[u64]) {
    sum.iter_mut().zip(granted).for_each(|(sum, granted)| *sum += granted);
}

/// Does a task, in a process that [`Worker::start`] has started.
#[test]
#[ignore = "the work of a process that other tests start"]
fn work() {
    let task = std::env::var(VARIABLE).expect("started by another test");
    let words: Vec<&str> = task.splitn(9, ' ').collect();
    let [kind, capacity, cells, period, keys, asks, seed, fd, path] = words[..] else {
        panic!("not a task: {task}")
    };
    let [capacity, cells, period, keys, asks, seed] = [capacity, cells, period, keys, asks, seed]
        .map(|word| word.parse::<u64>().expect("a number"));
    let kind = KINDS[kind.parse::<usize>().expect("a number")];
    let tally = Tally::inherited(fd.parse::<RawFd>().expect("a number"), keys);
    let quota = quota_of(cells, Duration::from_nanos(period));
    let gate = kind.build_for(capacity, &Shared::file(path), quota).expect("a limiter");
    tally.set_ready();
    let ask = |key| tally.note(key, gate.check(&key).is_ok());
    let is_over = |_: &u64| tally.is_over();
    let asks = usize::try_from(asks).expect("64 bits");
    match seed {
        0 => (0..keys).cycle().take(asks).take_while(|key| !is_over(key)).for_each(ask),
        _ => mixed(seed, keys).take(asks).take_while(|key| !is_over(key)).for_each(ask),
    }
}
