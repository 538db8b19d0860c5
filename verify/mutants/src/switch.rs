//! The switch of the mutants. The tool adds this file to its copy of the crate.
//!
//! `TOLLGATE_MUTANT=70` switches mutant 70 on. `TOLLGATE_MUTANT=record:FILE` writes the number of each place
//! to the file when it is reached first.

use std::fs::File;
use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Nothing was read from the environment yet, or the places that are reached are written to a file.
const UNUSUAL: u32 = 0;
/// Larger than the number of any mutant.
const OFF: u32 = u32::MAX;

static ACTIVE: AtomicU32 = AtomicU32::new(UNUSUAL);
static RECORD: OnceLock<File> = OnceLock::new();
static REACHED: [AtomicU64; 1 << 10] = [const { AtomicU64::new(0) }; 1 << 10];

/// Which mutant of a place is on: 1 to `count`, or 0. `first` is the number of the place's first mutant.
#[inline(always)]
pub const fn at(first: u32, count: u32) -> u32 {
    core::intrinsics::const_eval_select((first, count), while_compiling, while_running)
}

const fn while_compiling(_first: u32, _count: u32) -> u32 {
    0
}

// One branch, since it is copied to thousands of places.
#[inline(always)]
fn while_running(first: u32, count: u32) -> u32 {
    let active = ACTIVE.load(Ordering::Relaxed);
    if (active == UNUSUAL) | (active.wrapping_sub(first) < count) {
        return on_or_unusual(active, first, count);
    }
    0
}

#[cold]
#[inline(never)]
fn on_or_unusual(active: u32, first: u32, count: u32) -> u32 {
    if active != UNUSUAL {
        return active - first + 1;
    }
    let Some(mut file) = RECORD.get() else {
        let text = std::env::var("TOLLGATE_MUTANT").unwrap_or_default();
        match text.strip_prefix("record:") {
            None => {
                let number = text.parse().ok().filter(|number| *number != UNUSUAL);
                ACTIVE.store(number.unwrap_or(OFF), Ordering::Relaxed);
            }
            Some(path) => {
                let opened = File::options().create(true).append(true).open(path);
                RECORD.get_or_init(|| opened.expect("the record cannot be opened"));
            }
        }
        return while_running(first, count);
    };
    let (word, bit) = (first as usize / 64 % REACHED.len(), 1 << (first % 64));
    if REACHED[word].load(Ordering::Relaxed) & bit == 0
        && REACHED[word].fetch_or(bit, Ordering::Relaxed) & bit == 0
    {
        // One write, so that the lines of several processes stay whole.
        let (mut line, mut rest) = (*b"0000000\n", first);
        for digit in line[..7].iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        let _ = file.write_all(&line);
    }
    0
}
