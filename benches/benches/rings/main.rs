//! Algorithms with a ring beside the state word, compared with those without, and with textbook
//! limiters under a lock.

mod gate;

use std::hint::black_box;
use std::time::Duration;

use tollgate::algorithm::Algorithm;
use tollgate::{
    AnyAlgorithm, Direct, FixedWindow, Gcra, Limiter, Quota, SlidingCounter, SlidingLog, SubWindows,
};
use tollgate_benches::keys::{self, Draw};
use tollgate_benches::locked::{Keyed, Locked, Log, One, SubWindowCounts};
use tollgate_benches::options::Options;
use tollgate_benches::pace::{Stretched, Supply};
use tollgate_benches::report::{Bound, compared, heading, table, target};
use tollgate_benches::rounds::{Figures, Row, Turn, compare};

use gate::{BehindLock, Brief, Gate};

/// The window of every limiter that admits, in given and in stretched time.
const PERIOD_NANOS: u64 = 60 * SECOND_NANOS;
const SECOND_NANOS: u64 = 1_000_000_000;
/// The window of every limiter that denies, and the time of the denials within it: in the last of
/// six sub-windows.
const DENIED_PERIOD_NANOS: u64 = 3_600 * SECOND_NANOS;
const DENIED_PHASE_NANOS: u64 = DENIED_PERIOD_NANOS / 12 * 11;
/// The beginning of a period that is not the first.
const START_NANOS: u64 = 100 * DENIED_PERIOD_NANOS;

/// The two ways to tell the time, as in the names of rows.
const GIVEN: &str = "time given";
const OWN: &str = "own clock";

/// The requests of a comparison, and their keys.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    /// Whether there are keys at all.
    keyed: bool,
    draw: Draw,
    keys: usize,
    threads: usize,
    decisions: usize,
    limit: u32,
    ask: Ask,
}

#[derive(Clone, Copy, PartialEq)]
enum Ask {
    /// The most frequent key asks for this share of its limit, in percent.
    Load(u64),
    /// All keys are full during the whole benchmark, with cells of the last two periods.
    Full,
}

impl Case {
    fn asking(self, ask: Ask) -> Self {
        Self { ask, ..self }
    }

    fn title(self) -> String {
        let Self { name, threads, limit, .. } = self;
        let ask = match self.ask {
            Ask::Load(percent) => format!("{percent} % of the limit asked for"),
            Ask::Full => "all denied".to_owned(),
        };
        format!("{name}, limit {limit}, {ask}, {threads} thread(s)")
    }

    fn period_nanos(self) -> u64 {
        if self.ask == Ask::Full { DENIED_PERIOD_NANOS } else { PERIOD_NANOS }
    }

    /// The time at which the benchmark begins.
    fn first_nanos(self) -> u64 {
        START_NANOS + if self.ask == Ask::Full { DENIED_PHASE_NANOS } else { 0 }
    }

    /// Decisions about all keys in a period.
    fn asks_in_period(self) -> u64 {
        let Ask::Load(percent) = self.ask else { return 0 };
        let hottest = u64::from(self.limit) * percent / 100;
        hottest * thousandths(self.draw.weights(self.keys)) / 1_000
    }

    fn supply(self) -> Supply {
        let step_nanos = PERIOD_NANOS.checked_div(self.asks_in_period()).unwrap_or(16);
        Supply::new(self.first_nanos(), step_nanos)
    }

    fn clock(self) -> Stretched {
        match self.ask {
            Ask::Full => Stretched::new(self.first_nanos(), 1),
            Ask::Load(_) => Stretched::paced(self.first_nanos(), self.supply().step_nanos()),
        }
    }

    fn quota(self) -> Quota {
        let quota = Quota::new(self.limit.into(), Duration::from_nanos(self.period_nanos()));
        black_box(quota.burst(self.limit.into()))
    }

