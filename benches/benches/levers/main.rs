//! The cost and gain of options: batches, huge pages, hashers, counting, tiered clocks, leases by a handle
//! and of hot keys, and the keys that are denied most.

mod features;
mod hot_keys;
mod keyed;
mod leases;
mod top_keys;

use std::hint::black_box;

use ahash::RandomState;
use foldhash::fast::RandomState as Foldhash;
use tollgate::Quota;
use tollgate_benches::keys;
use tollgate_benches::options::Options;
use tollgate_benches::report::{heading, note, table};
use tollgate_benches::rounds::{Row, compare};

/// The keys, which are hashed in turn.
const HASHED: usize = 1_024;
const DECISIONS: usize = 50_000;

fn main() {
    let options = Options::from_args();
    let full = std::env::args().any(|arg| arg == "--full");
    heading("levers: batches, huge pages, counting and TieredClock, one thread, uniform keys");
    keyed::run(&options, full);
    heading("levers: leases, one hot key, two threads, admitted");
    leases::run(&options);
    heading("levers: hot keys leased, by each algorithm");
    hot_keys::run(&options);
    heading("levers: TopKeys, all denied");
    top_keys::run(&options);
    heading("levers: what goes with a limiter, admitted");
    features::run(&options);
    heading("levers: hashers");
    hashers(&options);
}

/// Asks about the keys of a sequence; each thread takes a part of it.
fn row<'a>(
    name: &str,
    threads: usize,
    sequence: &'a [u64],
    check: impl Fn(&u64) -> bool + Sync + 'a,
) -> Row<'a> {
    Row::new(name, threads, move |turn| {
        let (first, second) = turn.part(sequence, threads);
        first.iter().chain(second).map(|key| usize::from(black_box(check(key)))).sum()
    })
}

/// Always in debt, and never at its limit.
fn roomy() -> Quota {
    black_box(Quota::per_second(10_000).burst(2_000_000_000))
}

fn hashers(options: &Options) {
    let numbers: Vec<u64> = (0..HASHED).map(keys::key).collect();
    let texts = fifteen_bytes();
    let (ahash, foldhash) = (RandomState::new(), Foldhash::default());
    let rows = [
        Row::floor("ahash, u64", 1, |turn| {
            numbers.iter().cycle().take(turn.decisions).for_each(|key| {
                black_box(ahash.hash_one(black_box(key)));
            });
        }),
        Row::floor("foldhash, u64", 1, |turn| {
            numbers.iter().cycle().take(turn.decisions).for_each(|key| {
                black_box(std::hash::BuildHasher::hash_one(&foldhash, black_box(key)));
            });
        }),
        Row::floor("ahash, 15 bytes", 1, |turn| {
            texts.iter().cycle().take(turn.decisions).for_each(|key| {
                black_box(ahash.hash_one(black_box(key)));
            });
        }),
        Row::floor("foldhash, 15 bytes", 1, |turn| {
            texts.iter().cycle().take(turn.decisions).for_each(|key| {
                black_box(std::hash::BuildHasher::hash_one(&foldhash, black_box(key)));
            });
        }),
    ];
    table("Hashes of 1,024 keys in turn", &compare(options, DECISIONS, &rows));
    note(
        "tollgate has ahash with random keys, so that clients cannot choose keys that collide. foldhash \
         is quick, and by its own words only minimally resistant to that.",
    );
}

/// Addresses as text, of the maximum length.
fn fifteen_bytes() -> Vec<String> {
    (0..).map(keys::address).filter(|text| text.len() == 15).take(HASHED).collect()
}
