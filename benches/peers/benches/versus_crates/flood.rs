//! Keys that never return, each limiter in its own process.

use std::borrow::Borrow;
use std::fs;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram;
use quanta::Clock;
use tollgate_benches::process::{resident_bytes, resident_peak_bytes};
use tollgate_benches::report::{Bound, beside, text, verdict};
use tollgate_benches::timer::read_alone;
use tollgate_peers::forms::Form;
use tollgate_peers::limiters::{GovernorAhash, InScc, Tollgate, each};
use tollgate_peers::peer::{Keyed, Visitor};
use tollgate_peers::plan::Plan;

use crate::choice::{Choice, ask_child, float};

const NAME: &str = "flood";
/// The capacity, in keys, that each limiter is built with.
const CAPACITY: usize = 1_000_000;
/// Keys created at a time, outside the measured time.
const BLOCK: u64 = 4_096;
/// The resident memory at which a limiter is stopped.
const MOST_BYTES: u64 = 2_000_000_000;
/// The time between two sweeps, for limiters that the user has to sweep. A key becomes idle after
/// the same time.
const SWEEP_EVERY: Duration = Duration::from_millis(100);

const HEADER: [&str; 13] = [
    "limiter",
    "kept small by",
    "M keys",
    "M/s",
    "p50 ns",
    "p99",
    "p99.99",
    "max",
    "MB at a fifth",
    "MB at the end",
    "MB peak",
    "processors",
    "stopped by",
];

/// 10 cells a second, 10 at once: a key that asked once is idle after 100 ms.
fn plan() -> Plan {
    Plan::new(10, Duration::from_secs(1), 10)
}

/// A limiter, with or without its mechanism that forgets idle keys.
struct Task {
    name: &'static str,
    kept: Option<&'static str>,
}

pub(crate) fn run(choice: &Choice) {
    if !choice.wants_case(NAME) {
        return;
    }
    let (millions, seconds) = if choice.full { (50, 40) } else { (5, 3) };
    let mut tasks = Tasks(vec![]);
    each(&mut tasks);
    let (mut rows, mut outcomes) = (Vec::new(), Vec::new());
    for Task { name, kept } in tasks.0 {
        if !choice.options.wants(name) {
            continue;
        }
        let bounded = u8::from(kept.is_some());
        let outcome =
            Outcome::of(ask_child(&format!("flood:{name}|{bounded}|{millions}|{seconds}")));
        rows.push(outcome.row(name, kept.unwrap_or("nothing")));
        outcomes.push((name, kept.is_some(), outcome));
    }
    let title = format!("{NAME}: {millions} M keys that ask once, 1 thread, at most {seconds} s");
    text(&title, &HEADER, rows);
    print_targets(&outcomes);
}

fn print_targets(outcomes: &[(&str, bool, Outcome)]) {
    let find = |name: &str| {
        outcomes.iter().find(|outcome| outcome.0 == name && outcome.1).map(|outcome| &outcome.2)
    };
    let Some(ours) = find(Tollgate::NAME) else { return };
    if let Some(scc) = find(InScc::NAME) {
        let note = format!("{:?} over {:?}, swept", Tollgate::NAME, InScc::NAME);
        let ratio = ours.millions_per_second() / scc.millions_per_second();
        verdict("flood: throughput beside scc", ratio, Bound::AtLeast(1.0), &note);
    }
    let growth = ours.resident_bytes / ours.resident_bytes_at_a_fifth;
    let note = "tollgate's at the end over that at a fifth";
    verdict("flood: resident memory", growth, Bound::AtMost(1.01), note);
    for (name, _, theirs) in
        outcomes.iter().filter(|(name, kept, _)| *kept && *name != Tollgate::NAME)
    {
        let ours_and_theirs = ours.less_is_better().into_iter().zip(theirs.less_is_better());
        for ((what, unit, ours), (.., theirs)) in ours_and_theirs {
            beside(&format!("{NAME}, {what}"), unit, ours, (name, theirs));
        }
    }
    println!();
}

/// All limiters with their mechanism to forget keys, and two of them without.
struct Tasks(Vec<Task>);

impl Visitor for Tasks {
    fn keyed<P: Keyed>(&mut self) {
        if [GovernorAhash::NAME, InScc::NAME].contains(&P::NAME) {
            self.0.push(Task { name: P::NAME, kept: None });
        }
        if P::BOUNDED_BY.is_some() {
            self.0.push(Task { name: P::NAME, kept: P::BOUNDED_BY });
        }
    }
}

/// The results of a child, in the order in which it prints them.
struct Outcome {
    keys: f64,
    seconds: f64,
    /// p50, p99, p99.99 and the maximum.
    nanos: [f64; 4],
    resident_bytes_at_a_fifth: f64,
    resident_bytes: f64,
    peak_bytes: f64,
    /// Of all threads, over the whole time.
    processor_seconds: f64,
    wall_seconds: f64,
    /// Why the run ended: 0 all keys, 1 memory, 2 time.
    stopped: f64,
}

impl Outcome {
    fn of(numbers: [f64; 12]) -> Self {
        let [keys, seconds, p50, p99, p9999, max, fifth, end, peak, processor, wall, stopped] =
            numbers;
        Self {
            keys,
            seconds,
            nanos: [p50, p99, p9999, max],
            resident_bytes_at_a_fifth: fifth,
            resident_bytes: end,
            peak_bytes: peak,
            processor_seconds: processor,
            wall_seconds: wall,
            stopped,
        }
    }

