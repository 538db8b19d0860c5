//! The servers and links of one episode.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::{Duration, Instant, SystemTime};

use tollgate_redis::Store;

use super::fault::Kind;
use super::strategy::{KEY, RATE, Strategy};
use crate::harness::{PATIENCE, Server, binary, skipped};
use crate::proxy::Proxy;

const DEADLINE: Duration = Duration::from_millis(60);
/// The time in which one cell comes back.
const CELL_MICROS: u64 = 1_000_000 / RATE;

pub(crate) struct Topology {
    pub(crate) server: Server,
    /// The link that clients use.
    pub(crate) link: Proxy,
    /// The link of the second node. Faults of links happen to the first one only.
    pub(crate) second_link: Proxy,
    pub(crate) replica: Option<Replica>,
    pub(crate) clock: Option<Clock>,
}

pub(crate) struct Replica {
    pub(crate) server: Server,
    /// The link through which it follows the server.
    pub(crate) link: Proxy,
}

/// Whether a server can be started.
pub(crate) fn is_there() -> bool {
    Server::start().is_some()
}

impl Topology {
    /// `None` if the fault needs a program that is not installed.
    pub(crate) fn set(kind: Kind) -> Option<Self> {
        let clock = match kind {
            Kind::ServerClock => Some(Clock::found()?),
            _ => None,
        };
        let server = match (kind, &clock) {
            (Kind::KillKept, _) => {
                Server::start_with(&["--appendonly", "yes", "--appendfsync", "always"])
            }
            (_, Some(clock)) => Server::start_in(&[], &clock.variables),
            _ => Server::start_with(&["--repl-diskless-sync-delay", "0"]),
        }?;
        if let Some(clock) = &clock {
            clock.set_of(&server, 3_600_000);
            clock.set_of(&server, 0);
        }
        let [link, second_link] = [(); 2].map(|()| Proxy::to(server.port()));
        let replica = (kind == Kind::FailOver).then(|| Replica::of(&server));
        Some(Self { server, link, second_link, replica, clock })
    }

    /// The links that clients use, in turn.
    pub(crate) fn links(&self, strategy: Strategy) -> Vec<&Proxy> {
        match strategy {
            // While one node is cut off, the other stays connected.
            Strategy::Share => vec![&self.link, &self.second_link],
            _ => vec![&self.link],
        }
    }
}

pub(crate) fn store(link: &Proxy) -> Store {
    let store = Store::builder(link.url()).deadline(DEADLINE).connect_timeout(DEADLINE);
    store.probe_every(Duration::from_millis(100)).build().expect("a store")
}

