//! Tables of several sizes, larger and smaller than the caches.

use std::hint::black_box;
use std::time::Duration;

use tollgate::clock::{CoarseClock, QuantaClock, TieredClock};
use tollgate::{Builder, Clock, Gcra, Limiter};
use tollgate_benches::keys::{self, Draw};
use tollgate_benches::options::Options;
use tollgate_benches::report::{compared, note, table};
use tollgate_benches::rounds::{Figures, Row, Turn, compare};

use crate::roomy;

/// The keys in one call.
const BATCHES: [usize; 5] = [1, 4, 8, 16, 32];
/// Beyond this size, only one limiter is kept at a time.
const MILLION: usize = 1_000_000;
const REFRESH: Duration = Duration::from_millis(1);

const PLAIN: &str = "check, own clock";
const HUGE: &str = "check on huge pages, own clock";
const COUNTED: &str = "check with count_decisions, own clock";
const TIERED: &str = "check by a TieredClock";

/// The name of a row with batches.
fn batch_name(batch: usize, huge: bool) -> String {
    let pages = if huge { " on huge pages" } else { "" };
    format!("batch of {batch}{pages}, own clock")
}

pub(crate) fn run(options: &Options, full: bool) {
    for count in [1_000, 100_000, MILLION, 10 * MILLION] {
        if count > MILLION && !full {
            note("10,000,000 keys take a minute more: they come with `--full`.");
        } else {
            one(options, count);
        }
    }
}

fn one(options: &Options, count: usize) {
    let sequence: Vec<u64> = keys::ranks(Draw::Uniform, count).into_iter().map(keys::key).collect();
    let sequence = &sequence;
    // As long as there are keys, so that few keys are used again while they are cached.
    let decisions = if count > 100_000 { 100_000 } else { 50_000 };
    let measure = |rows: &[Row<'_>]| compare(options, decisions, rows);
    let figures = match count > MILLION {
        false => {
            let (counted, tiered) = (filled(count, Builder::count_decisions), tiered(count));
            let plain = filled(count, |builder| builder);
            let huge = filled(count, Builder::huge_pages);
            let mut rows = pages(&plain, sequence, false);
            rows.extend(pages(&huge, sequence, true));
            rows.push(one_by_one(COUNTED, &counted, sequence));
            rows.push(one_by_one(TIERED, &tiered, sequence));
            measure(&rows)
        }
        // Each limiter has the memory to itself.
        true => {
            let mut figures: Vec<Figures> = Vec::new();
            for huge in [false, true] {
                let make = if huge { Builder::huge_pages } else { |builder| builder };
                let gate = filled(count, make);
                figures.extend(measure(&pages(&gate, sequence, huge)));
            }
            figures
        }
    };
    let title = format!("{count} keys");
    table(&title, &figures);
    for batch in BATCHES {
        for huge in [false, true] {
            compared(&title, &figures, [PLAIN, &batch_name(batch, huge)]);
        }
    }
    for name in [HUGE, COUNTED, TIERED] {
        compared(&title, &figures, [PLAIN, name]);
    }
    println!();
}

/// The rows of one kind of pages: one call for each key, and batches.
fn pages<'a>(gate: &'a Limiter<u64>, sequence: &'a [u64], huge: bool) -> Vec<Row<'a>> {
    let mut rows = vec![one_by_one(if huge { HUGE } else { PLAIN }, gate, sequence)];
    for batch in BATCHES {
        rows.push(Row::new(&batch_name(batch, huge), 1, move |turn| {
            in_batches(turn, gate, sequence, batch)
        }));
    }
    rows
}

fn one_by_one<'a, C: Clock + Sync>(
    name: &str,
    gate: &'a Limiter<u64, Gcra, C>,
    sequence: &'a [u64],
) -> Row<'a> {
    Row::new(name, 1, move |turn| {
        let (first, second) = turn.part(sequence, 1);
        let check = |key| usize::from(black_box(gate.check(key).is_ok()));
        first.iter().chain(second).map(check).sum()
    })
}

/// The clock is read once for each batch.
fn in_batches(turn: Turn, gate: &Limiter<u64>, sequence: &[u64], batch: usize) -> usize {
    let (first, second) = turn.part(sequence, 1);
    let mut admitted = 0;
    for keys in first.chunks(batch).chain(second.chunks(batch)) {
        gate.ask_each(keys, |key| key).check(|_, decision| {
            admitted += usize::from(black_box(decision.is_ok()));
        });
    }
    admitted
}

fn filled(
    count: usize,
    choose: impl FnOnce(Builder<u64, Gcra, QuantaClock>) -> Builder<u64, Gcra, QuantaClock>,
) -> Limiter<u64> {
    let builder = choose(Limiter::builder(roomy()).capacity(count as u64));
    ask_all(builder.build().expect("in range"), count)
}

fn tiered(count: usize) -> Limiter<u64, Gcra, TieredClock> {
    let clock = TieredClock::new(CoarseClock::with_upkeep(REFRESH).expect("a thread"));
    let builder = Limiter::builder(roomy()).clock(clock).capacity(count as u64);
    ask_all(builder.build().expect("in range"), count)
}

/// Gives every key its slot.
fn ask_all<C: Clock>(gate: Limiter<u64, Gcra, C>, count: usize) -> Limiter<u64, Gcra, C> {
    let mut all: Vec<u64> = (0..count).map(keys::key).collect();
    // In an order unrelated to that of the requests.
    all.sort_unstable();
    for key in &all {
        assert!(gate.check(key).is_ok(), "a fresh key has a cell");
    }
    gate
}
