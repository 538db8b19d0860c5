//! The cells that each limiter grants in tests in which it should grant exactly the quota.

use std::borrow::Borrow;
use std::cell::RefCell;
use std::fmt;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use quanta::Clock;
use tollgate_benches::report::{Bound, note, text, verdict};
use tollgate_peers::forms::Form;
use tollgate_peers::limiters::{DpdkMeter, Tollgate, TollgateDirect, each, each_direct};
use tollgate_peers::peer::{Direct, Keyed, VisitDirect, Visitor};
use tollgate_peers::plan::Plan;

use crate::choice::{Choice, float};

const NAME: &str = "over-grants";
/// The keys, or limiters, that eight threads ask at once.
const HAMMERED: usize = 50;
/// The keys that two threads ask for the first time at once.
const FRESH: usize = 20_000;
/// More than the 10 cells of a burst.
const ABOVE: u32 = 11;
/// One cell less than this, times 3.6 * 10^12 nanoseconds, is just above 2^64.
const WRAPPING: u32 = 5_124_097;

pub(crate) fn run(choice: &Choice) {
    if !choice.wants_case(NAME) {
        return;
    }
    let mut seen = View { choice, rows: vec![], most: vec![] };
    each(&mut seen);
    each_direct(&mut seen);
    let skipped = seen.meter().err();
    let [above, wrapping] = [ABOVE, WRAPPING].map(|cells| format!("(iii) {cells}"));
    let header = ["limiter", "(i)", "(ii) 2", "(ii) none", &above, &wrapping, "(iv)"];
    text(&format!("{NAME}: what was granted"), &header, seen.rows);
    note(&format!(
        "(i) 8 threads, one key, burst 100, 1 an hour: least and most granted of {HAMMERED} keys. \
         (ii) 2 threads ask for {FRESH} fresh keys of burst 1 at once: keys granted 2, and none. \
         (iii) {ABOVE}, and {WRAPPING}, cells at once of a burst of 10, 1 an hour. (iv) burst 5, \
         100 a second, all spent, then idle for 65 ms: most granted at once. {} is asked by one thread in \
         (i).",
        DpdkMeter::NAME
    ));
    if let Some(why) = skipped {
        note(&format!("SKIPPED: {}: {why}", DpdkMeter::NAME));
    }
    for (name, most) in seen.most {
        if [Tollgate::NAME.to_owned(), direct_name::<TollgateDirect>()].contains(&name) {
            let note = format!("{name}: the most granted of a burst of 100");
            verdict("over-grants, 8 threads", float(most as u64), Bound::AtMost(100.0), &note);
        }
    }
    println!();
}

struct View<'a> {
    choice: &'a Choice,
    rows: Vec<Vec<String>>,
    /// The maximum granted to a key in test (i).
    most: Vec<(String, usize)>,
}

fn direct_name<P: Direct>() -> String {
    format!("{}, one bucket", P::NAME)
}

impl Visitor for View<'_> {
    fn keyed<P: Keyed>(&mut self) {
        if !self.choice.options.wants(P::NAME) {
            return;
        }
        let [burst, single, ten] =
            [100, 1, 10].map(|burst| P::new(Plan::hourly(burst), HAMMERED.max(FRESH)));
        let key = |rank| P::Key::own(rank);
        let hammered: Vec<usize> =
            (0..HAMMERED).map(|rank| hammer(|| burst.check(key(rank).borrow()))).collect();
        let fresh = race(|rank| single.check(key(rank).borrow()));
        let at_once =
            [(1, ABOVE), (2, WRAPPING)].map(|(rank, n)| ten.check_n(key(rank).borrow(), n));
        let rested = P::new(Plan::new(100, Duration::from_secs(1), 5), 100);
        let rested = rest(|| rested.check(key(0).borrow()));
        self.add_row(P::NAME.to_owned(), &hammered, Some(fresh), at_once, rested);
    }
}

impl VisitDirect for View<'_> {
    fn direct<P: Direct>(&mut self) {
        if !self.choice.options.wants(P::NAME) {
            return;
        }
        let hammered: Vec<usize> = (0..HAMMERED)
            .map(|_| {
                let gate = P::new(Plan::hourly(100));
                hammer(|| gate.check())
            })
            .collect();
        let at_once = [ABOVE, WRAPPING].map(|n| P::new(Plan::hourly(10)).check_n(n));
        let rested = P::new(Plan::new(100, Duration::from_secs(1), 5));
        let rested = rest(|| rested.check());
        self.add_row(direct_name::<P>(), &hammered, None, at_once, rested);
    }
}

