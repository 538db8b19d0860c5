//! Bytes for a live key. Each limiter is measured in its own process.

use std::hint::black_box;
use std::process::Command;

use tollgate::{Limiter, Quota};
use tollgate_benches::keys;
use tollgate_benches::options::Options;
use tollgate_benches::peer::{self, nonzero};
use tollgate_benches::process::{resident_bytes, resident_peak_bytes};
use tollgate_benches::report::{self, Bound, heading, verdict};

/// The last count is the worst one for a hash map that doubles.
const COUNTS: [usize; 4] = [10_000, 100_000, 1_000_000, 1_800_000];

fn main() {
    let options = Options::from_args();
    if let Some(task) = &options.child {
        return child(task);
    }
    heading("memory: bytes for a live u64 key");
    let mut rows = Vec::new();
    let mut pairs = Vec::new();
    let mut worst: f64 = 0.0;
    for count in COUNTS {
        let [ours, theirs] = ["tollgate", "governor"].map(|limiter| {
            let measured = measure(limiter, count);
            rows.push(row(limiter, count, measured));
            measured.map(|bytes| bytes / float(count))
        });
        worst = ours[..3].iter().copied().fold(worst, f64::max);
        pairs.push((format!("resident, {count} keys"), ours[1], theirs[1]));
        pairs.push((format!("peak while filling, {count} keys"), ours[2], theirs[2]));
    }
    let header = ["limiter", "keys", "reserved", "resident", "peak while filling", "live"];
    report::text("Bytes a key", &header, rows);
    for (what, ours, theirs) in pairs {
        report::beside(&what, "bytes a key", ours, ("governor", theirs));
    }
    println!();
    let note = "the largest of all its figures";
    verdict("bytes a live key at the stated capacity", worst, Bound::AtMost(32.0), note);
}

/// A measurement as a row of the table.
fn row(limiter: &str, count: usize, [reserved, resident, peak, live]: [f64; 4]) -> Vec<String> {
    let per_key = |bytes: f64| format!("{:.1}", bytes / float(count));
    let reserved = if reserved > 0.0 { per_key(reserved) } else { "grows".to_owned() };
    let [resident, peak] = [resident, peak].map(per_key);
    vec![limiter.to_owned(), count.to_string(), reserved, resident, peak, live.to_string()]
}

/// Runs this program again as a child, and reads the four numbers that it prints.
fn measure(limiter: &str, count: usize) -> [f64; 4] {
    let program = std::env::current_exe().expect("this program has a path");
    let output = Command::new(program)
        .args(["--child", &format!("{limiter} {count}")])
        .output()
        .expect("this program can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("numbers");
    let numbers: Vec<f64> =
        text.split_whitespace().map(|word| word.parse().expect("a number")).collect();
    numbers.try_into().expect("four numbers")
}

/// Measures one limiter, and prints: bytes reserved, bytes resident, bytes at the peak, live keys.
fn child(task: &str) {
    let (limiter, count) = task.split_once(' ').expect("a limiter and a count");
    let count: usize = count.parse().expect("a count of keys");
    let fill = match limiter {
        "tollgate" => fill_tollgate,
        _ => fill_governor,
    };
    // Load code, calibration and the allocator's own pages before the measurement begins.
    fill(100, &mut |_, _| {});
    let before = resident_bytes();
    fill(count, &mut |reserved, live| {
        let resident = resident_bytes() - before;
        let peak = resident_peak_bytes().saturating_sub(before).max(resident);
        println!("{reserved} {resident} {peak} {live}");
    });
}

fn fill_tollgate(count: usize, report: &mut dyn FnMut(usize, usize)) {
    let quota = black_box(Quota::per_hour(1));
    let gate: Limiter<u64> =
        Limiter::builder(quota).capacity(count as u64).build().expect("in range");
    let denied = (0..count).filter(|rank| gate.check(&keys::key(*rank)).is_err()).count();
    assert!(denied <= keys::COINCIDING_MAX, "{denied} of {count} fresh keys are denied");
    let displaced = usize::try_from(gate.stats().evicted).expect("64 bits");
    report(gate.memory_bytes(), count - displaced);
}

fn fill_governor(count: usize, report: &mut dyn FnMut(usize, usize)) {
    let gate = peer::keyed(governor::Quota::per_hour(black_box(nonzero(1))));
    for rank in 0..count {
        assert!(gate.check_key(&keys::key(rank)).is_ok(), "a key asks for the first time");
    }
    report(0, gate.len());
}

#[allow(clippy::cast_precision_loss, reason = "counts of keys are far below 2^52")]
fn float(count: usize) -> f64 {
    count as f64
}
