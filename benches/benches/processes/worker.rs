//! Worker processes. The benchmark sends a worker a line of numbers, and the worker replies with one.

use std::fs::OpenOptions;
use std::hint::black_box;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use quanta::Clock as Counter;
use tollgate::clock::MonotonicClock;
use tollgate::shared::Shared;
use tollgate::{Clock, Limiter, Quota};
use tollgate_benches::calls::Calls;
use tollgate_benches::keys;
use tollgate_benches::rounds::Turn;
use tollgate_benches::timer::read_alone;

use crate::case::{Case, Kind};
use crate::locked::LockedMaps;
use crate::redis::Client;

/// Where the state of a limiter is.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// A file in memory.
    pub(crate) path: String,
    /// Of the Redis server.
    pub(crate) port: u16,
}

/// The task of a worker.
#[derive(Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) decisions: usize,
    pub(crate) round: usize,
    /// Processes that decide at the same time.
    pub(crate) processes: usize,
    /// Whether each call is timed.
    pub(crate) is_timed: bool,
}

/// The result of a worker.
pub(crate) struct Done {
    /// By the clock that all processes read.
    pub(crate) begin_nanos: u64,
    pub(crate) end_nanos: u64,
    pub(crate) admitted: usize,
    /// Nanoseconds of calls, and how many took as long.
    pub(crate) calls: Vec<(u64, u64)>,
}

/// A process that decides when it is asked to.
pub(crate) struct Worker {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Worker {
    pub(crate) fn start(kind: Kind, case: Case, index: usize, place: &Place) -> Self {
        let program = std::env::current_exe().expect("this program has a path");
        let Place { path, port } = place;
        let task = format!("{} {} {index} {port} {path}", kind.word(), case.word());
        let mut process = Command::new(program)
            .args(["--child", &task])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program can be started");
        let input = process.stdin.take().expect("piped");
        let output = BufReader::new(process.stdout.take().expect("piped"));
        Self { process, input, output }
    }

    pub(crate) fn ask(&mut self, asked: Asked) {
        let Asked { decisions, round, processes, is_timed } = asked;
        writeln!(self.input, "{decisions} {round} {processes} {}", u8::from(is_timed))
            .expect("a process that runs");
    }

    /// Its next reply: that it is ready, or its result.
    pub(crate) fn done(&mut self) -> Done {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("a process that runs");
        let numbers: Vec<u64> =
            line.split_whitespace().map(|word| word.parse().expect("a number")).collect();
        let [begin_nanos, end_nanos, admitted, calls @ ..] = &numbers[..] else {
            panic!("a worker has ended")
        };
        Done {
            begin_nanos: *begin_nanos,
            end_nanos: *end_nanos,
            admitted: usize::try_from(*admitted).expect("64 bits"),
            calls: calls.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect(),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Decides, in a process that [`Worker::start`] has started.
pub(crate) fn work(task: &str) {
    let words: Vec<&str> = task.splitn(5, ' ').collect();
    let [kind, case, index, port, path] = words[..] else { panic!("not a task: {task}") };
    let (kind, case) = (Kind::of(kind), Case::of(case));
    let index = index.parse().expect("a number");
    let place = Place { path: path.to_owned(), port: port.parse().expect("a number") };
    let clock = MonotonicClock::new();
    match kind {
        Kind::Shared => {
            let gate = builder(case).build_shared(&Shared::file(path)).expect("attached");
            serve(index, case, |key| gate.check(&key).is_ok());
        }
        Kind::Private => {
            let gate = builder(case).build().expect("in range");
            serve(index, case, |key| gate.check(&key).is_ok());
        }
        Kind::PrivateMonotonic => {
            let gate = builder(case).clock(clock).build().expect("in range");
            serve(index, case, |key| gate.check(&key).is_ok());
        }
        Kind::Locked(maps) => {
            let maps = locked(&place, maps, case);
            serve(index, case, |key| maps.check(key, clock.now().as_nanos()));
        }
        Kind::Redis => {
            let mut client = Client::new(place.port, case.limit()).expect("a server");
            serve(index, case, |key| client.check(key));
        }
    }
}

fn builder(case: Case) -> tollgate::Builder<u64> {
    let (cells, seconds) = black_box(case.limit());
    let quota = Quota::new(cells.into(), Duration::from_secs(seconds.into())).burst(cells.into());
    Limiter::builder(quota).capacity(case.keys() as u64)
}

pub(crate) fn locked(place: &Place, maps: usize, case: Case) -> LockedMaps {
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create(true).truncate(false).open(&place.path);
    LockedMaps::new(&file.expect("a file"), maps, case.keys(), black_box(case.limit()))
}

/// Asks for every key once, and then does what is asked until the input ends.
fn serve(index: usize, case: Case, mut check: impl FnMut(u64) -> bool) {
    (0..case.keys()).map(keys::key).for_each(|key| {
        let _ = check(key);
    });
    let ranks = keys::ranks(case.draw(), case.keys());
    let sequence: Vec<u64> = ranks.into_iter().map(keys::key).collect();
    let (clock, counter) = (MonotonicClock::new(), Counter::new());
    println!("0 0 0");
    for line in std::io::stdin().lines() {
        let line = line.expect("lines");
        let numbers: Vec<usize> =
            line.split_whitespace().map(|word| word.parse().expect("a number")).collect();
        let [decisions, round, processes, is_timed] = numbers[..] else { panic!("{line}") };
        let turn = Turn { thread: index, round, decisions };
        let (first, second) = turn.part(&sequence, processes);
        let keys = first.iter().chain(second);
        let mut calls = Calls::new("");
        let begin = clock.now().as_nanos();
        let admitted = match is_timed {
            0 => count(first, &mut check) + count(second, &mut check),
            _ => keys.filter(|key| timed(&counter, &mut calls, || check(**key))).count(),
        };
        let end = clock.now().as_nanos();
        let calls: String =
            calls.durations().map(|(nanos, count)| format!(" {nanos} {count}")).collect();
        println!("{begin} {end} {admitted}{calls}");
    }
}

#[inline]
fn count(keys: &[u64], mut check: impl FnMut(u64) -> bool) -> usize {
    keys.iter().map(|key| usize::from(black_box(check(black_box(*key))))).sum()
}

#[inline]
fn timed(counter: &Counter, calls: &mut Calls, call: impl FnOnce() -> bool) -> bool {
    let begin = read_alone(counter);
    let admitted = black_box(call());
    calls.record(counter.delta_as_nanos(begin, read_alone(counter)));
    admitted
}