    /// The turns after which every key has been used for a period and a half.
    fn turns_to_warm_up(self) -> usize {
        let decisions = usize::try_from(self.asks_in_period() * 3 / 2).expect("64 bits");
        decisions.div_ceil(self.decisions * self.threads)
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most 10^8")]
fn thousandths(weights: f64) -> u64 {
    (weights * 1_000.0) as u64
}

/// The rows of one comparison, created on demand.
struct Rows<'a> {
    options: &'a Options,
    case: Case,
    /// Each key once, unordered.
    all: Vec<u64>,
    sequence: &'a [u64],
    rows: Vec<Row<'a>>,
}

impl<'a> Rows<'a> {
    fn new(options: &'a Options, case: Case, sequence: &'a [u64]) -> Self {
        let mut all: Vec<u64> = (0..case.keys).map(keys::key).collect();
        all.sort_unstable();
        Self { options, case, all, sequence, rows: Vec::new() }
    }

    /// One of our limiters, with or without keys.
    fn ours<A>(&mut self, name: &str, algorithm: A)
    where
        A: Algorithm + Copy + Sync + 'a,
        A::Params: 'a,
    {
        let (quota, case) = (self.case.quota(), self.case);
        match case.keyed {
            true => self.both(name, || {
                let gate = Limiter::builder(quota).algorithm(algorithm).clock(case.clock());
                gate.capacity(case.keys as u64).build().expect("in range")
            }),
            false => self.both(name, || {
                let gate = Direct::builder(quota).algorithm(algorithm).clock(case.clock());
                gate.build().expect("in range")
            }),
        }
    }

    /// One of our limiters, with full answers and with yes or no.
    fn full_and_brief<A>(&mut self, name: &str, algorithm: A)
    where
        A: Algorithm + Copy + Sync + 'a,
        A::Params: 'a,
    {
        self.ours(name, algorithm);
        let (quota, case) = (self.case.quota(), self.case);
        let name = format!("{name} allow");
        match case.keyed {
            true => self.both(&name, || {
                let gate = Limiter::builder(quota).algorithm(algorithm).clock(case.clock());
                Brief(gate.capacity(case.keys as u64).build().expect("in range"))
            }),
            false => self.both(&name, || {
                let gate = Direct::builder(quota).algorithm(algorithm).clock(case.clock());
                Brief(gate.build().expect("in range"))
            }),
        }
    }

    /// One textbook limiter.
    fn locked<L: Locked + 'a>(&mut self, name: &str) {
        let case = self.case;
        let (limit, period) = (case.limit as usize, case.period_nanos());
        match case.keyed {
            true => {
                self.both(name, || BehindLock {
                    gate: Keyed::<L>::new(limit, period),
                    clock: case.clock(),
                });
            }
            false => {
                self.both(name, || BehindLock {
                    gate: One::<L>::new(limit, period),
                    clock: case.clock(),
                });
            }
        }
    }

    /// A row with the time given, and one with the limiter's own clock.
    fn both<G: Gate + 'a>(&mut self, name: &str, make: impl Fn() -> G) {
        let (case, sequence) = (self.case, self.sequence);
        let supply = case.supply();
        self.row(&format!("{name}, {GIVEN}"), &make, move |gate, turn| {
            time_given(gate, &supply, turn, case, sequence)
        });
        self.row(&format!("{name}, {OWN}"), &make, move |gate, turn| {
            own_clock(gate, turn, case, sequence)
        });
    }

    fn row<G: Gate + 'a>(
        &mut self,
        name: &str,
        make: impl Fn() -> G,
        turn: impl Fn(&G, Turn) -> usize + Sync + 'a,
    ) {
        if !self.options.wants(name) {
            return;
        }
        let gate = make();
        self.fill(&gate);
        for round in 0..self.case.turns_to_warm_up() {
            for thread in 0..self.case.threads {
                turn(&gate, Turn { thread, round, decisions: self.case.decisions });
            }
        }
        self.rows.push(Row::new(name, self.case.threads, move |now| turn(&gate, now)));
    }

    /// Gives every key its slot; if all requests are to be denied, takes its cells.
    fn fill(&self, gate: &impl Gate) {
        let case = self.case;
        if case.ask != Ask::Full {
            for &key in &self.all {
                gate.check_at(key, 1, case.first_nanos());
            }
            return;
        }
        let (limit, last) = (u64::from(case.limit), case.first_nanos());
        for &key in &self.all {
            for part in 0..12 {
                let n = (limit * (part % 6 + 1)) / 6 - (limit * (part % 6)) / 6;
                let at = last - (11 - part) * (DENIED_PERIOD_NANOS / 6);
                gate.check_at(key, n, at);
            }
            while gate.check_at(key, 1, last) {}
        }
    }

    fn figures(self) -> Vec<Figures> {
        let figures = compare(self.options, self.case.decisions, &self.rows);
        table(&self.case.title(), &figures);
        figures
    }
}

