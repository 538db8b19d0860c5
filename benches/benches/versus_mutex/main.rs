//! tollgate compared with the same algorithms under locks, which differ only in the cell.

mod case;
mod rows;

use std::hint::black_box;

use tollgate::clock::QuantaClock;
use tollgate::{Clock, FixedWindow, Gcra, LeakyQueue, Limiter, SlidingLog, SubWindows};
use tollgate_benches::locked::{
    Answer, Arrival, Log, OurStep, ParkingLot, Std, SubWindowCounts, WindowCount, textbook,
};
use tollgate_benches::options::Options;
use tollgate_benches::report::{compared, fastest, heading, target};
use tollgate_benches::rounds::Figures;

use case::{Ask, BUCKET, Case, HOT, Limit, UNIFORM, ZIPF};
use rows::{GIVEN, Keys, OWN, Rows};

fn main() {
    let options = Options::from_args();
    heading("versus_mutex: the same algorithms under locks, which answer yes or no only");
    for case in [BUCKET, HOT, ZIPF, UNIFORM] {
        let keys = Keys::new(case);
        case.each().for_each(|case| beside_locks(&options, case, &keys));
    }
    heading("versus_mutex: both tell what remains and how long to wait");
    let keys = Keys::new(ZIPF);
    ZIPF.each().for_each(|case| full_answers(&options, case, &keys));
    heading("versus_mutex: as people write them, with std's Instant");
    for case in [BUCKET, HOT, ZIPF] {
        let keys = Keys::new(case);
        case.each().for_each(|case| beside_textbooks(&options, case, &keys));
    }
}

/// Compares each algorithm with the same algorithm under locks.
fn beside_locks(options: &Options, case: Case, keys: &Keys) {
    let (bucket, window) = (case.bucket(), case.window());
    let mut rows = Rows::new(options, "GCRA", case, keys);
    rows.ours(Gcra::new(), bucket);
    rows.locked::<Arrival>(bucket);
    rows.more_maps::<Arrival>(bucket);
    rows.locked_buckets(bucket);
    against_the_best(rows);
    let mut rows = Rows::new(options, "fixed window", case, keys);
    rows.ours(FixedWindow::anchored(), window);
    rows.locked::<WindowCount>(window);
    rows.more_maps::<WindowCount>(window);
    against_the_best(rows);
    let mut rows = Rows::new(options, "sub-windows", case, keys);
    rows.ours(SubWindows::new(), window);
    rows.locked::<SubWindowCounts>(window);
    against_the_best(rows);
    let mut rows = Rows::new(options, "log", case, keys);
    rows.ours(SlidingLog::new(), case.log());
    rows.locked::<Log>(case.log());
    against_the_best(rows);
}

/// The target "ahead of the best lock": the lock with the lowest median, by the same clock. Locks
/// answer yes or no, and so do our rows with a target; the rows that answer in full are shown
/// without one.
fn against_the_best(rows: Rows<'_>) {
    let (case, algorithm) = (rows.case, rows.algorithm);
    let title = case.title(algorithm);
    let figures = rows.figures(&title);
    for how in [GIVEN, OWN] {
        let Some(best) = best_lock(&figures, how) else { continue };
        let [brief, full] =
            ["tollgate allow", "tollgate"].map(|ours| format!("{algorithm}: {ours}, {how}"));
        target(&title, &figures, [best, &brief], case.bound());
        compared(&title, &figures, [best, &full]);
    }
    println!();
}

fn best_lock<'a>(figures: &'a [Figures], how: &str) -> Option<&'a str> {
    let is_ours =
        |name: &str| [": tollgate, ", ": tollgate allow, "].iter().any(|ours| name.contains(ours));
    fastest(figures, |name| !is_ours(name) && name.ends_with(how))
}

/// Both sides compute what remains and how long to wait; locks do so after releasing the lock. Here
/// the full answer has the target.
fn full_answers(options: &Options, case: Case, keys: &Keys) {
    let (limit, clock) = (case.bucket(), QuantaClock::new());
    let now = || clock.now().as_nanos();
    let mut rows = Rows::new(options, "GCRA told", case, keys);
    let gate = Limiter::<u64>::builder(limit.quota()).capacity(case.keys as u64).build();
    let gate = gate.expect("in range");
    rows.own("tollgate", move |key| black_box(Answer::from(gate.check(&key))).admitted);
    let maps = limit.maps::<OurStep, ParkingLot>(64);
    let name = "tollgate's step, 64 parking_lot Mutex maps";
    rows.own(name, move |key| black_box(maps.gate.answer(key, now())).admitted);
    let maps = limit.maps::<Arrival, Std>(64);
    rows.own("64 std Mutex maps", move |key| black_box(maps.gate.answer(key, now())).admitted);
    let maps = limit.maps::<Arrival, ParkingLot>(64);
    rows.own("64 parking_lot Mutex maps", move |key| {
        black_box(maps.gate.answer(key, now())).admitted
    });
    let title = case.title("GCRA told");
    let figures = rows.figures(&title);
    if let Some(best) = best_lock(&figures, OWN) {
        let ours = format!("GCRA told: tollgate, {OWN}");
        target(&title, &figures, [best, &ours], case.bound());
    }
    println!();
}

/// Compares with textbook designs, each with its own clock.
fn beside_textbooks(options: &Options, case: Case, keys: &Keys) {
    let mut rows = Rows::new(options, "textbook", case, keys);
    let (bucket, window) = (case.bucket(), case.window());
    // A queue with room leaks faster than requests come: billions cannot wait in it.
    let queue = match case.ask {
        Ask::Admit => Limit { cells: 1_000, period_nanos: 8_000 },
        Ask::Deny => bucket,
    };
    rows.ours_own("tollgate Gcra", Gcra::new(), bucket);
    rows.textbook::<textbook::TokenBucket>("token bucket, f64", bucket);
    rows.textbook::<textbook::LeakyLevel>("leaky bucket, f64", bucket);
    rows.ours_own("tollgate FixedWindow", FixedWindow::anchored(), window);
    rows.textbook::<textbook::WindowCount>("fixed window", window);
    rows.ours_own("tollgate LeakyQueue", LeakyQueue::new(), queue);
    rows.textbook::<textbook::LeakyQueue>("leaky bucket, VecDeque", queue);
    if !case.keyed {
        let ticked = textbook::Ticked::new(window.cells as u64, window.period());
        rows.own("counter that a thread resets", move |_| ticked.check());
    }
    let title = case.title("textbook designs");
    let figures = rows.figures(&title);
    for (theirs, ours) in [
        ("token bucket, f64", "tollgate Gcra"),
        ("leaky bucket, f64", "tollgate Gcra"),
        ("fixed window", "tollgate FixedWindow"),
        ("leaky bucket, VecDeque", "tollgate LeakyQueue"),
    ] {
        let [over, under] = [theirs, ours].map(|name| format!("textbook: {name}, {OWN}"));
        target(&title, &figures, [&over, &under], case.bound());
    }
    let rows = ["counter that a thread resets", "tollgate FixedWindow"];
    let [over, under] = rows.map(|name| format!("textbook: {name}, {OWN}"));
    compared(&title, &figures, [&over, &under]);
    println!();
}
