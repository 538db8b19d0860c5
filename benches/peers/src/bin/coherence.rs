//! Counts what a decision costs the caches of other cores.
//!
//! `coherence` prints a table. It runs itself under valgrind, where threads decide by turns, and replays
//! the accesses of each decision through the caches of as many cores. `coherence TEXT` does that for the
//! limiters whose names contain the text. The clock is the limiter's own.

use std::borrow::Borrow;
use std::hint::black_box;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering, compiler_fence};
use std::sync::mpsc::{Receiver, Sender, channel};

use tollgate::{Gcra, Limiter};
use tollgate_benches::keys;
use tollgate_peers::coherence::{MARK_BYTES, Replay, parse};
use tollgate_peers::forms::Form;
use tollgate_peers::limiters::{self, quota};
use tollgate_peers::peer::{Keyed, Visitor};
use tollgate_peers::plan::Plan;

const THREADS: [u32; 3] = [2, 8, 64];
const KEYS: usize = 1_000;
/// Keys that are asked for in the case of many. All threads have used each before decisions are counted.
const ASKED: u64 = 32; // a power of two
/// Cells of all leases together: 1,024 for each of 64 threads.
const LEASED: u64 = 65_536;
const LEASES: &str = "tollgate, a lease for each thread";

/// The keys that the threads ask for, and the answer that they get.
#[derive(Clone, Copy, PartialEq)]
enum Case {
    HotAdmitted,
    HotDenied,
    ManyAdmitted,
}

const CASES: [(Case, &str); 3] = [
    (Case::HotAdmitted, "one key, admitted"),
    (Case::HotDenied, "one key, denied"),
    (Case::ManyAdmitted, "32 of 1,000 keys, admitted"),
];

impl Case {
    fn plan(self) -> Plan {
        if self == Self::HotDenied { Plan::hourly(2) } else { Plan::roomy() }
    }

    /// The key of a thread's decision.
    fn rank(self, thread: u32, round: u32) -> usize {
        match self {
            Self::ManyAdmitted => {
                let mixed = keys::key((thread * 1_000 + round) as usize);
                usize::try_from(mixed >> (u64::BITS - ASKED.ilog2())).expect("few")
            }
            Self::HotAdmitted | Self::HotDenied => 0,
        }
    }
}

/// Decisions of each thread that are not counted, and that are.
fn rounds(threads: u32) -> (u32, u32) {
    ((128 / threads).max(4), (128 / threads).max(16))
}

fn main() -> io::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [command, name, case, threads] = &args[..]
        && command == "decide"
    {
        let (case, threads) = (case.parse::<usize>(), threads.parse());
        let (Ok(case), Ok(threads)) = (case, threads) else {
            return Err(io::Error::other("decide NAME CASE THREADS"));
        };
        decide(name, CASES[case].0, threads);
        return Ok(());
    }
    let wanted = args.first().map_or("", String::as_str);
    print_tables(&names().into_iter().filter(|name| name.contains(wanted)).collect::<Vec<_>>())
}

/// A list of all limiters' names.
struct Names(Vec<&'static str>);

impl Visitor for Names {
    fn keyed<P: Keyed>(&mut self) {
        self.0.push(P::NAME);
    }
}

fn names() -> Vec<&'static str> {
    let mut names = Names(Vec::new());
    limiters::each(&mut names);
    names.0.insert(1, LEASES);
    names.0
}

fn print_tables(names: &[&str]) -> io::Result<()> {
    for (index, (case, title)) in CASES.iter().enumerate() {
        println!("\n## {title}\n\n| limiter | 2 threads | 8 | 64 |\n|---|---|---|---|");
        for name in names.iter().filter(|name| **name != LEASES || *case == Case::HotAdmitted) {
            print!("| {name}");
            for threads in THREADS {
                let replay = measure(name, index, threads)?;
                let each = |count: u64| count as f64 / replay.decisions as f64;
                let (writes, transfers) = (replay.traffic.shared_writes, replay.traffic.transfers);
                print!(" | {:.2} ({:.2})", each(writes), each(transfers));
            }
            println!(" |");
        }
    }
    Ok(())
}