#[inline]
fn time_given<G: Gate>(
    gate: &G,
    supply: &Supply,
    turn: Turn,
    case: Case,
    sequence: &[u64],
) -> usize {
    let mut admitted = 0;
    let (first, second) = turn.part(sequence, case.threads);
    for run in first.chunks(Supply::RUN).chain(second.chunks(Supply::RUN)) {
        let mut now = supply.run();
        for &key in run {
            admitted += usize::from(black_box(gate.check_at(key, 1, black_box(now))));
            now += supply.step_nanos();
        }
    }
    admitted
}

#[inline]
fn own_clock<G: Gate>(gate: &G, turn: Turn, case: Case, sequence: &[u64]) -> usize {
    let mut admitted = 0;
    let (first, second) = turn.part(sequence, case.threads);
    gate.clock().begin();
    for part in [first, second] {
        for &key in part {
            admitted += usize::from(black_box(gate.check(key)));
        }
    }
    gate.clock().end(first.len() + second.len());
    admitted
}

fn sequence(case: Case) -> Vec<u64> {
    keys::ranks(case.draw, case.keys).into_iter().map(keys::key).collect()
}

const DIRECT: Case = Case {
    name: "one bucket",
    keyed: false,
    draw: Draw::One,
    keys: 1,
    threads: 1,
    decisions: 20_000,
    limit: 100,
    ask: Ask::Full,
};
const ZIPF: Case =
    Case { name: "1,000 keys, zipf 0.99", keyed: true, draw: Draw::Zipf, keys: 1_000, ..DIRECT };
const UNIFORM: Case = Case {
    name: "100,000 keys, uniform",
    keyed: true,
    draw: Draw::Uniform,
    keys: 100_000,
    decisions: 400_000,
    ..DIRECT
};
const LOADED: Ask = Ask::Load(50);

fn main() {
    let options = Options::from_args();
    heading("rings: beside the one-word algorithms");
    for case in [DIRECT, ZIPF, UNIFORM] {
        beside_one_word(&options, case.asking(LOADED));
        beside_one_word(&options, case.asking(Ask::Full));
    }
    heading("rings: the log at several limits");
    log_limits(&options, DIRECT);
    let few = Case { name: "100 keys, uniform", keys: 100, ..UNIFORM };
    log_limits(&options, Case { decisions: 20_000, ..few });
    heading("rings: beside limiters under a lock");
    let bucket = Case { limit: 10_000, decisions: 200_000, ..DIRECT };
    let hot = Case { name: "one hot key", keyed: true, ..bucket };
    let many = Case { name: "10,000 keys, uniform", keys: 10_000, limit: 100, ..UNIFORM };
    for case in [bucket, hot, Case { decisions: 200_000, ..many }] {
        for threads in [1, 2] {
            beside_locks(&options, Case { threads, ask: LOADED, ..case });
            beside_locks(&options, Case { threads, ask: Ask::Full, ..case });
        }
    }
    heading("rings: AnyAlgorithm beside the algorithm itself");
    for case in [DIRECT, ZIPF] {
        beside_any(&options, case.asking(LOADED));
        beside_any(&options, case.asking(Ask::Full));
    }
}

