//! A flood of keys that never return, through a table that holds a fiftieth of them.

use std::hint::black_box;

use quanta::Clock as Counter;
use tollgate::{Clock as _, Direct, Gcra, Limiter, ManualClock, Quota, Tick};
use tollgate_benches::calls::Calls;
use tollgate_benches::options::Options;
use tollgate_benches::process::resident_bytes;
use tollgate_benches::report::{Bound, heading, verdict};
use tollgate_benches::rounds::{Row, compare};
use tollgate_benches::timer::read_alone;
use tollgate_benches::{keys, report};

/// The capacity of the table.
const CAPACITY: u64 = 1_000_000;
/// Unique keys between two samples of the resident memory.
const CHUNK: u64 = 5_000_000;

fn main() {
    let options = Options::from_args();
    heading("flood: unique keys through a table of 1,000,000");
    // The first chunk fills the table, so it is not measured.
    let chunks = (options.flood_millions * 1_000_000 / CHUNK).max(2);
    flood("10/s burst 10: the table keeps up", Quota::per_second(10).burst(10), chunks);
    let chunks = chunks.div_ceil(2).max(2);
    flood("1/s burst 10: more live keys than slots", Quota::per_second(1).burst(10), chunks);
    heading("flood: new keys, nothing else");
    new_keys(&options);
}

/// Keys that ask once, through a table that every page of was touched. They become idle before their slots
/// are needed.
fn new_keys(options: &Options) {
    const DECISIONS: usize = 50_000;
    const BEFORE: usize = 5_000_000;
    let gate = Limiter::builder(black_box(Quota::per_second(1_000).burst(10)));
    let gate = gate.capacity(CAPACITY).build().expect("in range");
    for index in 0..BEFORE {
        black_box(gate.check(&keys::key(index)).is_ok());
    }
    let name = "tollgate, own clock";
    let row = Row::new(name, 1, |turn| {
        let first = BEFORE + turn.round * turn.decisions;
        let asked = (first..first + turn.decisions).map(|index| gate.check(&keys::key(index)));
        asked.map(|answer| usize::from(black_box(answer.is_ok()))).sum()
    });
    let figures = compare(options, DECISIONS, &[row]);
    report::table("New keys, 1 thread", &figures);
    let Some(row) = figures.first() else { return };
    let [_, median, _] = report::quartiles(&row.nanos);
    let note = "a thousand divided by the median nanoseconds";
    verdict("flood: new keys a second, millions", 1_000.0 / median, Bound::AtLeast(5.0), note);
}

fn flood(title: &str, quota: Quota, chunks: u64) {
    let quota = black_box(quota);
    let gate = Limiter::builder(quota).capacity(CAPACITY).build().expect("in range");
    let mut steady = Steady::new(quota);
    let counter = Counter::new();
    let mut filling = Calls::new("flood, the first 5 M (the table becomes resident)");
    let mut flood = Calls::new("flood, the rest");
    let mut timer = Calls::new("control, nothing but the timer, for as long");
    let mut misses = Calls::new("control, two words of as much memory, for as long");
    // Not zeros, so that every page is resident.
    let mut memory = vec![1_u64; gate.memory_bytes() / size_of::<u64>()];
    let besides = gate.memory_bytes() as u64;
    let mut resident = Vec::new();
    let mut samples = Vec::new();
    for chunk in 0..chunks {
        let calls = if chunk == 0 { &mut filling } else { &mut flood };
        let spent = pour(&gate, &counter, calls, &mut steady, chunk * CHUNK);
        let bytes = resident_bytes() - besides;
        resident.push(bytes);
        samples.push(sample(&gate, (chunk + 1) * CHUNK, bytes, spent));
        if chunk > 0 {
            timer.idle(&counter, spent);
            random_accesses(&mut memory, &counter, &mut misses, spent);
        }
    }
    report::text(title, &["unique keys", "RSS MB", "live", "evicted", "M/s"], samples);
    report::calls(&format!("{title}: calls"), &[&filling, &flood, &misses, &timer]);
    print_targets(&resident, &flood, &misses, &timer);
    steady.print_target();
    println!();
}

/// Sends the next unique keys, and the steady keys among them. Returns the nanoseconds that it
/// took.
fn pour(
    gate: &Limiter<u64>,
    counter: &Counter,
    calls: &mut Calls,
    steady: &mut Steady,
    first: u64,
) -> u64 {
    calls.watch(counter, |calls| {
        for index in first..first + CHUNK {
            let key = keys::key(usize::try_from(index).expect("64 bits"));
            let start = read_alone(counter);
            black_box(gate.check(&key).is_ok());
            let end = read_alone(counter);
            calls.record(counter.delta_as_nanos(start, end));
            steady.visit(gate, counter, end);
        }
    })
}

