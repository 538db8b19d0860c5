//! Makes decisions of one kind, so that `ci/instructions.sh` can count their instructions.
//!
//! `instructions` prints the names of all kinds. `instructions KIND COUNT` fills the limiter and
//! then makes COUNT decisions. The script runs it with COUNT and with twice as many; the difference
//! is the cost of the decisions alone. Nothing varies between runs: the time is given, the seed of
//! the hash is fixed, and there is one thread.

use std::hint::black_box;
use std::time::Duration;

use tollgate::algorithm::Algorithm;
use tollgate::clock::MonotonicClock;
use tollgate::concurrency::ConcurrencyLimiter;
use tollgate::dynamic::DynamicGcra;
use tollgate::limiter::SlotLayout;
use tollgate::shared::Shared;
use tollgate::{
    Clock, Decision, Direct, FixedWindow, Gcra, Limiter, ManualClock, Quota, SlidingCounter,
    SlidingLog, SubWindows, Tick,
};

/// A kind of decision, and the function that makes `count` of them.
type Kind = (&'static str, fn(usize));

const KINDS: [Kind; 41] = [
    ("loop-alone", |count| decide(count, KEYS, STEP_NANOS, START_NANOS, |_, _| true)),
    ("direct-gcra-admit", direct_admit),
    ("direct-gcra-deny", direct_deny),
    ("direct-gcra-call", direct_call),
    ("keyed-gcra-admit", keyed_admit),
    ("keyed-gcra-deny", keyed_deny),
    ("keyed-gcra-call", keyed_call),
    ("keyed-gcra-peek", keyed_peek),
    ("keyed-gcra-claim", keyed_claim),
    ("keyed-gcra-batch", keyed_batch),
    ("direct-dynamic-gcra-admit", direct_dynamic),
    ("keyed-dynamic-gcra-admit", keyed_dynamic),
    ("compact-gcra-admit", |count| compact(count, compact_quota())),
    ("compact-gcra-deny", |count| compact(count, black_box(Quota::per_hour(1)))),
    ("compact-gcra-claim", compact_claim),
    ("shared-gcra-admit", |count| shared(count, roomy())),
    ("shared-gcra-deny", |count| shared(count, black_box(Quota::per_hour(1)))),
    ("shared-gcra-claim", shared_claim),
    ("lease-admit", lease_admit),
    ("hot-key-leases-admit", |count| hot_key_leases(count, roomy())),
    ("hot-key-leases-deny", |count| hot_key_leases(count, black_box(Quota::per_hour(LIMIT)))),
    ("keyed-fixed-window-admit", |count| windows_admit(FixedWindow::anchored(), count)),
    ("keyed-fixed-window-deny", |count| windows_deny(FixedWindow::anchored(), count)),
    ("keyed-aligned-window-admit", aligned_window_admit),
    ("keyed-sub-windows-admit", |count| windows_admit(SubWindows::new(), count)),
    ("keyed-sub-windows-deny", |count| windows_deny(SubWindows::new(), count)),
    ("keyed-sub-windows-allow", |count| windows_allow(SubWindows::new(), count)),
    ("keyed-sub-windows-allow-denied", |count| windows_allow_denied(SubWindows::new(), count)),
    ("keyed-sliding-counter-admit", |count| windows_admit(SlidingCounter::new(), count)),
    ("keyed-sliding-counter-deny", |count| windows_deny(SlidingCounter::new(), count)),
    ("keyed-sliding-counter-allow", |count| windows_allow(SlidingCounter::new(), count)),
    ("keyed-sliding-counter-allow-denied", |count| {
        windows_allow_denied(SlidingCounter::new(), count)
    }),
    ("keyed-sliding-log-admit", |count| windows_admit(SlidingLog::new(), count)),
    ("keyed-sliding-log-deny", |count| windows_deny(SlidingLog::new(), count)),
    ("keyed-sliding-log-claim", log_claim),
    ("keyed-sliding-log-allow", |count| windows_allow(SlidingLog::new(), count)),
    ("keyed-sliding-log-allow-denied", |count| windows_allow_denied(SlidingLog::new(), count)),
    ("in-flight-admit", |count| in_flight(None, 0, count)),
    ("in-flight-deny", |count| in_flight(None, 1, count)),
    ("in-flight-hold-admit", |count| in_flight(Some(MINUTE), 0, count)),
    ("in-flight-hold-deny", |count| in_flight(Some(MINUTE), 1, count)),
];

/// The keys, which are used in turn.
const KEYS: usize = 100;
/// The time between two decisions, if no window has to end.
const STEP_NANOS: u64 = 16;
/// The beginning of a period that is not the first.
const START_NANOS: u64 = 100 * HOUR_NANOS;
const HOUR_NANOS: u64 = 3_600_000_000_000;
const MINUTE_NANOS: u64 = 60_000_000_000;
const MINUTE: Duration = Duration::from_secs(60);
/// Cells in a window.
const LIMIT: u64 = 100;

fn main() {
    let mut args = std::env::args().skip(1);
    let Some(name) = args.next() else {
        KINDS.iter().for_each(|(name, _)| println!("{name}"));
        return;
    };
    let count = args.next().and_then(|text| text.parse().ok()).expect("a count of decisions");
    let (_, run) = KINDS.iter().find(|(kind, _)| *kind == name).expect("a kind by that name");
    run(count);
}

/// The key of a rank. Keys are distinct and unordered.
fn key(rank: usize) -> u64 {
    let mixed = (rank as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

/// Makes decisions about `keys` keys in turn. All of them must be admitted, or none.
#[inline(always)]
fn decide(count: usize, keys: usize, step: u64, start: u64, check: impl Fn(&u64, Tick) -> bool) {
    let keys: Vec<u64> = (0..keys).map(key).collect();
    let (mut now, mut admitted) = (start, 0);
    for key in keys.iter().cycle().take(count) {
        now += step;
        admitted += usize::from(black_box(check(black_box(key), Tick::from_nanos(black_box(now)))));
    }
    assert!(admitted == 0 || admitted == count, "{admitted} of {count} were admitted");
}

/// A quota that is never used up.
fn roomy() -> Quota {
    black_box(Quota::per_second(100_000).burst(4_000_000_000))
}

fn direct(quota: Quota) -> Direct<Gcra, ManualClock> {
    Direct::builder(quota).clock(ManualClock::new()).build().expect("in range")
}

fn direct_admit(count: usize) {
    let gate = direct(roomy());
    decide(count, KEYS, STEP_NANOS, START_NANOS, |_, now| gate.ask().at(now).check().is_ok());
}

fn direct_deny(count: usize) {
    let gate = direct(black_box(Quota::per_hour(1)));
    assert!(gate.ask().at(Tick::from_nanos(START_NANOS)).check().is_ok());
    decide(count, KEYS, STEP_NANOS, START_NANOS, |_, now| gate.ask().at(now).check().is_ok());
}

/// A function of a program that decides at one place. It is called, and has to save the registers that it uses.
fn direct_call(count: usize) {
    #[inline(never)]
    fn is_admitted(gate: &Direct<Gcra, ManualClock>, now: Tick) -> bool {
        gate.ask().at(now).check().is_ok()
    }
    let gate = direct(roomy());
    decide(count, KEYS, STEP_NANOS, START_NANOS, |_, now| is_admitted(&gate, now));
}

fn keyed<A: Algorithm>(quota: Quota, algorithm: A, keys: usize) -> Limiter<u64, A, ManualClock> {
    let builder = Limiter::builder(quota).algorithm(algorithm).clock(ManualClock::new());
    builder.capacity(keys as u64).hash_seed(7).build().expect("in range")
}

/// A GCRA limiter whose keys have slots, and have spent one cell each.
fn filled(quota: Quota) -> Limiter<u64, Gcra, ManualClock> {
    let gate = keyed(quota, Gcra::new(), KEYS);
    for rank in 0..KEYS {
        let first: Decision = gate.ask(&key(rank)).at(Tick::from_nanos(START_NANOS)).check();
        assert!(first.is_ok());
    }
    gate
}

/// Makes decisions out of line. Inlined, what builds the limiter takes registers of the loop, one way here and
/// another way there, and the counts of two kinds do not compare.
#[inline(never)]
fn checked<C: Clock>(gate: &Limiter<u64, Gcra, C>, count: usize) {
    decide(count, KEYS, STEP_NANOS, START_NANOS, |key, now| gate.ask(key).at(now).check().is_ok());
}

fn keyed_admit(count: usize) {
    let gate = filled(roomy());
    checked(&gate, count);
}

fn keyed_deny(count: usize) {
    let gate = filled(black_box(Quota::per_hour(1)));
    checked(&gate, count);
}

/// As [`direct_call`], with keys.
fn keyed_call(count: usize) {
    #[inline(never)]
    fn is_admitted(gate: &Limiter<u64, Gcra, ManualClock>, key: &u64, now: Tick) -> bool {
        gate.ask(key).at(now).check().is_ok()
    }
    let gate = filled(roomy());
    decide(count, KEYS, STEP_NANOS, START_NANOS, |key, now| is_admitted(&gate, key, now));
}

fn keyed_peek(count: usize) {
    let gate = filled(roomy());
    decide(count, KEYS, STEP_NANOS, START_NANOS, |key, now| gate.ask(key).at(now).peek().is_ok());
}

/// The largest quota that can be changed at run time.
fn dynamic_quota() -> Quota {
    black_box(Quota::per_second(100_000).burst(400_000_000))
}

fn direct_dynamic(count: usize) {
    let builder =
        Direct::builder(dynamic_quota()).algorithm(DynamicGcra::new()).clock(ManualClock::new());
    let gate = builder.build().expect("in range");
    decide(count, KEYS, STEP_NANOS, START_NANOS, |_, now| gate.ask().at(now).check().is_ok());
}

fn keyed_dynamic(count: usize) {
    let gate = keyed(dynamic_quota(), DynamicGcra::new(), KEYS);
    for rank in 0..KEYS {
        assert!(gate.ask(&key(rank)).at(Tick::from_nanos(START_NANOS)).check().is_ok());
    }
    decide(count, KEYS, STEP_NANOS, START_NANOS, |key, now| gate.ask(key).at(now).check().is_ok());
}

/// The capacity of the table for claims, far above the number of keys.
const ROOM: usize = 200_000;

fn keyed_claim(count: usize) {
    let gate = keyed(roomy(), Gcra::new(), ROOM);
    decide(count, ROOM, STEP_NANOS, START_NANOS, |key, now| gate.ask(key).at(now).check().is_ok());
}

/// A GCRA limiter in memory that other processes could share.
fn shared_gate(quota: Quota, keys: usize) -> Limiter<u64, Gcra, MonotonicClock> {
    let builder = Limiter::builder(quota).capacity(keys as u64).slots(SlotLayout::Wide);
    builder.hash_seed(7).build_shared(&Shared::anonymous()).expect("in range")
}

fn shared(count: usize, quota: Quota) {
    let gate = shared_gate(quota, KEYS);
    for rank in 0..KEYS {
        assert!(gate.ask(&key(rank)).at(Tick::from_nanos(START_NANOS)).check().is_ok());
    }
    checked(&gate, count);
}

fn shared_claim(count: usize) {
    let gate = shared_gate(roomy(), ROOM);
    decide(count, ROOM, STEP_NANOS, START_NANOS, |key, now| gate.ask(key).at(now).check().is_ok());
}

/// Sixteen keys in a call, in a table whose lookups are prefetched.
fn keyed_batch(count: usize) {
    let gate = keyed(roomy(), Gcra::new(), ROOM);
    let batch: Vec<u64> = (0..16).map(key).collect();
    let mut admitted = 0;
    for turn in 0..count / batch.len() {
        let now = Tick::from_nanos(black_box(START_NANOS + turn as u64 * STEP_NANOS));
        gate.ask_each(black_box(&batch), |key| key).at(now).check(|_, decision| {
            admitted += usize::from(black_box(decision.is_ok()));
        });
    }
    assert_eq!(admitted, count / batch.len() * batch.len());
}

/// A quota that is never used up, and fits compact slots.
fn compact_quota() -> Quota {
    black_box(Quota::per_second(10_000).burst(2_000_000_000))
}

fn compact_gate(quota: Quota, keys: usize) -> Limiter<u64, Gcra, ManualClock> {
    let builder = Limiter::builder(quota).clock(ManualClock::new()).slots(SlotLayout::Compact);
    builder.capacity(keys as u64).hash_seed(7).build().expect("in range")
}

fn compact(count: usize, quota: Quota) {
    let gate = compact_gate(quota, KEYS);
    for rank in 0..KEYS {
        let first = gate.ask(&key(rank)).at(Tick::from_nanos(START_NANOS)).check();
        assert!(first.is_ok());
    }
    decide(count, KEYS, STEP_NANOS, START_NANOS, |key, now| gate.ask(key).at(now).check().is_ok());
}

fn compact_claim(count: usize) {
    let gate = compact_gate(compact_quota(), ROOM);
    decide(count, ROOM, STEP_NANOS, START_NANOS, |key, now| gate.ask(key).at(now).check().is_ok());
}

/// One charge in 64 decisions.
fn lease_admit(count: usize) {
    let gate = keyed(roomy(), Gcra::new().leases(64), KEYS);
    let mut lease = gate.lease(&key(0));
    let mut now = START_NANOS;
    for _ in 0..count {
        now += STEP_NANOS;
        assert!(black_box(lease.ask().at(Tick::from_nanos(black_box(now))).check().is_ok()));
    }
}

/// A limiter that leases hot keys, whose only thread loses no race and so holds no lease.
fn hot_key_leases(count: usize, quota: Quota) {
    const LEASE: u64 = 16;
    let builder = Limiter::builder(quota).algorithm(Gcra::new().leases(LEASE)).lease_hot_keys();
    let builder = builder.clock(ManualClock::new()).capacity(KEYS as u64).hash_seed(7);
    let gate: Limiter<u64, Gcra, ManualClock> = builder.build().expect("in range");
    for rank in 0..KEYS {
        // All that is not kept for leases.
        let key = key(rank);
        let first = gate.ask(&key).cells(LIMIT - LEASE).at(Tick::from_nanos(START_NANOS)).check();
        assert!(first.is_ok());
    }
    checked(&gate, count);
}

fn log_claim(count: usize) {
    let quota = black_box(Quota::new(10, Duration::from_nanos(MINUTE_NANOS)));
    let gate = keyed(quota, SlidingLog::new(), ROOM);
    decide(count, ROOM, STEP_NANOS, START_NANOS, |key, now| gate.ask(key).at(now).check().is_ok());
}

/// Makes decisions about keys whose windows end. Windows must end a whole number of times, so a count is a
/// multiple of `KEYS * LIMIT / 2`.
fn windows_admit<A: Algorithm>(algorithm: A, count: usize) {
    half_asked(algorithm, count, |gate, key, now| gate.ask(key).at(now).check().is_ok());
}

/// The same with `allow`.
fn windows_allow<A: Algorithm>(algorithm: A, count: usize) {
    half_asked(algorithm, count, |gate, key, now| gate.ask(key).at(now).allow());
}

fn windows_deny<A: Algorithm>(algorithm: A, count: usize) {
    all_full(algorithm, count, |gate, key, now| gate.ask(key).at(now).check().is_ok());
}

/// The same with `allow`.
fn windows_allow_denied<A: Algorithm>(algorithm: A, count: usize) {
    all_full(algorithm, count, |gate, key, now| gate.ask(key).at(now).allow());
}

/// Within a window that follows the wall clock.
fn aligned_window_admit(count: usize) {
    let quota = black_box(Quota::new(100_000_000, Duration::from_secs(1 << 30)));
    let gate = keyed(quota, FixedWindow::aligned(), KEYS);
    decide(count, KEYS, STEP_NANOS, START_NANOS, |key, now| gate.ask(key).at(now).check().is_ok());
}

/// Each key asks for half its limit in a window.
#[inline(always)]
fn half_asked<A: Algorithm>(
    algorithm: A,
    count: usize,
    check: impl Fn(&Limiter<u64, A, ManualClock>, &u64, Tick) -> bool,
) {
    let quota = black_box(Quota::new(LIMIT, Duration::from_nanos(MINUTE_NANOS)).burst(LIMIT));
    let gate = keyed(quota, algorithm, KEYS);
    let asked = KEYS as u64 * LIMIT / 2;
    let step = MINUTE_NANOS / asked;
    let check = |key: &u64, now: Tick| check(&gate, key, now);
    let before = usize::try_from(2 * asked).expect("64 bits");
    decide_out_of_line(before, step, START_NANOS, &check);
    decide_out_of_line(count, step, START_NANOS + 2 * MINUTE_NANOS, &check);
}

/// Inlined twice, a loop would call what it checks.
#[inline(never)]
fn decide_out_of_line(count: usize, step: u64, start: u64, check: &impl Fn(&u64, Tick) -> bool) {
    decide(count, KEYS, step, start, check);
}

/// Every key is full, with cells in all parts of the last two windows.
#[inline(always)]
fn all_full<A: Algorithm>(
    algorithm: A,
    count: usize,
    check: impl Fn(&Limiter<u64, A, ManualClock>, &u64, Tick) -> bool,
) {
    let quota = black_box(Quota::new(LIMIT, Duration::from_nanos(HOUR_NANOS)).burst(LIMIT));
    let gate = keyed(quota, algorithm, KEYS);
    let last = START_NANOS + HOUR_NANOS / 12 * 11;
    for rank in 0..KEYS {
        let key = key(rank);
        for part in 0..12 {
            let at = Tick::from_nanos(last - (11 - part) * (HOUR_NANOS / 6));
            let _: Decision = gate.ask(&key).cells(LIMIT / 6).at(at).check();
        }
        // An estimate may be at its limit to the nanosecond, and below it in the next one.
        for at in [last, last + 1] {
            while gate.ask(&key).at(Tick::from_nanos(at)).check().is_ok() {}
        }
    }
    decide(count, KEYS, STEP_NANOS, last, |key, now| check(&gate, key, now));
}

/// Requests that enter and leave again, or are denied, since `held` of each key are in flight of one.
fn in_flight(max_hold: Option<Duration>, held: usize, count: usize) {
    let begun = ConcurrencyLimiter::builder(1).clock(ManualClock::new());
    let begun = max_hold.into_iter().fold(begun, |begun, hold| begun.max_hold(hold));
    let gate = begun.capacity(KEYS as u64).hash_seed(7).build().expect("in range");
    for rank in 0..KEYS {
        let first = gate.enter(&key(rank)).expect("room");
        if held > 0 {
            std::mem::forget(first);
        }
    }
    decide(count, KEYS, STEP_NANOS, START_NANOS, |key, _| gate.enter(key).is_ok());
}
