//! A growing number of threads, compared with governor and with locks, with and without contention.

use std::hint::black_box;
use std::sync::Arc;

use tollgate::clock::QuantaClock;
use tollgate::{Clock, Limiter, Quota, Tick};
use tollgate_benches::keys::{self, Draw};
use tollgate_benches::locked::{Arrival, Keyed, ParkingLot};
use tollgate_benches::options::Options;
use tollgate_benches::peer::{self, nonzero};
use tollgate_benches::process::available_bytes;
use tollgate_benches::report::{Bound, compared, heading, table, target};
use tollgate_benches::rounds::{Row, Turn, compare};

const OURS: &str = "tollgate, own clock";
const OURS_GIVEN: &str = "tollgate, time given";
const THEIRS: &str = "governor, own clock";
const LOCKED: &str = "64 parking_lot Mutex maps, own clock";

const THREADS: [usize; 4] = [1, 2, 4, 8];
/// Decisions of each thread: with eight threads, several time slices of the scheduler on two cores.
const DECISIONS: usize = 200_000;
/// Twice the memory that four limiters take for ten million keys.
const TEN_MILLION_BYTES: u64 = 4_000_000_000;

const SECOND_NANOS: u64 = 1_000_000_000;

/// The parameters of a comparison, besides the threads.
#[derive(Clone, Copy)]
struct Case {
    draw: Draw,
    keys: usize,
    ask: Ask,
}

#[derive(Clone, Copy, PartialEq)]
enum Ask {
    Admit,
    Deny,
}

impl Case {
    fn title(self) -> String {
        let ask = match self.ask {
            Ask::Admit => "Admissions",
            Ask::Deny => "Denials",
        };
        match self.draw {
            Draw::One => format!("{ask}, one key"),
            draw => format!("{ask}, {} keys, {}", self.keys, draw.name()),
        }
    }

    /// The limit of every limiter: cells, and the seconds of their period. A bucket is always in debt and
    /// never full, or it is full for the next hour.
    fn limit(self) -> (u32, u32) {
        match self.ask {
            Ask::Admit => (2_000_000_000, 200_000),
            Ask::Deny => (1, 3_600),
        }
    }

    /// The target beside the locked maps, with several threads.
    fn least(self) -> Option<f64> {
        match (self.draw, self.ask) {
            (Draw::One, Ask::Admit) => Some(1.5),
            (Draw::One, Ask::Deny) => Some(3.0),
            _ => None,
        }
    }

    fn quota(self) -> Quota {
        let (cells, seconds) = black_box(self.limit());
        let period = std::time::Duration::from_secs(seconds.into());
        Quota::new(cells.into(), period).burst(cells.into())
    }

    fn governor_quota(self) -> governor::Quota {
        let (cells, seconds) = black_box(self.limit());
        let rate = match self.ask {
            Ask::Admit => governor::Quota::per_second(nonzero(cells / seconds)),
            Ask::Deny => governor::Quota::per_hour(nonzero(cells)),
        };
        rate.allow_burst(nonzero(cells))
    }
}

fn main() {
    let options = Options::from_args();
    heading("contention: several threads, one table");
    let every = std::env::args().any(|arg| arg == "--all");
    for (draw, keys) in if every { all() } else { some() } {
        if keys == 10_000_000 && available_bytes() < TEN_MILLION_BYTES {
            println!("10,000,000 keys, {}: left out, there is no room for them.\n", draw.name());
            continue;
        }
        for ask in [Ask::Admit, Ask::Deny] {
            run(&options, Case { draw, keys, ask });
        }
    }
}

/// Describes the numbers of threads, and says which of them exceed the cores.
fn cores() -> String {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    let beyond: Vec<String> =
        THREADS.iter().filter(|&&count| count > cores).map(usize::to_string).collect();
    let most = THREADS[THREADS.len() - 1];
    match beyond.is_empty() {
        true => format!("1 to {most} threads"),
        false => format!("1 to {most} threads, {} on only {cores} cores", beyond.join(" and ")),
    }
}

/// The cases in which threads contend most, as often as in practice, and almost never.
fn some() -> Vec<(Draw, usize)> {
    vec![
        (Draw::One, 1),
        (Draw::Steep, 100_000),
        (Draw::Zipf, 1_000),
        (Draw::Zipf, 100_000),
        (Draw::Uniform, 1_000),
        (Draw::Uniform, 1_000_000),
    ]
}

