//! Another process writes arbitrary words into the block while decisions are made.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use proptest::prelude::*;

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