/// Runs the decisions under valgrind, and replays its trace.
fn measure(name: &str, case: usize, threads: u32) -> io::Result<Replay> {
    let mut child = Command::new("valgrind")
        .args(["--tool=lackey", "--trace-mem=yes"])
        .arg(std::env::current_exe()?)
        .args(["decide", name, &case.to_string(), &threads.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| io::Error::new(error.kind(), format!("valgrind: {error}")))?;
    let trace = child.stderr.take().ok_or_else(|| io::Error::other("no trace"))?;
    let replay = replay(BufReader::new(trace), threads)?;
    let status = child.wait()?;
    match replay {
        Some(replay)
            if status.success() && replay.decisions == u64::from(threads * rounds(threads).1) =>
        {
            Ok(replay)
        }
        _ => Err(io::Error::other(format!("{name}: {status}, and not all decisions"))),
    }
}

/// `None`: the trace does not say where the marks are.
fn replay(mut trace: impl BufRead, threads: u32) -> io::Result<Option<Replay>> {
    let (mut replay, mut line) = (None, Vec::new());
    loop {
        line.clear();
        if trace.read_until(b'\n', &mut line)? == 0 {
            return Ok(replay);
        }
        let Ok(text) = std::str::from_utf8(&line) else { continue };
        if let Some(replay) = &mut replay {
            parse(text).into_iter().for_each(|access| Replay::access(replay, access));
        } else if let Some(marks) = text.strip_prefix("marks ") {
            let marks = u64::from_str_radix(marks.trim(), 16).map_err(io::Error::other)?;
            replay = Some(Replay::new(marks, threads, rounds(threads).0));
        }
    }
}

/// Makes the decisions of one limiter.
fn decide(name: &str, case: Case, threads: u32) {
    struct ByName<'a>(&'a str, Case, u32);
    impl Visitor for ByName<'_> {
        fn keyed<P: Keyed>(&mut self) {
            if P::NAME == self.0 {
                decide_keyed::<P>(self.1, self.2);
            }
        }
    }
    if name == LEASES {
        decide_with_leases(case, threads);
    } else {
        limiters::each(&mut ByName(name, case, threads));
    }
}

fn decide_keyed<P: Keyed>(case: Case, threads: u32) {
    let gate = P::new(case.plan(), KEYS);
    for rank in 0..KEYS {
        let key = P::Key::own(rank);
        (0..2).for_each(|_| _ = black_box(gate.check(key.borrow())));
    }
    by_turns(threads, |thread, turns| {
        let (warm_up, counted) = rounds(threads);
        let ranks = (0..warm_up + counted).map(|round| case.rank(thread, round));
        let asked: Vec<_> = ranks.map(P::Key::own).collect();
        turns.each(|round| gate.check(black_box(asked[round].borrow())));
    });
}

fn decide_with_leases(case: Case, threads: u32) {
    let builder = Limiter::builder(quota(case.plan())).algorithm(Gcra::new().leases(LEASED));
    let gate: Limiter<u64> = builder.capacity(KEYS as u64).build().expect("in range");
    by_turns(threads, |_, turns| {
        let mut lease = gate.lease(&keys::key(0));
        turns.each(|_| lease.check().is_ok());
    });
}

/// A thread's mark, on a line of its own.
#[repr(align(64))]
#[derive(Default)]
struct Mark {
    begin: AtomicU64,
    end: AtomicU64,
}

const _: () = assert!(size_of::<Mark>() as u64 == MARK_BYTES);

/// A thread's turns.
struct Turns<'a> {
    mark: &'a Mark,
    go: Receiver<()>,
    done: Sender<()>,
}

impl Turns<'_> {
    fn each(self, mut check: impl FnMut(usize) -> bool) {
        for (round, ()) in self.go.iter().enumerate() {
            self.mark.begin.store(1, Ordering::Release);
            compiler_fence(Ordering::SeqCst);
            black_box(check(round));
            compiler_fence(Ordering::SeqCst);
            self.mark.end.store(1, Ordering::Release);
            let _ = self.done.send(());
        }
    }
}

/// Lets threads decide one after the other, round by round.
fn by_turns(threads: u32, work: impl Fn(u32, Turns<'_>) + Sync) {
    // Never freed: the allocator would write where the marks were.
    let marks = (0..threads).map(|_| Mark::default()).collect::<Vec<_>>().leak();
    // In one write, on a line of its own: valgrind writes to the same stream.
    let line = format!("\nmarks {:x}\n", marks.as_ptr().addr());
    io::stderr().write_all(line.as_bytes()).expect("a reader");
    std::thread::scope(|scope| {
        let (done, is_done) = channel();
        let mut workers = Vec::new();
        for (thread, mark) in (0..threads).zip(marks.iter()) {
            let (go, turn) = channel();
            let (turns, work) = (Turns { mark, go: turn, done: done.clone() }, &work);
            scope.spawn(move || work(thread, turns));
            workers.push(go);
        }
        let (warm_up, counted) = rounds(threads);
        for _ in 0..warm_up + counted {
            for go in &workers {
                go.send(()).expect("the thread waits for its turn");
                is_done.recv().expect("the thread has decided");
            }
        }
    });
}
