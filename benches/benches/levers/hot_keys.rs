//! Leases of hot keys, by each algorithm that has them, beside locks.

use std::hint::black_box;
use std::time::Duration;

use tollgate::algorithm::Algorithm;
use tollgate::clock::QuantaClock;
use tollgate::{Clock, FixedWindow, Gcra, Limiter, Quota, SlidingCounter, SubWindows};
use tollgate_benches::locked::{
    Arrival, Keyed, Kind, Locked, ParkingLot, Std, SubWindowCounts, TwoWindows, WindowCount,
};
use tollgate_benches::options::Options;
use tollgate_benches::report::{Bound, compared, note, quartiles, table, target};
use tollgate_benches::rounds::{Figures, Row, compare};

const THREADS: usize = 2;
const DECISIONS: usize = 400_000;
const KEY: u64 = 7;
/// Cells that a thread takes ahead at most.
const LEASE: u64 = 64;

/// A limit that no thread reaches, in windows that end sometimes.
const LIMIT: usize = 250_000_000;
const PERIOD: Duration = Duration::from_secs(6);

const PLAIN: &str = "tollgate, own clock";
const LEASING: &str = "tollgate leasing hot keys, own clock";
const LOCKS: [&str; 2] = ["64 std Mutex maps, own clock", "64 parking_lot Mutex maps, own clock"];

pub(crate) fn run(options: &Options) {
    one::<_, Arrival>(options, "GCRA", [Gcra::new(), Gcra::new().leases(LEASE)]);
    let window = FixedWindow::anchored();
    one::<_, WindowCount>(options, "fixed window", [window, window.leases(LEASE)]);
    let halves = SubWindows::new();
    one::<_, SubWindowCounts>(options, "sub-windows", [halves, halves.leases(LEASE)]);
    let counter = SlidingCounter::new();
    one::<_, TwoWindows>(options, "sliding counter", [counter, counter.leases(LEASE)]);
    note("A thread that loses a race for the key takes up to 64 of its cells ahead.");
}

fn one<A, L>(options: &Options, name: &str, [plain, leasing]: [A; 2])
where
    A: Algorithm<Params: 'static> + 'static,
    L: Locked + 'static,
{
    let title = format!("{name}, one hot key, admitted, {THREADS} threads");
    let quota = black_box(Quota::new(LIMIT as u64, PERIOD).burst(LIMIT as u64));
    let plain = Limiter::<u64>::builder(quota).algorithm(plain).capacity(1).build();
    let leasing =
        Limiter::<u64>::builder(quota).algorithm(leasing).capacity(1).lease_hot_keys().build();
    let (plain, leasing) = (plain.expect("in range"), leasing.expect("in range"));
    let of = |row: &str| format!("{name}: {row}");
    let rows = [
        row(&of(PLAIN), move || plain.check(&KEY).is_ok()),
        row(&of(LEASING), move || leasing.check(&KEY).is_ok()),
        locked::<L, Std>(&of(LOCKS[0])),
        locked::<L, ParkingLot>(&of(LOCKS[1])),
    ];
    let figures = compare(options, DECISIONS, &rows);
    table(&title, &figures);
    let Some(best) = fastest(&figures, &LOCKS.map(of)) else { return };
    target(&title, &figures, [&best, &of(LEASING)], Bound::AtLeast(8.0));
    compared(&title, &figures, [&best, &of(PLAIN)]);
    println!();
}

fn locked<L: Locked + 'static, K: Kind>(name: &str) -> Row<'static> {
    let period = u64::try_from(PERIOD.as_nanos()).expect("seconds");
    let (gate, clock) = (Keyed::<L, K>::new(LIMIT, period), QuantaClock::new());
    row(name, move || gate.check(KEY, clock.now().as_nanos()))
}

fn row(name: &str, check: impl Fn() -> bool + Sync + 'static) -> Row<'static> {
    Row::new(name, THREADS, move |turn| {
        (0..turn.decisions).map(|_| usize::from(black_box(check()))).sum()
    })
}

/// The row of these names with the lowest median.
fn fastest(figures: &[Figures], names: &[String]) -> Option<String> {
    let median = |row: &&Figures| quartiles(&row.nanos)[1];
    let named = figures.iter().filter(|row| names.contains(&row.name));
    named.min_by(|a, b| median(a).total_cmp(&median(b))).map(|row| row.name.clone())
}
