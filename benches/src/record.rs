//! Saves the items that a bench prints, if the option `--save DIR` is given.
//!
//! A bench is a process of its own, so it has one record. The first heading begins the record, and
//! each further heading begins a section. The file is rewritten with each item, so a bench need not
//! announce its end. Items before the first heading are not saved.

#![allow(clippy::disallowed_types, reason = "nothing here is on the limiter's path")]

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Instant;

use crate::options::Options;
use crate::process;
use crate::saved::{Item, Noise, Saved, Section, rounded};

static RECORD: Mutex<Option<Record>> = Mutex::new(None);

struct Record {
    dir: PathBuf,
    saved: Saved,
    /// The processors' time when the bench began.
    began: process::Ticks,
    begun: Instant,
}

/// Records a heading.
///
/// # Panics
///
/// If another thread panicked while it held the lock.
pub fn begin(title: &str) {
    let mut record = RECORD.lock().expect("no panic");
    if record.is_none() {
        *record = Record::new();
    }
    if let Some(record) = record.as_mut() {
        record.saved.sections.push(Section { title: title.to_owned(), items: Vec::new() });
    }
}

/// Records an item.
///
/// # Panics
///
/// If another thread panicked while it held the lock, or the file cannot be written.
pub fn add(item: Item) {
    if let Some(record) = RECORD.lock().expect("no panic").as_mut() {
        record.add(item);
    }
}

impl Record {
    /// The record of this process, if it is to be saved.
    fn new() -> Option<Self> {
        let options = Options::from_args();
        let noise = Noise { load_average: process::load_average(), ..Noise::default() };
        let saved = Saved {
            bench: process::bench(),
            machine: process::machine(),
            date: process::date(),
            commit: process::commit(),
            seconds: 0,
            rounds: options.rounds,
            only: options.only,
            noise,
            sections: Vec::new(),
        };
        Some(Self { dir: options.save?, saved, began: process::ticks(), begun: Instant::now() })
    }

    fn add(&mut self, item: Item) {
        self.saved.noise.stolen_percent = rounded(self.began.stolen_percent(process::ticks()));
        self.saved.noise.preemptions = process::preemptions();
        self.saved.seconds = self.begun.elapsed().as_secs();
        let section = self.saved.sections.last_mut().expect("a heading comes first");
        section.items.push(item);
        self.saved.write(&self.dir);
    }
}
