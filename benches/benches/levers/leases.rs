//! Local leases of several sizes, with several clocks.

use std::hint::black_box;
use std::time::Duration;

use tollgate::clock::{CoarseClock, QuantaClock};
use tollgate::{Clock, Gcra, Limiter, Tick};
use tollgate_benches::options::Options;
use tollgate_benches::report::{compared, note, table};
use tollgate_benches::rounds::{Row, Turn, compare};

use crate::roomy;

const CELLS: [u64; 3] = [16, 64, 1_024];
const THREADS: usize = 2;
/// Long enough that two threads which start slightly apart overlap nearly all the time.
const DECISIONS: usize = 400_000;
const REFRESH: Duration = Duration::from_millis(1);
const KEY: u64 = 7;

const CLOCKS: [&str; 3] = ["own clock", "coarse clock", "time given"];

pub(crate) fn run(options: &Options) {
    let coarse = CoarseClock::with_upkeep(REFRESH).expect("a thread");
    let mut rows = vec![
        without(CLOCKS[0], limiter(0, QuantaClock::new())),
        without(CLOCKS[1], limiter(0, coarse.clone())),
        without_given(limiter(0, QuantaClock::new())),
    ];
    for cells in CELLS {
        rows.push(lease(&name(cells, CLOCKS[0]), limiter(cells, QuantaClock::new())));
        rows.push(lease(&name(cells, CLOCKS[1]), limiter(cells, coarse.clone())));
        rows.push(lease_given(&name(cells, CLOCKS[2]), limiter(cells, QuantaClock::new())));
    }
    let figures = compare(options, DECISIONS, &rows);
    let title = "One hot key, 2 threads, a lease each";
    table(title, &figures);
    note(
        "10,000 cells a second: 16 come back in 1.6 ms, 64 in 6.4 ms and 1,024 in 0.1 s. The \
         coarse clock moves once in a millisecond.",
    );
    for cells in CELLS {
        for how in CLOCKS {
            compared(title, &figures, [&plain_name(how), &name(cells, how)]);
        }
    }
    println!();
}

fn plain_name(how: &str) -> String {
    format!("without leases, {how}")
}

fn name(cells: u64, how: &str) -> String {
    format!("leases of {cells}, {how}")
}

fn limiter<C: Clock>(cells: u64, clock: C) -> Limiter<u64, Gcra, C> {
    let builder = Limiter::builder(roomy()).algorithm(Gcra::new().leases(cells)).clock(clock);
    builder.capacity(1).build().expect("in range")
}

fn without<'a, C: Clock + Sync + 'a>(how: &str, gate: Limiter<u64, Gcra, C>) -> Row<'a> {
    Row::new(&plain_name(how), THREADS, move |turn| {
        let check = || usize::from(black_box(gate.check(&KEY).is_ok()));
        (0..turn.decisions).map(|_| check()).sum()
    })
}

fn without_given<'a>(gate: Limiter<u64>) -> Row<'a> {
    Row::new(&plain_name(CLOCKS[2]), THREADS, move |turn| {
        at_times(turn, |at| gate.ask(&KEY).at(at).check().is_ok())
    })
}

fn lease<'a, C: Clock + Sync + 'a>(name: &str, gate: Limiter<u64, Gcra, C>) -> Row<'a> {
    Row::new(name, THREADS, move |turn| {
        let mut lease = gate.lease(&KEY);
        (0..turn.decisions).map(|_| usize::from(black_box(lease.check().is_ok()))).sum()
    })
}

fn lease_given<'a>(name: &str, gate: Limiter<u64>) -> Row<'a> {
    Row::new(name, THREADS, move |turn| {
        let mut lease = gate.lease(&KEY);
        let mut last = Tick::ZERO;
        let admitted = at_times(turn, |at| {
            last = at;
            lease.ask().at(at).check().is_ok()
        });
        // Read from the lease's own clock, not from the limiter's.
        lease.refund_at(last);
        admitted
    })
}

/// Runs `decide` at times that advance.
fn at_times(turn: Turn, mut decide: impl FnMut(Tick) -> bool) -> usize {
    let (mut now, mut admitted) = (turn.start_nanos(), 0);
    for _ in 0..turn.decisions {
        now = Turn::later(now);
        admitted += usize::from(black_box(decide(Tick::from_nanos(black_box(now)))));
    }
    admitted
}