impl View<'_> {
    /// DPDK's meter, which is not to be shared: test (i) with one thread.
    fn meter(&mut self) -> Result<(), &'static str> {
        if !self.choice.options.wants(DpdkMeter::NAME) {
            return Ok(());
        }
        let hourly = |burst| DpdkMeter::own(Plan::hourly(burst));
        let mut hammered = Vec::new();
        for _ in 0..HAMMERED {
            hammered.push(hourly(100)?.check_own(8_000));
        }
        let [mut above, mut wrapping] = [hourly(10)?, hourly(10)?];
        let at_once = [above.check_n_own(ABOVE), wrapping.check_n_own(WRAPPING)];
        let rested = RefCell::new(DpdkMeter::own(Plan::new(100, Duration::from_secs(1), 5))?);
        let rested = rest(|| rested.borrow_mut().check_own(1) == 1);
        let name = format!("{}, one bucket", DpdkMeter::NAME);
        self.add_row(name, &hammered, None, at_once, rested);
        Ok(())
    }

    fn add_row(
        &mut self,
        name: String,
        hammered: &[usize],
        fresh: Option<[usize; 2]>,
        at_once: [Option<bool>; 2],
        rested: Rested,
    ) {
        let (least, most) = (hammered.iter().min(), hammered.iter().max());
        let (&least, &most) = (least.expect("keys"), most.expect("keys"));
        let [twice, never] = fresh.map_or_else(Default::default, |all| all.map(|n| n.to_string()));
        let [above, wrapping] = at_once.map(|answer| match answer {
            None => "no such call",
            Some(true) => "granted",
            Some(false) => "denied",
        });
        let granted = format!("{least} to {most}");
        let [above, wrapping] = [above, wrapping].map(str::to_owned);
        let rested = rested.to_string();
        self.rows.push(vec![name.clone(), granted, twice, never, above, wrapping, rested]);
        self.most.push((name, most));
    }
}

/// Eight threads ask 1,000 times each, starting at a barrier. Returns the number of grants.
fn hammer(ask: impl Fn() -> bool + Sync) -> usize {
    const THREADS: usize = 8;
    let barrier = Barrier::new(THREADS);
    let asked = || {
        barrier.wait();
        (0..1_000).filter(|_| ask()).count()
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(asked)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    })
}

/// Two threads wait for each other before every key. Returns how many keys were granted to both,
/// and how many to neither.
fn race(ask: impl Fn(usize) -> bool + Sync) -> [usize; 2] {
    let arrived = AtomicUsize::new(0);
    let granted = || -> Vec<bool> {
        let one = |rank| {
            arrived.fetch_add(1, Ordering::AcqRel);
            let mut spins = 0_u32;
            while arrived.load(Ordering::Acquire) < 2 * (rank + 1) {
                spins += 1;
                if spins.is_multiple_of(1_000) {
                    std::thread::yield_now();
                }
                std::hint::spin_loop();
            }
            ask(rank)
        };
        (0..FRESH).map(one).collect()
    };
    let [ours, theirs] = std::thread::scope(|scope| {
        [scope.spawn(granted), scope.spawn(granted)].map(|it| it.join().expect("no panic"))
    });
    let of = |sum: usize| {
        let sums = ours.iter().zip(&theirs).map(|(a, b)| usize::from(*a) + usize::from(*b));
        sums.filter(|&granted| granted == sum).count()
    };
    [of(2), of(0)]
}

/// The cells granted after a rest, and in how long.
struct Rested {
    granted: usize,
    millis: u64,
}

impl fmt::Display for Rested {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.granted)?;
        // In 10 ms one more cell is restored.
        if self.millis >= 10 { write!(f, " in {} ms", self.millis) } else { Ok(()) }
    }
}

/// The maximum granted after one of five rests, each longer than a burst takes to be restored.
fn rest(ask: impl Fn() -> bool) -> Rested {
    let once = |_| {
        for _ in 0..50 {
            ask();
        }
        std::thread::sleep(Duration::from_millis(65));
        let clock = Clock::new();
        let begin = clock.raw();
        let granted = (0..50).filter(|_| ask()).count();
        Rested { granted, millis: clock.delta_as_nanos(begin, clock.raw()) / 1_000_000 }
    };
    (0..5).map(once).max_by_key(|rested| rested.granted).expect("five")
}