/// The target "within twice a decision by one word", for answers of yes or no. A full answer of a
/// ring needs further reads in the decision, and one of a word does not.
fn beside_one_word(options: &Options, case: Case) {
    let sequence = sequence(case);
    let mut rows = Rows::new(options, case, &sequence);
    rows.full_and_brief("Gcra", Gcra::new());
    rows.full_and_brief("FixedWindow", FixedWindow::anchored());
    rows.full_and_brief("SubWindows", SubWindows::new());
    rows.full_and_brief("SlidingCounter", SlidingCounter::new());
    rows.full_and_brief("SlidingLog", SlidingLog::new());
    let figures = rows.figures();
    for ring in ["SubWindows", "SlidingCounter", "SlidingLog"] {
        for how in [GIVEN, OWN] {
            for word in ["Gcra", "FixedWindow"] {
                let [over, under] = [ring, word].map(|name| format!("{name} allow, {how}"));
                target(&case.title(), &figures, [&over, &under], Bound::AtMost(2.0));
                let [over, under] = [ring, word].map(|name| format!("{name}, {how}"));
                compared(&case.title(), &figures, [&over, &under]);
            }
        }
    }
    println!();
}

/// The target "the same at every limit".
fn log_limits(options: &Options, case: Case) {
    let sequence = sequence(case);
    for percent in [50, 200] {
        let title = format!("{}, SlidingLog, {percent} % of the limit asked for", case.name);
        let mut rows = Vec::new();
        for limit in [10, 1_000, 65_536] {
            let case = Case { limit, ask: Ask::Load(percent), ..case };
            let mut of_limit = Rows::new(options, case, &sequence);
            of_limit.ours(&format!("limit {limit}"), SlidingLog::new());
            rows.append(&mut of_limit.rows);
        }
        let figures = compare(options, case.decisions, &rows);
        table(&title, &figures);
        for limit in [1_000, 65_536] {
            for how in [GIVEN, OWN] {
                let [over, under] = [limit, 10].map(|limit| format!("limit {limit}, {how}"));
                target(&title, &figures, [&over, &under], Bound::AtMost(1.3));
            }
        }
        println!();
    }
}

/// The targets "ahead of the textbook", and "three times as fast" where one hot key denies two
/// threads. Locks answer yes or no, and so do our rows with a target.
fn beside_locks(options: &Options, case: Case) {
    let sequence = sequence(case);
    let mut rows = Rows::new(options, case, &sequence);
    rows.full_and_brief("SubWindows", SubWindows::new());
    rows.locked::<SubWindowCounts>("locked sub-windows");
    rows.full_and_brief("SlidingLog", SlidingLog::new());
    rows.locked::<Log>("locked log");
    let figures = rows.figures();
    let hot = case.draw == Draw::One && case.ask == Ask::Full && case.threads > 1;
    for (theirs, ours) in [("locked sub-windows", "SubWindows"), ("locked log", "SlidingLog")] {
        let least = match ours {
            _ if hot => 3.0,
            // It takes two locked instructions, as a lock and its release do.
            "SlidingLog" if case.ask != Ask::Full => 0.9,
            _ => 1.0,
        };
        for how in [GIVEN, OWN] {
            let theirs = format!("{theirs}, {how}");
            let [full, brief] = ["", " allow"].map(|call| format!("{ours}{call}, {how}"));
            match how {
                OWN => target(&case.title(), &figures, [&theirs, &brief], Bound::AtLeast(least)),
                _ => compared(&case.title(), &figures, [&theirs, &brief]),
            }
            compared(&case.title(), &figures, [&theirs, &full]);
        }
    }
    println!();
}

/// The cost of choosing the algorithm at run time; for information.
fn beside_any(options: &Options, case: Case) {
    let sequence = sequence(case);
    let mut rows = Rows::new(options, case, &sequence);
    rows.ours("Gcra", Gcra::new());
    rows.ours("any Gcra", AnyAlgorithm::from(Gcra::new()));
    rows.ours("SubWindows", SubWindows::new());
    rows.ours("any SubWindows", AnyAlgorithm::from(SubWindows::new()));
    rows.ours("SlidingLog", SlidingLog::new());
    rows.ours("any SlidingLog", AnyAlgorithm::from(SlidingLog::new()));
    let figures = rows.figures();
    for name in ["Gcra", "SubWindows", "SlidingLog"] {
        let [any, itself] = ["any ", ""].map(|any| format!("{any}{name}, {GIVEN}"));
        compared(&case.title(), &figures, [&any, &itself]);
    }
    println!();
}
