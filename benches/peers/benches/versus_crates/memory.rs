//! Bytes for a live key, each limiter in its own process.

use std::borrow::Borrow;

use tollgate_benches::process::{resident_bytes, resident_peak_bytes};
use tollgate_benches::report::{beside, text};
use tollgate_peers::forms::Form;
use tollgate_peers::limiters::{Tollgate, each};
use tollgate_peers::peer::{Keyed, Visitor};
use tollgate_peers::plan::Plan;

use crate::choice::{Choice, ask_child, float};

const NAME: &str = "memory";

pub(crate) fn run(choice: &Choice) {
    if !choice.wants_case(NAME) {
        return;
    }
    let mut names = Names(vec![]);
    each(&mut names);
    names.0.retain(|name| choice.options.wants(name));
    let ask = |name: &&str, count: u64| {
        let bytes: [f64; 2] = ask_child(&format!("memory:{name}|{count}"));
        bytes.map(|bytes| bytes / float(count))
    };
    let counts = [100_000, 1_000_000];
    let figures: Vec<_> =
        names.0.iter().map(|name| (*name, counts.map(|count| ask(name, count)))).collect();
    let row = |name: &str, count: u64, [resident, peak]: [f64; 2]| {
        vec![name.to_owned(), count.to_string(), format!("{resident:.1}"), format!("{peak:.1}")]
    };
    let rows = figures
        .iter()
        .flat_map(|(name, both)| [0, 1].map(|index| row(name, counts[index], both[index])));
    let header = ["limiter", "keys", "resident", "peak while filling"];
    text(&format!("{NAME}: bytes for a live key"), &header, rows.collect());
    let Some((_, ours)) = figures.iter().find(|(name, _)| *name == Tollgate::NAME) else { return };
    for (name, theirs) in figures.iter().filter(|(name, _)| *name != Tollgate::NAME) {
        for (index, count) in counts.into_iter().enumerate() {
            for (kind, what) in ["resident", "peak while filling"].into_iter().enumerate() {
                let what = format!("{NAME}, {count} keys, {what}");
                beside(&what, "bytes a key", ours[index][kind], (name, theirs[index][kind]));
            }
        }
    }
    println!();
}

struct Names(Vec<&'static str>);

impl Visitor for Names {
    fn keyed<P: Keyed>(&mut self) {
        self.0.push(P::NAME);
    }
}

/// Fills one limiter, and prints the resident bytes and those at the peak.
pub(crate) fn child(task: &str) {
    let (name, count) = task.split_once('|').expect("a limiter and a count");
    each(&mut Child { name, count: count.parse().expect("a count of keys") });
}

struct Child<'a> {
    name: &'a str,
    count: usize,
}

impl Visitor for Child<'_> {
    fn keyed<P: Keyed>(&mut self) {
        if P::NAME != self.name {
            return;
        }
        // Load code, calibration and the allocator's own pages before the measurement begins.
        drop(filled::<P>(100));
        let before = resident_bytes();
        let gate = filled::<P>(self.count);
        let resident = resident_bytes().saturating_sub(before);
        let peak = resident_peak_bytes().saturating_sub(before).max(resident);
        println!("{resident} {peak}");
        drop(gate);
    }
}

fn filled<P: Keyed>(count: usize) -> P {
    let gate = P::new(Plan::hourly(2), count);
    for rank in 0..count {
        let granted = gate.check(P::Key::own(rank).borrow());
        assert!(granted || !P::EXACT, "{}: its first cell", P::NAME);
    }
    gate
}