/// Adds words at random to others, for `span_nanos` nanoseconds. Each call misses the caches twice, as one of the
/// flood does that looks into two buckets, and does nothing else.
fn random_accesses(memory: &mut [u64], counter: &Counter, calls: &mut Calls, span_nanos: u64) {
    let words = memory.len() as u64;
    let place = |key: u64| usize::try_from(key % words).expect("below a length");
    calls.watch(counter, |calls| {
        let begin = counter.raw();
        for index in 0.. {
            let key = keys::key(index);
            let (from, to) = (place(key), place(key.rotate_left(32)));
            let start = read_alone(counter);
            memory[to] += memory[from];
            let end = read_alone(counter);
            calls.record(counter.delta_as_nanos(start, end));
            if counter.delta_as_nanos(begin, end) > span_nanos {
                break;
            }
        }
    });
    black_box(memory);
}

#[allow(clippy::cast_precision_loss, reason = "megabytes and microseconds")]
fn sample(gate: &Limiter<u64>, keys: u64, resident: u64, spent: u64) -> Vec<String> {
    vec![
        keys.to_string(),
        format!("{:.1}", resident as f64 / 1e6),
        gate.len().to_string(),
        gate.stats().evicted.to_string(),
        format!("{:.1}", CHUNK as f64 * 1e3 / spent as f64),
    ]
}

#[allow(clippy::cast_precision_loss, reason = "megabytes and counts")]
fn print_targets(resident: &[u64], flood: &Calls, misses: &Calls, timer: &Calls) {
    let (Some(&first), Some(&last)) = (resident.first(), resident.last()) else { return };
    let growth = last as f64 / first as f64;
    let note = "the last sample over the first";
    verdict("flood: resident memory", growth, Bound::AtMost(1.01), note);
    for (of_what, control) in [("the scheduler's", timer), ("those of memory", misses)] {
        let slow = (flood.slow() as f64 + 1.0) / (control.slow() as f64 + 1.0);
        let note = format!(
            "one more than the {} calls over 100 us, over one more than the control's {}",
            flood.slow(),
            control.slow()
        );
        verdict(&format!("flood: slow calls beside {of_what}"), slow, Bound::AtMost(1.3), &note);
    }
}

/// Keys that ask for less than their quota during the flood.
///
/// One of them asks at a time. They ask in blocks of 50. A block asks three times in a row and then
/// waits for the other blocks, so each key asks for 0.83 of its rate on average, and is in debt at
/// two requests of three. An exact limiter for each key, with the same quota, says what its bucket
/// should hold.
struct Steady {
    exact: Vec<Direct<Gcra, ManualClock>>,
    every_nanos: u64,
    next_raw: u64,
    step: usize,
    asked: u64,
    denied: u64,
    forgotten: u64,
}

impl Steady {
    const KEYS: usize = 1_000;
    const BLOCK: usize = 50;
    const TIMES: usize = 3;
    /// Above all keys of the flood, before mixing.
    const FIRST_KEY: usize = 1 << 40;

    fn new(quota: Quota) -> Self {
        let exact = |_| Direct::builder(quota).clock(ManualClock::new()).build().expect("in range");
        let exact = (0..Self::KEYS).map(exact).collect();
        let period = u64::try_from(quota.period().as_nanos()).expect("seconds");
        let every_nanos = period / quota.limit() * 6 / 5 / Self::KEYS as u64;
        Self { exact, every_nanos, next_raw: 0, step: 0, asked: 0, denied: 0, forgotten: 0 }
    }

    #[inline]
    fn visit(&mut self, gate: &Limiter<u64>, counter: &Counter, raw: u64) {
        if raw >= self.next_raw {
            self.ask(gate, counter);
        }
    }

    #[cold]
    fn ask(&mut self, gate: &Limiter<u64>, counter: &Counter) {
        let (block, place) =
            (self.step / (Self::BLOCK * Self::TIMES), self.step % (Self::BLOCK * Self::TIMES));
        let index = (block * Self::BLOCK + place % Self::BLOCK) % Self::KEYS;
        self.step += 1;
        let now = gate.clock().now();
        let key = keys::key(Self::FIRST_KEY + index);
        let answer = gate.ask(&key).at(now).check();
        self.compare(index, now, answer);
        // The counter's own rate; one tick need not be a nanosecond.
        let raw = counter.raw();
        let sample = counter.delta_as_nanos(raw, raw + 1_000_000).max(1);
        self.next_raw = raw + self.every_nanos * 1_000_000 / sample;
    }

    fn compare(&mut self, index: usize, now: Tick, answer: tollgate::Decision) {
        self.asked += 1;
        let exact = &self.exact[index];
        let expected = exact.ask().at(now).check();
        let Ok(given) = answer else {
            self.denied += 1;
            return;
        };
        if expected.is_err() || expected.is_ok_and(|due| given.remaining() > due.remaining()) {
            self.forgotten += 1;
            exact.reset();
            assert!(exact.ask().at(now).check().is_ok(), "a bucket just reset is full");
        }
    }

    #[allow(clippy::cast_precision_loss, reason = "counts")]
    fn print_target(&self) {
        let note = format!(
            "of {} requests of {} keys; {} came to a bucket forgotten while in debt",
            self.asked,
            Self::KEYS,
            self.forgotten
        );
        verdict("flood: steady keys denied", self.denied as f64, Bound::AtMost(0.0), &note);
    }
}
