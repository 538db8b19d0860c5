//! A server of the test's own, on a free port, which ends with the test.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tollgate_redis::{Store, StoreBuilder};

/// A server other than `redis-server`, for example the path of a `valkey-server`.
const BINARY: &str = "TOLLGATE_TEST_SERVER";
/// The longest wait of any step of a test. No test measures it; it only ends a test that would hang.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
const START_MAX: Duration = Duration::from_secs(20);

/// Says why a test is skipped. The test harness discards what a test that passes has printed, but not what it
/// writes to standard error by itself.
pub(crate) fn skipped(why: &str) {
    // A test is no worse if this cannot be read.
    let _ = writeln!(std::io::stderr(), "SKIPPED: {why}");
}

pub(crate) fn binary() -> String {
    std::env::var(BINARY).unwrap_or_else(|_| "redis-server".to_owned())
}

/// A `redis-server`, killed when dropped.
pub(crate) struct Server {
    port: u16,
    directory: PathBuf,
    options: Vec<String>,
    environment: Vec<(String, String)>,
    process: Option<Child>,
}

impl Server {
    /// A server that keeps nothing on disk. `None` if there is no binary and none is required.
    pub(crate) fn start() -> Option<Self> {
        Self::start_with(&[])
    }

    pub(crate) fn start_with(options: &[&str]) -> Option<Self> {
        Self::start_in(options, &[])
    }

    /// A server whose process has these environment variables in addition.
    pub(crate) fn start_in(options: &[&str], environment: &[(String, String)]) -> Option<Self> {
        let binary = binary();
        if Command::new(&binary).arg("--version").stdout(Stdio::null()).status().is_err() {
            let advice = format!("there is no {binary}: apt-get install redis-server");
            let required = ["CI", "TOLLGATE_REQUIRE_REDIS"];
            assert!(required.iter().all(|name| std::env::var_os(name).is_none()), "{advice}");
            skipped(&advice);
            return None;
        }
        for _ in 0..5 {
            let mut server = Self {
                port: free_port(),
                directory: fresh_directory(),
                options: options.iter().map(ToString::to_string).collect(),
                environment: environment.to_vec(),
                process: None,
            };
            if server.run() {
                return Some(server);
            }
        }
        panic!("{binary} does not start: run it by hand to see why");
    }

    /// Starts the server again on its port, without its data.
    pub(crate) fn restart(&mut self) {
        self.kill();
        assert!(self.run(), "it does not start again on port {}", self.port);
    }

    pub(crate) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            // A stopped process also dies of this signal.
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Sends it a signal, for example `STOP`.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.process.as_ref().expect("it runs").id();
        let sent = Command::new("sh").arg("-c").arg(format!("kill -{name} {pid}")).status();
        assert!(sent.is_ok_and(|status| status.success()), "kill -{name}");
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// A store with a deadline that a busy machine meets.
    pub(crate) fn store(&self) -> StoreBuilder {
        with_long_deadline(Store::builder(self.url()))
    }

    /// A plain connection, to inspect and to disturb.
    pub(crate) fn admin(&self) -> redis::Connection {
        let client = redis::Client::open(self.url()).expect("a URL");
        client.get_connection().expect("it runs")
    }

    /// Makes the server close all connections but this one.
    pub(crate) fn kill_clients(&self) {
        let mut kill = redis::cmd("CLIENT");
        let kill = kill.arg("KILL").arg("TYPE").arg("normal").arg("SKIPME").arg("yes");
        let _: u32 = kill.query(&mut self.admin()).expect("a count");
        closes_are_heard_of(self.port);
    }

    /// Waits until the server has no client but this one, and the others have received the close.
    pub(crate) fn has_closed_all_others(&self) {
        let mut admin = self.admin();
        let began = Instant::now();
        loop {
            let clients: String =
                redis::cmd("CLIENT").arg("LIST").query(&mut admin).expect("a list");
            if clients.lines().count() == 1 {
                return closes_are_heard_of(self.port);
            }
            assert!(began.elapsed() < Duration::from_secs(20), "clients stay: {clients}");
            sleep(Duration::from_millis(5));
        }
    }

    fn run(&mut self) -> bool {
        let log = fs::File::create(self.directory.join("log")).expect("a directory of our own");
        let process = Command::new(binary())
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .args(["--port", &self.port.to_string(), "--bind", "127.0.0.1"])
            .args(["--save", "", "--appendonly", "no"])
            .args(["--dir", self.directory.to_str().expect("UTF-8")])
            .args(&self.options)
            .stdout(log)
            .stderr(Stdio::null())
            .spawn();
        self.process = Some(process.expect("the binary exists"));
        let began = Instant::now();
        while began.elapsed() < START_MAX {
            let process = self.process.as_mut().expect("just spawned");
            if !matches!(process.try_wait(), Ok(None)) {
                return false;
            }
            let pid = process.id();
            if is_served_by(&self.url(), pid) {
                return true;
            }
            sleep(Duration::from_millis(5));
        }
        false
    }
}

/// Whether this process answers at the URL. A server accepts connections before it has opened all
/// of its sockets, and the server of another test may have taken the port.
fn is_served_by(url: &str, pid: u32) -> bool {
    let client = redis::Client::open(url).expect("a URL");
    let Ok(mut connection) = client.get_connection_with_timeout(Duration::from_secs(1)) else {
        return false;
    };
    let info: Result<String, _> = redis::cmd("INFO").arg("server").query(&mut connection);
    match info {
        Ok(info) => info.lines().any(|line| line == format!("process_id:{pid}")),
        // The server requires a password.
        Err(error) => error.code() == Some("NOAUTH"),
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// A deadline that a busy machine meets, for tests that are not about deadlines.
pub(crate) fn with_long_deadline(store: StoreBuilder) -> StoreBuilder {
    store.deadline(Duration::from_secs(5)).connect_timeout(Duration::from_secs(5))
}

/// Runs a future on this thread's runtime, and so on this test's, because a store belongs to one
/// runtime.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    thread_local! {
        static RUNTIME: tokio::runtime::Runtime = {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime")
        };
    }
    RUNTIME.with(|runtime| runtime.block_on(future))
}

/// Waits until the peers of all connections closed at this port have acknowledged the close: then
/// no connection is in the state `FIN_WAIT1`. Without `/proc`, it waits for a fixed moment.
pub(crate) fn closes_are_heard_of(port: u16) {
    const LOCAL_ADDRESS: usize = 1;
    const STATE: usize = 3;
    let at_port = format!(":{port:04X}");
    let is_on_its_way = |line: &str| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let [address, state] = [LOCAL_ADDRESS, STATE].map(|field| fields.get(field));
        address.is_some_and(|it| it.ends_with(&at_port)) && state == Some(&"04")
    };
    let began = Instant::now();
    while began.elapsed() < START_MAX {
        match fs::read_to_string("/proc/net/tcp") {
            Ok(table) if table.lines().any(is_on_its_way) => sleep(Duration::from_millis(1)),
            Ok(_) => return,
            Err(_) => return sleep(Duration::from_millis(50)),
        }
    }
    panic!("a close at port {port} is not acknowledged");
}

include!("../../../../tests/bodies/free_port.rs");

fn fresh_directory() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("tollgate-redis-{}-{number}", std::process::id());
    let directory = std::env::temp_dir().join(name);
    fs::create_dir_all(&directory).expect("a directory of our own");
    directory
}
