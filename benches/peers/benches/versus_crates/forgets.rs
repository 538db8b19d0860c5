//! Keys in debt that ask again after a flood of other keys, each limiter in its own process.

use std::borrow::Borrow;
use std::time::Duration;

use quanta::Clock;
use tollgate_benches::process::resident_bytes;
use tollgate_benches::report::{Bound, note, text, verdict};
use tollgate_peers::forms::Form;
use tollgate_peers::limiters::{TollgateDenying, each};
use tollgate_peers::peer::{Keyed, Visitor};
use tollgate_peers::plan::Plan;

use crate::choice::{Choice, ask_child};

const NAME: &str = "forgets";
/// The keys that each limiter is built for.
const EXPECTED: usize = 10_000;
const DEBTORS: usize = 100;
const OTHERS: usize = 1_000_000;
const BURST: u32 = 10;
/// Other keys between two looks at the time and the memory.
const BLOCK: usize = 4_096;
/// The resident memory at which the flood of a limiter is stopped.
const BYTES_MAX: u64 = 1_000_000_000;
/// The time after which it is stopped.
const TIME_MAX: Duration = Duration::from_secs(20);
/// The time between two sweeps, for limiters that the user has to sweep.
const SWEEP_EVERY: Duration = Duration::from_millis(100);

const HEADER: [&str; 10] = [
    "limiter",
    "kept small by",
    "cells spent",
    "M other keys",
    "of them denied",
    "keys in debt",
    "got a cell again",
    "cells beyond the quota",
    "MB at the end",
    "stopped by",
];

pub(crate) fn run(choice: &Choice) {
    if !choice.wants_case(NAME) {
        return;
    }
    let mut names = Names(vec![]);
    all(&mut names);
    names.0.retain(|(name, _)| choice.options.wants(name));
    let outcome = |name: &str| Outcome::of(ask_child(&format!("{NAME}:{name}")));
    let outcomes: Vec<_> =
        names.0.into_iter().map(|(name, kept)| (name, kept, outcome(name))).collect();
    let rows = outcomes.iter().map(|(name, kept, outcome)| outcome.row(name, kept)).collect();
    text(&format!("{NAME}: {DEBTORS} keys in debt, and a flood of others"), &HEADER, rows);
    note(&format!(
        "Each limiter is built for {EXPECTED} keys. {DEBTORS} keys ask {BURST} times (burst {BURST}, 1 \
         an hour), {OTHERS} other keys ask once, and the {DEBTORS} ask {BURST} times again: which of \
         them got a cell again, and how many more cells than {BURST} all got together. A limiter that \
         forgets no key in debt has to deny other keys, or to keep them."
    ));
    if let Some((name, _, ours)) = outcomes.iter().find(|row| row.0 == TollgateDenying::NAME) {
        let what = format!("{NAME}: cells beyond the quota");
        let note = format!("{name}: of {DEBTORS} keys in debt");
        verdict(&what, ours.beyond, Bound::AtMost(0.0), &note);
    }
    println!();
}

/// Every keyed limiter, and tollgate with another policy.
fn all(visit: &mut impl Visitor) {
    visit.keyed::<TollgateDenying>();
    each(visit);
}

/// The limiters that bound their memory, and how.
struct Names(Vec<(&'static str, &'static str)>);

impl Visitor for Names {
    fn keyed<P: Keyed>(&mut self) {
        self.0.extend(P::BOUNDED_BY.map(|kept| (P::NAME, kept)));
    }
}

/// The results of a child, in the order in which it prints them.
struct Outcome {
    /// Cells granted to the keys in debt before the flood.
    spent: f64,
    others: f64,
    /// Other keys that were denied.
    denied: f64,
    /// Keys in debt that got a cell after the flood.
    again: f64,
    /// Cells granted to keys in debt beyond their burst.
    beyond: f64,
    resident_bytes: f64,
    /// Why the flood ended: 0 all keys, 1 memory, 2 time.
    stopped: f64,
}

impl Outcome {
    fn of(numbers: [f64; 7]) -> Self {
        let [spent, others, denied, again, beyond, resident_bytes, stopped] = numbers;
        Self { spent, others, denied, again, beyond, resident_bytes, stopped }
    }

    /// As a row under [`HEADER`].
    fn row(&self, name: &str, kept: &str) -> Vec<String> {
        let stopped = match self.stopped {
            0.0 => "",
            1.0 => "1 GB of memory",
            _ => "time",
        };
        vec![
            name.to_owned(),
            kept.to_owned(),
            self.spent.to_string(),
            format!("{:.2}", self.others / 1e6),
            format!("{:.1} %", 100.0 * self.denied / self.others),
            DEBTORS.to_string(),
            self.again.to_string(),
            self.beyond.to_string(),
            format!("{:.0}", self.resident_bytes / 1e6),
            stopped.to_owned(),
        ]
    }
}

/// Tests one limiter, and prints an [`Outcome`].
pub(crate) fn child(task: &str) {
    all(&mut Child(task));
}

struct Child<'a>(&'a str);

impl Visitor for Child<'_> {
    fn keyed<P: Keyed>(&mut self) {
        if P::NAME != self.0 {
            return;
        }
        let gate = P::bounded(Plan::hourly(BURST), EXPECTED);
        let before = asked(&gate);
        let Flood { others, denied, stopped } = flood(&gate);
        let after = asked(&gate);
        let both = before.iter().zip(&after);
        let beyond: u32 = both.map(|(before, after)| (before + after).saturating_sub(BURST)).sum();
        let (spent, again) = (before.iter().sum::<u32>(), after.iter().filter(|&&n| n > 0).count());
        let resident = resident_bytes();
        println!("{spent} {others} {denied} {again} {beyond} {resident} {stopped}");
    }
}

/// Lets every key in debt ask as often as a burst has cells. Returns the cells granted to each.
fn asked<P: Keyed>(gate: &P) -> Vec<u32> {
    let granted = |rank| {
        let key = <P::Key as Form>::own(rank);
        (0..BURST).map(|_| u32::from(gate.check(key.borrow()))).sum()
    };
    (0..DEBTORS).map(granted).collect()
}

struct Flood {
    others: usize,
    denied: usize,
    stopped: u8,
}

/// Lets other keys ask once each. They are swept between blocks, and at the end.
fn flood<P: Keyed>(gate: &P) -> Flood {
    let clock = Clock::new();
    let (begin, mut swept) = (clock.raw(), Duration::ZERO);
    let mut flood = Flood { others: 0, denied: 0, stopped: 0 };
    while flood.others < OTHERS && flood.stopped == 0 {
        let block = BLOCK.min(OTHERS - flood.others);
        let first = DEBTORS + flood.others;
        let denied = |rank: &usize| !gate.check(<P::Key as Form>::own(*rank).borrow());
        flood.denied += (first..first + block).filter(denied).count();
        flood.others += block;
        let passed = Duration::from_nanos(clock.delta_as_nanos(begin, clock.raw()));
        if passed >= swept + SWEEP_EVERY {
            gate.sweep();
            swept = passed;
        }
        flood.stopped = match (resident_bytes() > BYTES_MAX, passed > TIME_MAX) {
            (true, _) => 1,
            (_, true) => 2,
            _ => 0,
        };
    }
    gate.sweep();
    flood
}
