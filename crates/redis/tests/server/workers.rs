//! Worker processes of a test: this program again, running one of its tests that does nothing by
//! itself.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tollgate_redis::{Store, StoreBuilder};

use crate::harness::{Server, with_long_deadline};

const URL: &str = "TOLLGATE_TEST_URL";
const WORKERS: &str = "TOLLGATE_TEST_WORKERS";
const TOGETHER_MAX: Duration = Duration::from_secs(30);

/// A process, killed when dropped.
pub(crate) struct Worker(Child);

impl Worker {
    /// Starts one of `of` workers, which wait for each other and then run the named test.
    pub(crate) fn start(server: &Server, test: &str, of: u32) -> Self {
        let mut worker = Command::new(std::env::current_exe().expect("this program"));
        worker.args(["--exact", test, "--nocapture", "--test-threads", "1"]);
        worker.env(URL, server.url()).env(WORKERS, of.to_string()).stdout(Stdio::piped());
        Self(worker.spawn().expect("it starts"))
    }

    /// Waits for its end, and returns the numbers that it has [reported](report).
    pub(crate) fn numbers(mut self) -> Vec<u64> {
        let mut text = String::new();
        let stdout = self.0.stdout.as_mut().expect("it is piped");
        stdout.read_to_string(&mut text).expect("UTF-8");
        assert!(self.0.wait().expect("it exits").success());
        text.lines().find_map(numbers).expect("its numbers")
    }

    /// Waits for its numbers, while it goes on.
    pub(crate) fn numbers_so_far(&mut self) -> Vec<u64> {
        let mut lines = BufReader::new(self.0.stdout.as_mut().expect("it is piped")).lines();
        lines.find_map(|line| numbers(&line.expect("UTF-8"))).expect("its numbers")
    }

    /// Waits for its numbers, and kills it with signal 9.
    pub(crate) fn numbers_and_kill(mut self) -> Vec<u64> {
        let found = self.numbers_so_far();
        self.0.kill().expect("it is ours");
        assert!(!self.0.wait().expect("it exits").success(), "it was killed");
        found
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// In a worker: the store to use, once all workers have started. `None` in any other process.
pub(crate) fn store() -> Option<Store> {
    store_with(|store| store)
}

pub(crate) fn store_with(change: impl FnOnce(StoreBuilder) -> StoreBuilder) -> Option<Store> {
    let url = std::env::var(URL).ok()?;
    let of: u32 = std::env::var(WORKERS).ok()?.parse().expect("a number");
    let client = redis::Client::open(&*url).expect("a URL");
    let mut connection = client.get_connection().expect("it runs");
    let count = |by: u32, connection: &mut redis::Connection| -> u32 {
        redis::cmd("INCRBY").arg("workers").arg(by).query(connection).expect("a number")
    };
    let mut here = count(1, &mut connection);
    let began = Instant::now();
    while here < of {
        assert!(began.elapsed() < TOGETHER_MAX, "the other workers do not start");
        std::thread::sleep(Duration::from_millis(1));
        here = count(0, &mut connection);
    }
    Some(change(with_long_deadline(Store::builder(url))).build().expect("a store"))
}

/// In a worker: reports its result.
pub(crate) fn report(numbers: &[u64]) {
    let text: Vec<_> = numbers.iter().map(ToString::to_string).collect();
    println!("\nnumbers: {}", text.join(" "));
}

fn numbers(line: &str) -> Option<Vec<u64>> {
    let (_, text) = line.split_once("numbers: ")?;
    Some(text.split(' ').map(|number| number.parse().expect("a number")).collect())
}

/// A runtime with this many threads.
pub(crate) fn runtime(threads: usize) -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(threads).enable_all().build().expect("a runtime")
}