impl Replica {
    fn of(leader: &Server) -> Self {
        let server =
            Server::start_with(&["--repl-diskless-sync-delay", "0"]).expect("as the first");
        let link = Proxy::to(leader.port());
        let mut admin = server.admin();
        let mut follow = redis::cmd("REPLICAOF");
        let _: () = follow.arg("127.0.0.1").arg(link.port()).query(&mut admin).expect("it");
        let began = Instant::now();
        loop {
            let info: String = redis::cmd("INFO").arg("replication").query(&mut admin).expect("it");
            if info.contains("master_link_status:up") {
                return Self { server, link };
            }
            assert!(began.elapsed() < Duration::from_secs(20), "it does not follow");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// How many cells of the common key are charged now, rounded up.
pub(crate) fn owed(server: &Server) -> u64 {
    let mut admin = server.admin();
    let places: Vec<String> =
        redis::cmd("KEYS").arg(format!("*:{KEY}}}")).query(&mut admin).expect("keys");
    let Some(place) = places.first() else { return 0 };
    if place.contains(":counts") {
        let mut used = redis::cmd("HGET");
        return used.arg(place).arg("used").query(&mut admin).expect("a number");
    }
    let state: String = redis::cmd("GET").arg(place).query(&mut admin).expect("a state");
    // When it was written, and the debt of that moment: see `src/lua/gcra.lua`.
    let numbers = state.split([' ', '+']).map(|text| text.parse::<u64>().expect("micros"));
    let full_at: u64 = numbers.take(2).sum();
    (full_at + 1).saturating_sub(now_micros(server)).div_ceil(CELL_MICROS)
}

/// The last heartbeat of each node, in microseconds.
pub(crate) fn last_heartbeats(server: &Server) -> Vec<(String, u64)> {
    let mut admin = server.admin();
    let places: Vec<String> =
        redis::cmd("KEYS").arg("*:nodes}:heard").query(&mut admin).expect("keys");
    let mut all = redis::cmd("ZRANGE");
    places.first().map_or_else(Vec::new, |place| {
        let all = all.arg(place).arg(0).arg(-1).arg("WITHSCORES");
        all.query(&mut admin).expect("nodes")
    })
}

fn now_micros(server: &Server) -> u64 {
    let (secs, micros): (u64, u64) = redis::cmd("TIME").query(&mut server.admin()).expect("a time");
    secs * 1_000_000 + micros
}

/// A clock of the server's own, by libfaketime.
pub(crate) struct Clock {
    /// The file that says how far the clock is ahead of the machine's.
    file: PathBuf,
    variables: Vec<(String, String)>,
}

impl Clock {
    fn found() -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let places = fs::read_dir("/usr/lib").ok()?.filter_map(Result::ok);
        let library = "faketime/libfaketimeMT.so.1";
        let mut found = places.map(|place| place.path().join(library)).filter(|path| path.exists());
        let Some(found) = found.next() else {
            skipped("jumps of a server's clock need libfaketime: apt-get install faketime");
            return None;
        };
        // The allocator of Debian's Redis asks for the time before libfaketime is ready, and libfaketime
        // asks the allocator for memory, so both hang. With the C library's own allocator both work.
        let preloaded = format!("{} libc.so.6", found.to_str()?);
        let number = NEXT.fetch_add(1, SeqCst);
        let file = format!("tollgate-clock-{}-{number}", std::process::id());
        let file = std::env::temp_dir().join(file);
        let variables = [
            ("LD_PRELOAD", preloaded.as_str()),
            ("FAKETIME_TIMESTAMP_FILE", file.to_str()?),
            ("FAKETIME_NO_CACHE", "1"),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let clock = Self { file, variables };
        clock.write(0);
        static IS_BORNE: OnceLock<bool> = OnceLock::new();
        IS_BORNE.get_or_init(|| clock.is_borne()).then_some(clock)
    }

    /// Whether the server runs with it at all. A server that is linked to another allocator may
    /// hang for ever.
    fn is_borne(&self) -> bool {
        let mut trial = Command::new(binary());
        trial.arg("--version").envs(self.variables.iter().cloned());
        let trial = trial.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut trial = trial.expect("the binary exists");
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(3) {
            if let Ok(Some(status)) = trial.try_wait() {
                return status.success();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = trial.kill();
        let _ = trial.wait();
        let binary = binary();
        skipped(&format!("jumps of a server's clock: libfaketime does not work with {binary}"));
        false
    }

    /// Sets the clock of a server, and waits until the server follows.
    pub(crate) fn set_of(&self, server: &Server, ahead_millis: i64) {
        self.write(ahead_millis);
        let began = Instant::now();
        let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
        let unix = i64::try_from(unix.as_micros()).expect("in range");
        loop {
            let there = i64::try_from(now_micros(server)).expect("in range");
            let passed = i64::try_from(began.elapsed().as_micros()).expect("short");
            if (there - unix - passed - ahead_millis * 1_000).abs() < 500 {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "the server's clock does not follow");
        }
    }

    fn write(&self, ahead_millis: i64) {
        let (sign, millis) =
            (if ahead_millis < 0 { '-' } else { '+' }, ahead_millis.unsigned_abs());
        let text = format!("{sign}{}.{:03}\n", millis / 1_000, millis % 1_000);
        // Replaced in one step, because the server may read the file at any time.
        let whole = self.file.with_extension("whole");
        fs::write(&whole, text).expect("a directory for files of the moment");
        fs::rename(&whole, &self.file).expect("the same directory");
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.file);
    }
}
