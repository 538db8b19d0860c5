//! The cost of noting the keys that are denied (`TopKeys`).

use std::hint::black_box;

use tollgate::top::TopKeys;
use tollgate::{Limiter, Quota};
use tollgate_benches::keys::{self, Draw};
use tollgate_benches::options::Options;
use tollgate_benches::report::{compared, table};
use tollgate_benches::rounds::compare;

use crate::row;

const KEYS: usize = 100_000;
const ENTRIES: usize = 128;
const DECISIONS: usize = 50_000;

const DRAWS: [Draw; 3] = [Draw::One, Draw::Zipf, Draw::Uniform];

pub(crate) fn run(options: &Options) {
    let quota = black_box(Quota::per_day(1));
    let gate: Limiter<u64> =
        Limiter::builder(quota).capacity(KEYS as u64).build().expect("in range");
    for rank in 0..KEYS {
        assert!(gate.check(&keys::key(rank)).is_ok(), "a fresh key has a cell");
    }
    for draw in DRAWS {
        let sequence: Vec<u64> = keys::ranks(draw, KEYS).into_iter().map(keys::key).collect();
        for threads in [1, 2] {
            let alone = "denied, own clock";
            let noted = format!("denied and noted, {ENTRIES} entries, own clock");
            let top = TopKeys::new(ENTRIES);
            let rows = [
                row(alone, threads, &sequence, |key| gate.check(key).is_ok()),
                row(&noted, threads, &sequence, |key| top.watch(key, gate.check(key)).is_ok()),
            ];
            let figures = compare(options, DECISIONS, &rows);
            let title = format!("{KEYS} keys, {}, {threads} threads", draw.name());
            table(&title, &figures);
            compared(&title, &figures, [alone, &noted]);
        }
    }
    println!();
}
