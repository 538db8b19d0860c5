//! Saving and restoring a million live keys: time, and bytes for each.
//!
//! `cargo bench -p tollgate-benches --bench snapshot`

use std::hint::black_box;

use tollgate::clock::QuantaClock;
use tollgate::limiter::SlotLayout;
use tollgate::{Builder, Clock, Limiter, Quota};

const KEYS: u64 = 1_000_000;
const ROUNDS: usize = 9;

fn builder(slots: SlotLayout) -> Builder<u64> {
    Limiter::builder(Quota::per_day(1_000)).capacity(KEYS).slots(slots)
}

fn main() {
    println!("{KEYS} live keys in a table for as many, one thread, median and range of {ROUNDS}");
    let clock = QuantaClock::new();
    for (name, slots) in [("wide", SlotLayout::Wide), ("compact", SlotLayout::Compact)] {
        let gate = builder(slots).build().expect("in range");
        for key in 0..KEYS {
            let _ = gate.check_n(&key, 1 + key % 7);
        }
        let (mut saving, mut restoring, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let begun = clock.now();
            bytes = black_box(gate.snapshot());
            let saved = clock.now();
            let restored = builder(slots).restore(&bytes).expect("unharmed");
            let done = clock.now();
            saving.push(saved.since(begun));
            restoring.push(done.since(saved));
            black_box(restored);
        }
        let keys = u64::from_le_bytes(bytes[24..32].try_into().expect("eight bytes"));
        #[allow(clippy::cast_precision_loss, reason = "figures to read")]
        let each = bytes.len() as f64 / keys as f64;
        println!("{name}: {keys} keys, {} bytes, {each:.2} a key", bytes.len());
        for (what, times) in [("save", &mut saving), ("restore", &mut restoring)] {
            times.sort_unstable();
            let [least, median, most] = [0, ROUNDS / 2, ROUNDS - 1].map(|place| times[place]);
            println!("  {what}: {median:.1?} ({least:.1?} to {most:.1?})");
        }
    }
}