fn all() -> Vec<(Draw, usize)> {
    let counts = [1_000, 100_000, 1_000_000, 10_000_000];
    let many = [Draw::Steep, Draw::Zipf, Draw::Uniform]
        .into_iter()
        .flat_map(|draw| counts.map(|count| (draw, count)));
    [(Draw::One, 1)].into_iter().chain(many).collect()
}

/// The rows of one comparison, created on demand.
struct Rows<'a> {
    options: &'a Options,
    case: Case,
    /// Each key once, unordered.
    all: &'a [u64],
    sequence: &'a [u64],
    rows: Vec<Row<'a>>,
    /// Our limiters, to read their evictions.
    ours: Vec<Arc<Limiter<u64>>>,
}

impl<'a> Rows<'a> {
    /// One limiter, filled, with a row for each number of threads.
    fn limiter<F>(&mut self, name: &str, make: impl FnOnce(&mut Self) -> F)
    where
        F: Fn(u64, u64) -> bool + Send + Sync + 'a,
    {
        let names = THREADS.map(|threads| (row_name(name, threads), threads));
        if !names.iter().any(|(name, _)| self.options.wants(name)) {
            return;
        }
        let check = Arc::new(make(self));
        keys::ask_for_all(self.all, |&key| check(key, SECOND_NANOS));
        let sequence = self.sequence;
        for (name, threads) in names {
            let check = Arc::clone(&check);
            self.rows.push(Row::new(&name, threads, move |turn| {
                each(turn, threads, sequence, |key, now| check(key, now))
            }));
        }
    }

    fn gate(&mut self) -> Arc<Limiter<u64>> {
        let gate = Limiter::builder(self.case.quota()).capacity(self.case.keys as u64).build();
        let gate = Arc::new(gate.expect("in range"));
        self.ours.push(Arc::clone(&gate));
        gate
    }
}

fn row_name(name: &str, threads: usize) -> String {
    format!("{name}, {threads} thread(s)")
}

/// Runs `decide` on the keys of a turn, at times that advance.
#[inline]
fn each(turn: Turn, threads: usize, sequence: &[u64], decide: impl Fn(u64, u64) -> bool) -> usize {
    let mut now = turn.start_nanos();
    let mut admitted = 0;
    let (first, second) = turn.part(sequence, threads);
    for part in [first, second] {
        for &key in part {
            now = Turn::later(now);
            admitted += usize::from(black_box(decide(key, black_box(now))));
        }
    }
    admitted
}

fn run(options: &Options, case: Case) {
    let mut all: Vec<u64> = (0..case.keys).map(keys::key).collect();
    all.sort_unstable();
    let sequence: Vec<u64> = keys::ranks(case.draw, case.keys).into_iter().map(keys::key).collect();
    let (all, sequence) = (&all, &sequence);
    let mut rows = Rows { options, case, all, sequence, rows: Vec::new(), ours: Vec::new() };
    rows.limiter(OURS, |rows| {
        let gate = rows.gate();
        move |key, _| gate.check(&key).is_ok()
    });
    rows.limiter(OURS_GIVEN, |rows| {
        let gate = rows.gate();
        move |key, now| gate.ask(&key).at(Tick::from_nanos(now)).check().is_ok()
    });
    rows.limiter(THEIRS, |_| {
        let gate = peer::keyed(case.governor_quota());
        move |key, _| gate.check_key(&key).is_ok()
    });
    rows.limiter(LOCKED, |_| {
        let (cells, seconds) = black_box(case.limit());
        let gate =
            Keyed::<Arrival, ParkingLot>::new(cells as usize, u64::from(seconds) * SECOND_NANOS);
        let clock = QuantaClock::new();
        move |key, _| gate.check(key, clock.now().as_nanos())
    });
    let title = case.title();
    let figures = compare(options, DECISIONS, &rows.rows);
    table(&format!("{title}, {}", cores()), &figures);
    for theirs in [THEIRS, LOCKED] {
        for threads in THREADS {
            let [over, under] = [theirs, OURS].map(|name| row_name(name, threads));
            match case.least() {
                Some(least) if theirs == LOCKED && threads > 1 => {
                    target(&title, &figures, [&over, &under], Bound::AtLeast(least));
                }
                _ => compared(&title, &figures, [&over, &under]),
            }
        }
    }
    let evicted: u64 = rows.ours.iter().map(|gate| gate.stats().evicted).sum();
    if evicted > 0 {
        println!("\nAt the stated capacity, {evicted} claim(s) displaced a live key.");
    }
    println!();
}
