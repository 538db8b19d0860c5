//! Leases of hot keys, by each algorithm that has them, beside locks.

use std::hint::black_box;
use std::time::Duration;

use tollgate::algorithm::Algorithm;
use tollgate::clock::QuantaClock;
use tollgate::{Clock, FixedWindow, Gcra, Limiter, Quota, SlidingCounter, SubWindows, Tick};
use tollgate_benches::locked::{
    Arrival, Keyed, Kind, Locked, ParkingLot, Std, SubWindowCounts, TwoWindows, WindowCount,
};
use tollgate_benches::options::Options;
use tollgate_benches::report::{Bound, compared, fastest, note, table, target};
use tollgate_benches::rounds::{Row, Turn, compare};

const THREADS: usize = 2;
const DECISIONS: usize = 400_000;
const KEY: u64 = 7;
/// Cells that a thread takes ahead at most.
const LEASE: u64 = 64;

/// A limit that no thread reaches, in windows that end sometimes.
const LIMIT: usize = 250_000_000;
const PERIOD: Duration = Duration::from_secs(6);

const OWN: &str = "own clock";
const GIVEN: &str = "time given";
const PLAIN: &str = "tollgate";
const LEASING: &str = "tollgate leasing hot keys";
const LEASES: &str = "tollgate leases of 64";
const LOCKS: [&str; 2] = ["64 std Mutex maps", "64 parking_lot Mutex maps"];

pub(crate) fn run(options: &Options) {
    one::<_, Arrival>(options, "GCRA", [Gcra::new(), Gcra::new().leases(LEASE)]);
    let window = FixedWindow::anchored();
    one::<_, WindowCount>(options, "fixed window", [window, window.leases(LEASE)]);
    let halves = SubWindows::new();
    one::<_, SubWindowCounts>(options, "sub-windows", [halves, halves.leases(LEASE)]);
    let counter = SlidingCounter::new();
    one::<_, TwoWindows>(options, "sliding counter", [counter, counter.leases(LEASE)]);
    note(
        "\"leasing hot keys\": a thread that loses a race for the key takes up to 64 of its cells ahead. \
         \"leases of 64\": each thread has a lease, made anew in each turn.",
    );
}

fn one<A, L>(options: &Options, name: &str, [plain, leasing]: [A; 2])
where
    A: Algorithm<Params: 'static> + Copy + 'static,
    L: Locked + 'static,
{
    let title = format!("{name}, one hot key, admitted, {THREADS} threads");
    let of = |row: &str, how: &str| format!("{name}: {row}, {how}");
    let mut rows = Vec::new();
    for how in [OWN, GIVEN] {
        rows.push(checks(&of(PLAIN, how), how, limiter(plain, false)));
        rows.push(checks(&of(LEASING, how), how, limiter(leasing, true)));
        rows.push(leases(&of(LEASES, how), how, limiter(leasing, false)));
        rows.push(locked::<L, Std>(&of(LOCKS[0], how), how));
        rows.push(locked::<L, ParkingLot>(&of(LOCKS[1], how), how));
    }
    let figures = compare(options, DECISIONS, &rows);
    table(&title, &figures);
    for how in [OWN, GIVEN] {
        let locks = LOCKS.map(|lock| of(lock, how));
        let is_lock = |name: &str| locks.iter().any(|lock| lock == name);
        let Some(best) = fastest(&figures, is_lock) else { continue };
        target(&title, &figures, [best, &of(LEASES, how)], Bound::AtLeast(8.0));
        for ours in [PLAIN, LEASING] {
            compared(&title, &figures, [best, &of(ours, how)]);
        }
    }
    println!();
}

type Gate<A> = Limiter<u64, A>;

fn limiter<A: Algorithm>(algorithm: A, lease_hot_keys: bool) -> Gate<A> {
    let quota = black_box(Quota::new(LIMIT as u64, PERIOD).burst(LIMIT as u64));
    let builder = Limiter::builder(quota).algorithm(algorithm).capacity(1);
    let builder = if lease_hot_keys { builder.lease_hot_keys() } else { builder };
    builder.build().expect("in range")
}

/// Each thread asks the limiter.
fn checks<A: Algorithm<Params: 'static> + 'static>(
    name: &str,
    how: &str,
    gate: Gate<A>,
) -> Row<'static> {
    let has_time = how == GIVEN;
    Row::new(name, THREADS, move |turn| match has_time {
        false => count(turn, |_| gate.check(&KEY).is_ok()),
        true => count(turn, |now| gate.ask(&KEY).at(Tick::from_nanos(now)).check().is_ok()),
    })
}

/// Each thread asks a lease of its own.
fn leases<A: Algorithm<Params: 'static> + 'static>(
    name: &str,
    how: &str,
    gate: Gate<A>,
) -> Row<'static> {
    let has_time = how == GIVEN;
    Row::new(name, THREADS, move |turn| {
        let mut lease = gate.lease(&KEY);
        match has_time {
            false => count(turn, |_| lease.check().is_ok()),
            true => {
                let mut last = Tick::ZERO;
                let admitted = count(turn, |now| {
                    last = Tick::from_nanos(now);
                    lease.ask().at(last).check().is_ok()
                });
                // By the time given, not by the limiter's clock.
                lease.refund_at(last);
                admitted
            }
        }
    })
}

/// The limiter of a textbook, whose clock is read before the lock is taken.
fn locked<L: Locked + 'static, K: Kind>(name: &str, how: &str) -> Row<'static> {
    let period = u64::try_from(PERIOD.as_nanos()).expect("seconds");
    let (gate, clock) = (Keyed::<L, K>::new(LIMIT, period), QuantaClock::new());
    let has_time = how == GIVEN;
    Row::new(name, THREADS, move |turn| match has_time {
        false => count(turn, |_| gate.check(KEY, clock.now().as_nanos())),
        true => count(turn, |now| gate.check(KEY, now)),
    })
}

/// Runs `check` at times that advance, and counts the admissions.
#[inline(always)]
fn count(turn: Turn, mut check: impl FnMut(u64) -> bool) -> usize {
    let (mut now, mut admitted) = (turn.start_nanos(), 0);
    for _ in 0..turn.decisions {
        now = Turn::later(now);
        admitted += usize::from(black_box(check(black_box(now))));
    }
    admitted
}
