//! What is checked of bytes: the bodies of the fuzz targets, which run as properties on stable
//! too (`tests/fuzz_bodies.rs`), and what the other tests share with them.
//!
//! Bytes that run out are zeros, so every input means something.

#![allow(dead_code, reason = "each of the tests and fuzz targets uses a part")]

pub(crate) mod choice;
mod cursor;
pub(crate) mod grid;
pub(crate) mod keyed;
pub(crate) mod total;

use choice::{Choice, Cost, ORIGIN_2025};
use cursor::Cursor;
use keyed::{Keyed, Operation, Setup};
use tollgate::algo::{Algorithm, Machine};

/// Steps from any word, at any instant, for any cost.
pub(crate) fn words(data: &[u8]) {
    let mut cursor = Cursor::new(data);
    let (choice, quota) = (cursor.choice(), cursor.quota());
    let (near, word, now) = (cursor.byte() % 3, cursor.long(), cursor.tick());
    let mut asked: Vec<Cost> = Vec::new();
    while !cursor.is_empty() && asked.len() < 64 {
        asked.push(cursor.cost());
    }
    let (fits, most) = (choice.fits(&quota), choice.granted_max(&quota));
    match choice {
        Choice::Bucket(gcra) => {
            let Ok(params) = gcra.params(&quota, ORIGIN_2025) else { return };
            let word = near_or_any(near, word, params.fresh(now));
            total::steps_are_total(&params, word, (now, fits, most), u64::MAX, &asked);
        }
        Choice::Queue(queue) => {
            let Ok(params) = queue.params(&quota, ORIGIN_2025) else { return };
            let word = near_or_any(near, word, params.fresh(now));
            total::steps_are_total(&params, word, (now, fits, most), u64::MAX, &asked);
        }
        Choice::WarmUp(pace) => {
            let Ok(params) = pace.algorithm().params(&quota, ORIGIN_2025) else { return };
            let word = near_or_any(near, word, params.fresh(now));
            total::steps_are_total(&params, word, (now, fits, most), u64::MAX, &asked);
        }
        Choice::Window(window) => {
            let Ok(params) = window.params(&quota, ORIGIN_2025) else { return };
            let word = near_or_any(near, word, params.fresh(now));
            let latest = u64::MAX - grid::nanos(quota.period());
            total::steps_are_total(&params, word, (now, fits, most), latest, &asked);
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

/// A keyed limiter of a few slots, against one oracle a key.
pub(crate) fn operations(data: &[u8]) {
    let mut cursor = Cursor::new(data);
    let choice = cursor.choice();
    let setup = cursor.setup();
    let mut operations: Vec<Operation> = Vec::new();
    while !cursor.is_empty() && operations.len() < 4_096 {
        operations.push(cursor.operation());
    }
    run(choice, &setup, &operations);
}

/// Runs the operations on a limiter with the setup; nothing, if the setup cannot be built.
pub(crate) fn run(choice: Choice, setup: &Setup, operations: &[Operation]) {
    match choice {
        Choice::Bucket(gcra) => run_on(Keyed::new(gcra, choice, setup), operations),
        Choice::Queue(queue) => run_on(Keyed::new(queue, choice, setup), operations),
        Choice::WarmUp(pace) => run_on(Keyed::new(pace.algorithm(), choice, setup), operations),
        Choice::Window(window) => run_on(Keyed::new(window, choice, setup), operations),
    }
}

fn run_on<A: Algorithm>(keyed: Option<Keyed<A>>, operations: &[Operation]) {
    let Some(mut keyed) = keyed else { return };
    for operation in operations {
        keyed.apply(operation);
    }
    keyed.finish();
}
