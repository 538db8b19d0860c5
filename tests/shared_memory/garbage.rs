//! Another process writes arbitrary words into the block while decisions are made.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use proptest::prelude::*;

use tollgate::concurrency::{ConcurrencyLimiter, DirectConcurrency, WhenNoSlot};
use tollgate::dynamic::{DynamicGcra, Inherit};
use tollgate::{AnyAlgorithm, Direct, Limiter, OnFull};

use crate::body::{block, within};
use crate::seeds::seeds_of;
use crate::{Folder, KINDS, quota, words};

const SEED: u64 = 0x2545_f491_4f6c_dd1d;

/// Ends the writer when it is dropped.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn arbitrary_words_in_the_table_cause_no_panic() {
    for kind in KINDS {
        let folder = Folder::new();
        let gate = kind.build(&folder.shared(), quota(50)).expect("created");
        let file = OpenOptions::new().write(true).open(folder.path()).expect("a file");
        let words_in_file = file.metadata().expect("a file").len() / 8;
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut words = words(SEED);
                while !is_over.load(Ordering::Relaxed) {
                    let place = words.next().expect("endless") % words_in_file;
                    let word = words.next().expect("endless");
                    file.write_all_at(&word.to_ne_bytes(), place * 8).expect("written");
                }
            });
            // Also if a decision panics, so that the test ends.
            let _guard = Over(&is_over);
            for key in words(SEED).map(|word| word % 3_000).take(20_000) {
                let _ = gate.check(&key);
                let _ = gate.ask(&key).cells(3).peek();
                let _ = gate.allow(&key);
                if key % 100 == 0 {
                    gate.reset(&key);
                    let _ = (gate.len(), gate.stats());
                }
            }
        });
    }
}

/// Decides 3,000 times, while words of the block are overwritten between the decisions.
fn decide_in_a_spoilt_block(folder: &Folder, mut decide: impl FnMut(u64)) {
    let file = OpenOptions::new().write(true).open(folder.path()).expect("a file");
    let words_in_file = file.metadata().expect("a file").len() / 8;
    let mut words = words(SEED);
    let mut next = || words.next().expect("endless");
    for _ in 0..3_000 {
        // The first words after the header are a bucket, a limit, a quota, or counts.
        let near = next() % 2 == 0;
        let place = if near { 512 + next() % 128 } else { next() };
        let word = if next() % 4 == 0 { next() % 1_000 } else { next() };
        let place = place % words_in_file * 8;
        file.write_all_at(&word.to_ne_bytes(), place).expect("written");
        decide(next() % 50);
    }
    std::fs::remove_file(folder.path()).expect("removed");
}

#[test]
fn arbitrary_words_cause_no_panic_in_one_bucket() {
    let folder = Folder::new();
    for kind in KINDS {
        let algorithm: AnyAlgorithm = kind.algorithm.parse().expect("an algorithm");
        let gate = Direct::builder(quota(50)).algorithm(algorithm).build_shared(&folder.shared());
        let gate = gate.expect("created");
        decide_in_a_spoilt_block(&folder, |n| {
            let _ = (gate.check_n(n), gate.peek(), gate.allow());
            if n == 0 {
                gate.reset();
            }
        });
    }
}

#[test]
fn arbitrary_words_cause_no_panic_where_requests_are_in_flight() {
    let folder = Folder::new();
    let hold = Duration::from_secs(60);
    let all = DirectConcurrency::builder(9).max_hold(hold).build_shared(&folder.shared());
    let all = all.expect("created");
    decide_in_a_spoilt_block(&folder, |n| {
        let _ = (all.enter_n(n).map(|guard| guard.in_flight()), all.in_flight(), all.limit());
        let _ = all.set_limit(n);
    });
    let keyed = ConcurrencyLimiter::<u64>::builder(9)
        .max_hold(hold)
        .capacity(8)
        .when_no_slot(WhenNoSlot::SharedOverflow(5))
        .count_decisions()
        .build_shared(&folder.shared())
        .expect("created");
    decide_in_a_spoilt_block(&folder, |key| {
        let guards = (keyed.enter(&key), keyed.enter_n(&(key + 1), key));
        let _ = (keyed.in_flight(&key), keyed.stats(), keyed.len(), keyed.limit());
        drop(guards);
    });
}

#[test]
fn arbitrary_words_cause_no_panic_where_a_quota_changes() {
    let folder = Folder::new();
    let gate = Limiter::<u64>::builder(quota(50))
        .algorithm(DynamicGcra::new())
        .capacity(8)
        .on_full(OnFull::SharedOverflow(quota(9)))
        .count_decisions()
        .build_shared(&folder.shared())
        .expect("created");
    decide_in_a_spoilt_block(&folder, |key| {
        let _ = (gate.check(&key), gate.peek(&key), gate.quota(), gate.stats(), gate.len());
        if key == 0 {
            let _ = gate.set_quota(quota(40), Inherit::Proportional);
        }
    });
}

#[test]
fn arbitrary_words_in_the_header_are_refused_or_change_nothing() {
    let mut words = words(SEED);
    let folder = Folder::new();
    for round in 0..2_000 {
        if round % 100 == 0 {
            let _ = std::fs::remove_file(folder.path());
            drop(KINDS[0].build(&folder.shared(), quota(50)).expect("created"));
        }
        let file = OpenOptions::new().write(true).open(folder.path()).expect("a file");
        let (place, word) = (words.next().expect("endless") % 35, words.next().expect("endless"));
        file.write_all_at(&word.to_ne_bytes(), place * 8).expect("written");
        // Only the clock's origin, and what follows the header's last word, may be any word.
        if let Ok(gate) = KINDS[0].build(&folder.shared(), quota(50)) {
            assert!(place == 5 || place == 34, "word {place} was not checked");
            assert!(gate.check(&7).is_ok());
        }
    }
}

#[test]
fn a_spoilt_block_neither_panics_nor_hangs_on_random_bytes() {
    let folder = Folder::new();
    let mut config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = 1_500;
    }
    let limit = Duration::from_secs(120 + u64::from(config.cases) / 50);
    within(limit, || {
        proptest!(config, |(data in prop::collection::vec(any::<u8>(), 0..600))| {
            block(&folder.path(), &data);
        });
    });
}

#[test]
fn a_spoilt_block_neither_panics_nor_hangs_on_the_kept_seeds() {
    let folder = Folder::new();
    within(Duration::from_secs(60), || {
        let seeds = seeds_of("block");
        assert!(seeds.len() >= 4, "{} seeds", seeds.len());
        seeds.iter().for_each(|seed| block(&folder.path(), seed));
    });
}

/// All words of a log's table are one that a random case has found.
#[test]
fn a_log_whose_words_are_all_the_same_claim_decides_in_bounded_time() {
    let folder = Folder::new();
    let word = 0x79b6_0936_6736_89e6_u64.to_le_bytes();
    within(Duration::from_secs(60), || {
        for on_full in 0..3 {
            let fill = [[8, on_full, 25, 5, 3, 0].as_slice(), &word].concat();
            block(&folder.path(), &fill);
        }
    });
}