    fn millions_per_second(&self) -> f64 {
        self.keys / self.seconds / 1e6
    }

    /// As a row under [`HEADER`].
    fn row(&self, name: &str, kept: &str) -> Vec<String> {
        let bytes = [self.resident_bytes_at_a_fifth, self.resident_bytes, self.peak_bytes];
        let stopped = match self.stopped {
            0.0 => "",
            1.0 => "2 GB of memory",
            _ => "time",
        };
        let mut row = vec![name.to_owned(), kept.to_owned(), format!("{:.1}", self.keys / 1e6)];
        row.push(format!("{:.2}", self.millions_per_second()));
        row.extend(self.nanos.map(|nanos| nanos.to_string()));
        row.extend(bytes.map(|bytes| format!("{:.0}", bytes / 1e6)));
        row.push(format!("{:.2}", self.processor_seconds / self.wall_seconds));
        row.push(stopped.to_owned());
        row
    }

    /// The figures that are compared with a peer's: name, unit, figure.
    fn less_is_better(&self) -> [(&'static str, &'static str, f64); 6] {
        let [p50, p99, p9999, max] = self.nanos;
        [
            ("p50", "ns", p50),
            ("p99", "ns", p99),
            ("p99.99", "ns", p9999),
            ("slowest", "ns", max),
            ("a call with all around it", "ns", 1_000.0 / self.millions_per_second()),
            ("resident at the end", "MB", self.resident_bytes / 1e6),
        ]
    }
}

/// Floods one limiter, and prints an [`Outcome`].
pub(crate) fn child(task: &str) {
    let words: Vec<&str> = task.split('|').collect();
    let [name, bounded, millions, seconds] = words[..] else { panic!("four words: {task}") };
    let number = |word: &str| word.parse::<u64>().expect("a number");
    each(&mut Child {
        name,
        bounded: bounded == "1",
        keys: number(millions) * 1_000_000,
        seconds: number(seconds),
    });
}

struct Child<'a> {
    name: &'a str,
    bounded: bool,
    keys: u64,
    seconds: u64,
}

impl Visitor for Child<'_> {
    fn keyed<P: Keyed>(&mut self) {
        if P::NAME != self.name {
            return;
        }
        let gate =
            if self.bounded { P::bounded(plan(), CAPACITY) } else { P::new(plan(), CAPACITY) };
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            if self.bounded {
                scope.spawn(|| sweep(&gate, &done));
            }
            self.pour(&gate);
            done.store(true, Ordering::Relaxed);
        });
    }
}

/// Sweeps in a loop. Most limiters have nothing to sweep.
fn sweep<P: Keyed>(gate: &P, done: &AtomicBool) {
    while !done.load(Ordering::Relaxed) {
        std::thread::sleep(SWEEP_EVERY);
        gate.sweep();
    }
}

impl Child<'_> {
    fn pour<P: Keyed>(&self, gate: &P) {
        let clock = Clock::new();
        let mut nanos = Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("valid bounds");
        let (begin, processor) = (clock.raw(), processor_seconds());
        let (mut poured, mut spent, mut at_a_fifth, mut stopped) = (0, 0, 0, 0);
        while poured < self.keys {
            spent += block(gate, &clock, &mut nanos, poured);
            poured += BLOCK;
            if at_a_fifth == 0 && poured >= self.keys / 5 {
                at_a_fifth = resident_bytes();
            }
            if resident_bytes() > MOST_BYTES {
                stopped = 1;
                break;
            }
            if clock.delta_as_nanos(begin, clock.raw()) > self.seconds * 1_000_000_000 {
                stopped = 2;
                break;
            }
        }
        let wall = float(clock.delta_as_nanos(begin, clock.raw())) / 1e9;
        let [p50, p99, p9999] = [0.5, 0.99, 0.9999].map(|part| nanos.value_at_quantile(part));
        let resident = resident_bytes();
        println!(
            "{poured} {} {p50} {p99} {p9999} {} {} {resident} {} {} {wall} {stopped}",
            float(spent) / 1e9,
            nanos.max(),
            if at_a_fifth == 0 { resident } else { at_a_fifth },
            resident_peak_bytes(),
            processor_seconds() - processor,
        );
    }
}

/// Asks for the next keys, each once, and times every call. Returns the nanoseconds of all calls.
fn block<P: Keyed>(gate: &P, clock: &Clock, nanos: &mut Histogram<u64>, first: u64) -> u64 {
    let rank = |index| usize::try_from(index).expect("64 bits");
    let keys: Vec<_> =
        (first..first + BLOCK).map(|index| <P::Key as Form>::own(rank(index))).collect();
    let begin = clock.raw();
    for key in &keys {
        let start = read_alone(clock);
        black_box(gate.check(key.borrow()));
        nanos.saturating_record(clock.delta_as_nanos(start, read_alone(clock)));
    }
    clock.delta_as_nanos(begin, clock.raw())
}

/// The processor time of all threads of this process, at 100 ticks a second, as on Linux with the
/// usual kernel.
fn processor_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").expect("Linux");
    let (_, after_name) = stat.rsplit_once(')').expect("the name is in brackets");
    let ticks = after_name.split_ascii_whitespace().skip(11).take(2);
    ticks.map(|word| float(word.parse().expect("ticks"))).sum::<f64>() / 100.0
}
