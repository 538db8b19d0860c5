//! The bodies of the fuzz targets: checks of the library on decoded bytes. They also run as
//! properties on the stable compiler (`tests/oracle/fuzz_bodies.rs`), and other tests share parts of them.
//!
//! Bytes that run out read as zeros, so every input is valid.

#![allow(dead_code, reason = "each of the tests and fuzz targets uses a part")]

mod accounts;
pub(crate) mod back;
mod changes;
pub(crate) mod choice;
mod cost;
mod cursor;
pub(crate) mod grid;
pub(crate) mod keyed;
mod log_rates;
pub(crate) mod mistake;
pub(crate) mod moves;
pub(crate) mod numbers;
pub(crate) mod refund_model;
pub(crate) mod snapshot;
pub(crate) mod span;
pub(crate) mod total;

use back::{charges_ahead_are_total, refunds_are_total};
use choice::{Choice, Cost, Kind, ORIGIN_2025, Refunding, with_algorithm};
use cursor::Cursor;
use keyed::{Keyed, Operation, Setup};
use tollgate::algorithm::Algorithm;
use tollgate::internals::{Receipt, StateMachine};
use tollgate::{OnFull, Quota, Tick};
use total::{Cells, steps_are_total};

#[allow(unused_imports, reason = "one test chooses among them")]
pub(crate) use cursor::{FIRST_RING, LAST_RING};
#[allow(unused_imports, reason = "one test calls them")]
pub(crate) use {accounts::accounts, changes::changes};

/// Steps from any word, with any ring beside it, at any instant, for any cost.
pub(crate) fn words(data: &[u8]) {
    let mut cursor = Cursor::new(data);
    let (choice, quota) = (cursor.choice(), cursor.quota());
    let (choice, quota) = cursor.for_log(choice, quota, 300);
    let (near, word, now) = (cursor.byte() % 3, cursor.long(), cursor.tick());
    let (mut about, mut cells) = (0, Vec::new());
    if choice.kind().has_ring() {
        about = cursor.byte() % 3;
        cells.extend((0..cursor.byte() % 24).map(|_| cursor.long()));
    }
    let mut asked: Vec<Cost> = Vec::new();
    while !cursor.is_empty() && asked.len() < 64 {
        asked.push(cursor.cost());
    }
    with_algorithm!(choice, algorithm => {
        let Ok(params) = algorithm.params(&quota, ORIGIN_2025) else { return };
        let fresh = params.fresh(now);
        let word = near_or_any(near, word, fresh);
        cells.iter_mut().for_each(|cell| *cell = near_or_any(about, *cell, fresh));
        let ring = if cells.is_empty() { Cells::Empty } else { Cells::Any(&cells) };
        let at = (now, choice.fits(&quota), choice.max_granted(&quota));
        let latest = grid::waits_end(&params, choice, &quota, now.as_nanos());
        steps_are_total(&params, (word, ring), at, latest, &asked);
    });
    refunds(choice, &quota, (near, word, now), data, &asked);
}

/// Refunds to the same words. Further parameters are read from the end of the input, so that older
/// seeds keep their meaning.
fn refunds(
    choice: Choice,
    quota: &Quota,
    (near, word, now): (u8, u64, Tick),
    data: &[u8],
    asked: &[Cost],
) {
    let reversed: Vec<u8> = data.iter().rev().copied().collect();
    let mut cursor = Cursor::new(&reversed);
    let (fits, kind) = (choice.fits(quota), cursor.byte() % 3);
    let (cells, at, wait) = (cursor.cost().cells(fits, 1), cursor.tick(), cursor.long() >> 1);
    let next = cursor.long();
    for n in asked.iter().map(|cost| cost.cells(fits, 1)) {
        match choice.refunding() {
            Refunding::Bucket(bucket) => {
                let Ok(params) = bucket.params(quota, ORIGIN_2025) else { return };
                let word = near_or_any(near, word, params.fresh(now));
                let receipt =
                    Receipt { cells, at, next: near_or_any(kind, next, params.fresh(at)) };
                let latest = grid::waits_end(&params, choice, quota, now.as_nanos());
                refunds_are_total(&params, word, &receipt, (now, fits, latest), n);
                charges_ahead_are_total(&params, word, (now, fits), n, wait >> (kind * 20));
            }
            Refunding::Window(window) => {
                let Ok(params) = window.params(quota, ORIGIN_2025) else { return };
                let word = near_or_any(near, word, params.fresh(now));
                // A receipt of the same window, or any receipt.
                let next = if kind == 0 { word } else { near_or_any(kind, next, word) };
                let receipt = Receipt { cells, at, next };
                let latest = grid::waits_end(&params, choice, quota, now.as_nanos());
                refunds_are_total(&params, word, &receipt, (now, fits, latest), n);
            }
            Refunding::None => return,
        }
    }
}

fn near_or_any(near: u8, word: u64, fresh: u64) -> u64 {
    match near {
        0 => word,
        1 => fresh.wrapping_add(word),
        _ => fresh.wrapping_sub(word),
    }
}

/// A keyed limiter of a few slots, compared with one oracle for each key.
pub(crate) fn operations(data: &[u8]) {
    let mut cursor = Cursor::new(data);
    let choice = cursor.choice();
    let mut setup = cursor.setup();
    // The oracles' logs are copied for every check.
    let (choice, quota) = cursor.for_log(choice, setup.quota, 64);
    setup.quota = quota;
    if let (Kind::Log, OnFull::SharedOverflow(shared)) = (choice.kind(), setup.on_full) {
        let shared = Quota::new(shared.limit() % 64, quota.period());
        setup.on_full = OnFull::SharedOverflow(shared);
    }
    let mut operations: Vec<Operation> = Vec::new();
    while !cursor.is_empty() && operations.len() < 4_096 {
        operations.push(cursor.operation());
    }
    run(choice, &setup, &operations);
}

/// Runs the operations on a limiter with the setup; does nothing if the setup cannot be built.
pub(crate) fn run(choice: Choice, setup: &Setup, operations: &[Operation]) {
    with_algorithm!(choice, algorithm => {
        run_on(Keyed::new(algorithm, choice, setup), operations);
    });
}

fn run_on<A: Algorithm>(keyed: Option<Keyed<A>>, operations: &[Operation]) {
    let Some(mut keyed) = keyed else { return };
    for operation in operations {
        keyed.apply(operation);
    }
    keyed.finish();
}
