//! Another process writes arbitrary words into the block while decisions are made.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};

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
