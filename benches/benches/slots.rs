//! Compact slots (one word) and wide slots (two words), in tables of a thousand to ten million
//! keys.

use std::hint::black_box;

use tollgate::limiter::SlotLayout;
use tollgate::{Limiter, Quota, Tick};
use tollgate_benches::keys::{self, Draw};
use tollgate_benches::options::Options;
use tollgate_benches::report::{compared, heading, table};
use tollgate_benches::rounds::{Row, Turn, compare};

const WIDE: &str = "wide, time given";
const COMPACT: &str = "compact, time given";
const WIDE_OWN: &str = "wide, own clock";
const COMPACT_OWN: &str = "compact, own clock";

/// The decisions of the limiters.
#[derive(Clone, Copy, Debug)]
enum Answers {
    /// All admitted, all charged.
    Admit,
    /// All denied: every bucket is empty for the next day.
    Deny,
}

impl Answers {
    fn quota(self) -> Quota {
        match self {
            Self::Admit => Quota::per_second(1_000).burst(1_000_000_000),
            Self::Deny => Quota::per_day(1),
        }
    }
}

fn main() {
    let options = Options::from_args();
    heading("slots: one word beside two");
    for keys in [1_000, 30_000, 100_000, 1_000_000, 10_000_000] {
        both(&options, Answers::Admit, keys, 1);
    }
    both(&options, Answers::Deny, 1_000_000, 1);
    for keys in [1_000, 100_000, 1_000_000] {
        both(&options, Answers::Admit, keys, 2);
    }
}

fn limiter(answers: Answers, slots: SlotLayout, all: &[u64]) -> Limiter<u64> {
    let begun = Limiter::builder(black_box(answers.quota())).capacity(all.len() as u64);
    let gate = begun.slots(slots).build().expect("in range");
    keys::ask_for_all(all, |key| gate.ask(key).at(Tick::ZERO).check().is_ok());
    gate
}

fn both(options: &Options, answers: Answers, keys: usize, threads: usize) {
    let mut all: Vec<u64> = (0..keys).map(keys::key).collect();
    all.sort_unstable();
    let sequence: Vec<u64> = keys::ranks(Draw::Uniform, keys).into_iter().map(keys::key).collect();
    let wide = limiter(answers, SlotLayout::Wide, &all);
    let compact = limiter(answers, SlotLayout::Compact, &all);
    let given = |gate: &Limiter<u64>, turn: Turn| {
        let mut now = turn.start_nanos();
        let mut admitted = 0;
        let (first, second) = turn.part(&sequence, threads);
        for key in first.iter().chain(second) {
            now = Turn::later(now);
            let decision = gate.ask(key).at(Tick::from_nanos(black_box(now))).check();
            admitted += usize::from(black_box(decision.is_ok()));
        }
        admitted
    };
    let own = |gate: &Limiter<u64>, turn: Turn| {
        let (first, second) = turn.part(&sequence, threads);
        let admitted = |key: &&u64| black_box(gate.check(key).is_ok());
        first.iter().chain(second).filter(admitted).count()
    };
    let rows = [
        Row::new(WIDE, threads, |turn| given(&wide, turn)),
        Row::new(COMPACT, threads, |turn| given(&compact, turn)),
        Row::new(WIDE_OWN, threads, |turn| own(&wide, turn)),
        Row::new(COMPACT_OWN, threads, |turn| own(&compact, turn)),
    ];
    let figures = compare(options, 50_000 * threads, &rows);
    table(&format!("{answers:?}, {keys} keys, uniform, {threads} thread(s)"), &figures);
    compared("time given", &figures, [WIDE, COMPACT]);
    compared("own clock", &figures, [WIDE_OWN, COMPACT_OWN]);
    for (name, gate) in [("wide", &wide), ("compact", &compact)] {
        let bytes = gate.memory_bytes() as f64 / keys as f64;
        println!("- {name}: {bytes:.1} bytes a key, {} evicted", gate.stats().evicted);
    }
    println!();
}
