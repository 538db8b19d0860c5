//! The duration of single decisions under load: percentiles and the slowest, compared with governor
//! and with maps under locks.

use std::hint::black_box;
use std::sync::Barrier;

use quanta::Clock as Counter;
use tollgate::clock::QuantaClock;
use tollgate::{Clock as _, Limiter, Quota};
use tollgate_benches::calls::Calls;
use tollgate_benches::keys::{self, Draw};
use tollgate_benches::locked::{Arrival, Keyed, ParkingLot};
use tollgate_benches::options::Options;
use tollgate_benches::peer::{self, nonzero};
use tollgate_benches::report::{self, heading};
use tollgate_benches::rounds::Turn;
use tollgate_benches::timer::read_alone;

/// Decisions of a thread in a round.
const DECISIONS: usize = 100_000;

/// Cells a second of each key, and the burst: always in debt, never at the limit.
const RATE: u32 = 10_000;
const BURST: u32 = 2_000_000_000;

/// The parameters of a comparison.
#[derive(Clone, Copy)]
struct Case {
    title: &'static str,
    draw: Draw,
    keys: usize,
    threads: usize,
}

fn main() {
    let options = Options::from_args();
    heading("latency: single decisions under load, own clock, all admitted");
    let all = [
        ("one hot key", Draw::One, 1),
        ("1,000 keys, zipf 0.99", Draw::Zipf, 1_000),
        ("1,000,000 keys, uniform", Draw::Uniform, 1_000_000),
    ];
    for (title, draw, keys) in all {
        for threads in [1, 2] {
            run(&options, Case { title, draw, keys, threads });
        }
    }
}

fn run(options: &Options, case: Case) {
    // In an order unrelated to their frequency.
    let mut all: Vec<u64> = (0..case.keys).map(keys::key).collect();
    all.sort_unstable();
    let sequence: Vec<u64> = keys::ranks(case.draw, case.keys).into_iter().map(keys::key).collect();
    let quota = black_box(Quota::per_second(RATE.into()).burst(BURST.into()));
    let ours: Limiter<u64> =
        Limiter::builder(quota).capacity(case.keys as u64).build().expect("in range");
    let their_quota = governor::Quota::per_second(nonzero(RATE)).allow_burst(nonzero(BURST));
    let theirs = peer::keyed::<u64>(black_box(their_quota));
    let (cells, period_nanos) = black_box((BURST, u64::from(BURST / RATE) * 1_000_000_000));
    let maps = Keyed::<Arrival, ParkingLot>::new(cells as usize, period_nanos);
    let clock = QuantaClock::new();
    // The clock is read before the lock is taken.
    let locked = |key| maps.check(key, clock.now().as_nanos());
    for key in &all {
        assert!(ours.check(key).is_ok() && theirs.check_key(key).is_ok() && locked(*key));
    }
    let mut rows = [
        Timed::new("tollgate", case, &sequence, |key| ours.check(&key).is_ok()),
        Timed::new("governor", case, &sequence, |key| theirs.check_key(&key).is_ok()),
        Timed::new("64 parking_lot Mutex maps", case, &sequence, locked),
    ];
    let mut control = Control::new(case);
    for round in 0..=options.rounds {
        for (index, row) in rows.iter_mut().enumerate() {
            if round == 1 {
                row.forget();
            }
            let span = row.turn(round);
            if index == 0 && round > 0 {
                control.turn(span);
            }
        }
    }
    let rows = rows.map(|row| together(row.calls));
    let [ours, theirs, locked] = rows.each_ref();
    let title = format!("{}, {} thread(s)", case.title, case.threads);
    report::calls(&title, &[ours, theirs, locked, &together(control.calls)]);
}

/// The calls of all threads.
fn together(calls: Vec<Calls>) -> Calls {
    let mut calls = calls.into_iter();
    let mut all = calls.next().expect("a thread");
    calls.for_each(|of_thread| all.add(&of_thread));
    all
}

/// Makes the decisions of a turn, and returns how many were admitted.
type Body<'a> = Box<dyn Fn(Turn, &Counter, &mut Calls) -> usize + Sync + 'a>;

/// A limiter whose decisions are timed one by one.
struct Timed<'a> {
    name: &'static str,
    case: Case,
    counter: Counter,
    body: Body<'a>,
    /// One for each thread.
    calls: Vec<Calls>,
}

impl<'a> Timed<'a> {
    fn new(
        name: &'static str,
        case: Case,
        sequence: &'a [u64],
        check: impl Fn(u64) -> bool + Sync + 'a,
    ) -> Self {
        let body = move |turn: Turn, counter: &Counter, calls: &mut Calls| {
            let (first, second) = turn.part(sequence, case.threads);
            let mut admitted = 0;
            for &key in first.iter().chain(second) {
                let start = read_alone(counter);
                admitted += usize::from(black_box(check(key)));
                let end = read_alone(counter);
                calls.record(counter.delta_as_nanos(start, end));
            }
            admitted
        };
        let calls = vec![Calls::new(name); case.threads];
        Self { name, case, counter: Counter::new(), body: Box::new(body), calls }
    }

    /// Drops the calls of the first round, which warms up.
    fn forget(&mut self) {
        self.calls = vec![Calls::new(self.name); self.case.threads];
    }

    /// All threads decide at the same time. Returns how long the first one took, in nanoseconds.
    fn turn(&mut self, round: usize) -> u64 {
        let Self { body, counter, .. } = self;
        let spans = on_threads(&mut self.calls, |thread, calls| {
            calls.watch(counter, |calls| {
                let admitted = body(Turn { thread, round, decisions: DECISIONS }, counter, calls);
                assert_eq!(admitted, DECISIONS, "all are meant to be admitted");
            })
        });
        spans[0]
    }
}

/// Reads only the timer, on as many threads and for as long.
struct Control {
    counter: Counter,
    calls: Vec<Calls>,
}

impl Control {
    fn new(case: Case) -> Self {
        let calls = Calls::new("control, nothing but the timer, as long as tollgate");
        Self { counter: Counter::new(), calls: vec![calls; case.threads] }
    }

    fn turn(&mut self, span_nanos: u64) {
        on_threads(&mut self.calls, |_, calls| calls.idle(&self.counter, span_nanos));
    }
}

/// Runs `body` on a thread for each of the histograms; all threads start together.
fn on_threads<T: Send>(
    calls: &mut [Calls],
    work: impl Fn(usize, &mut Calls) -> T + Sync,
) -> Vec<T> {
    let (barrier, work) = (Barrier::new(calls.len()), &work);
    let barrier = &barrier;
    std::thread::scope(|scope| {
        let start = |(thread, calls)| {
            scope.spawn(move || {
                barrier.wait();
                work(thread, calls)
            })
        };
        let handles: Vec<_> = calls.iter_mut().enumerate().map(start).collect();
        handles.into_iter().map(|handle| handle.join().expect("no panic")).collect()
    })
}
