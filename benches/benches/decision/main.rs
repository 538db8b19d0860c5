//! One bucket, one thread: a decision compared with its minimum cost.

mod algorithms;

use std::hint::black_box;

use quanta::Instant;
use tollgate::clock::QuantaClock;
use tollgate::{Clock, Direct, Quota, Tick};
use tollgate_benches::floor::{Cell, Words};
use tollgate_benches::options::Options;
use tollgate_benches::report::{Bound, heading, table, target};
use tollgate_benches::rounds::{Row, Turn, compare};
use tollgate_benches::{keys, report};

/// Decisions in a round: well under 1 ms.
const DECISIONS: usize = 50_000;

fn main() {
    let options = Options::from_args();
    heading("decision: one bucket, one thread");
    decisions(&options);
    parts(&options);
    heading("decision: each algorithm, by each clock");
    algorithms::all(&options);
}

/// Runs `decide` once for each decision, without a given time.
#[inline]
fn own_clock(turn: Turn, mut decide: impl FnMut() -> bool) -> usize {
    let mut admitted = 0;
    for _ in 0..turn.decisions {
        admitted += usize::from(black_box(decide()));
    }
    admitted
}

/// Runs `decide` once for each decision, with a time that advances.
#[inline]
fn time_given(turn: Turn, mut decide: impl FnMut(u64) -> bool) -> usize {
    let mut admitted = 0;
    let mut now = turn.start_nanos();
    for _ in 0..turn.decisions {
        now = Turn::later(now);
        // Opaque, so that the compiler cannot carry the position on the time grid along by
        // additions.
        admitted += usize::from(black_box(decide(black_box(now))));
    }
    admitted
}

/// Like [`own_clock`], for a floor.
#[inline]
fn bare<T>(turn: Turn, mut read: impl FnMut() -> T) {
    for _ in 0..turn.decisions {
        black_box(read());
    }
}

/// Like [`time_given`], for a floor.
#[inline]
fn bare_at<T>(turn: Turn, mut read: impl FnMut(u64) -> T) {
    let mut now = turn.start_nanos();
    for _ in 0..turn.decisions {
        now = Turn::later(now);
        black_box(read(black_box(now)));
    }
}

/// A bucket that is always in debt and never at its limit.
fn roomy() -> Direct {
    Direct::new(black_box(Quota::per_second(100_000).burst(4_000_000_000))).expect("in range")
}

/// A bucket that is empty for the next hour, by both clocks.
fn exhausted() -> Direct {
    let gate = Direct::new(black_box(Quota::per_hour(1))).expect("in range");
    assert!(gate.ask().at(Tick::from_nanos(2_000_000_000)).check().is_ok());
    gate
}

fn decisions(options: &Options) {
    let clock = QuantaClock::new();
    let (own, given, told) = (roomy(), roomy(), roomy());
    let empty = exhausted();
    let (cell, timed_cell) = (Cell::default(), Cell::default());
    let rows = [
        Row::floor("clock read", 1, |turn| bare(turn, || clock.now())),
        Row::floor("clock read + CAS loop", 1, |turn| {
            bare(turn, || timed_cell.charge(clock.now().as_nanos(), black_box(10_000)));
        }),
        Row::new("admit, own clock", 1, |turn| own_clock(turn, || own.check().is_ok())),
        Row::new("deny, own clock", 1, |turn| own_clock(turn, || empty.check().is_ok())),
        Row::new("deny, own clock, reads retry_after", 1, |turn| {
            own_clock(turn, || match empty.check() {
                Ok(_) => true,
                Err(denied) => black_box(denied.retry_after()).is_none(),
            })
        }),
        Row::floor("CAS loop", 1, |turn| {
            bare_at(turn, |now| cell.charge(now, black_box(10_000)));
        }),
        Row::new("admit, time given", 1, |turn| {
            time_given(turn, |now| given.ask().at(Tick::from_nanos(now)).check().is_ok())
        }),
        Row::new("admit, time given, reads remaining", 1, |turn| {
            time_given(turn, |now| match told.ask().at(Tick::from_nanos(now)).check() {
                Ok(permit) => black_box(permit.remaining()) < u64::MAX,
                Err(_) => false,
            })
        }),
        Row::new("deny, time given", 1, |turn| {
            time_given(turn, |now| empty.ask().at(Tick::from_nanos(now)).check().is_ok())
        }),
    ];
    let figures = compare(options, DECISIONS, &rows);
    table("Decisions", &figures);
    let direct = |what: &str, over: &str, under: &str, most: f64| {
        target(what, &figures, [over, under], Bound::AtMost(most));
    };
    direct("direct admit, own clock", "admit, own clock", "clock read + CAS loop", 1.1);
    direct("direct deny, own clock", "deny, own clock", "clock read", 1.1);
    direct("direct admit, time given", "admit, time given", "CAS loop", 1.1);
    direct("direct deny, time given", "deny, time given", "CAS loop", 1.1);
}

/// The parts of a decision, each by itself.
fn parts(options: &Options) {
    println!();
    let ours = QuantaClock::new();
    let quanta = quanta::Clock::new();
    let words = Words::new(1_000);
    let sequence: Vec<u64> = (0..1_024).map(keys::key).collect();
    let key = |index: u64| sequence[usize::try_from(index / 16 % 1_024).expect("small")];
    let rows = [
        Row::floor("an empty loop", 1, |turn| bare_at(turn, |now| now)),
        Row::floor("quanta::Clock::raw (the counter)", 1, |turn| bare(turn, || quanta.raw())),
        Row::floor("quanta::Clock::now", 1, |turn| bare(turn, || -> Instant { quanta.now() })),
        Row::floor("tollgate::clock::QuantaClock::now", 1, |turn| bare(turn, || ours.now())),
        Row::floor("std::time::Instant::now", 1, |turn| bare(turn, system_clock)),
        Row::floor("ahash of a u64", 1, |turn| bare_at(turn, |now| words.hash(key(now)))),
        Row::floor("ahash of a u64 + load", 1, |turn| bare_at(turn, |now| words.load(key(now)))),
        Row::floor("ahash of a u64 + CAS loop", 1, |turn| {
            bare_at(turn, |now| words.charge(key(now), now, black_box(10_000)));
        }),
    ];
    let figures = compare(options, DECISIONS, &rows);
    report::table("Parts (1,000 keys in turn, where there are keys)", &figures);
}

#[allow(clippy::disallowed_types, reason = "it is what is measured")]
fn system_clock() -> std::time::Instant {
    std::time::Instant::now()
}
