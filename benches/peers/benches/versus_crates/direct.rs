//! One bucket.

use std::hint::black_box;

use parking_lot::Mutex;
use tollgate_benches::options::Options;
use tollgate_benches::report::{note, table};
use tollgate_benches::rounds::{Row, Turn, compare};
use tollgate_peers::limiters::{BucketDirect, DpdkMeter, TollgateDirect, each_direct};
use tollgate_peers::peer::{Direct, VisitDirect};
use tollgate_peers::plan::Plan;

use crate::choice::Choice;
use crate::rows::{Exact, OURS, OURS_GIVEN, loops, print_targets, side_by_side};

pub(crate) fn run(choice: &Choice) {
    for threads in [1, 2] {
        for (what, plan, before) in [("admit", Plan::roomy(), 0), ("deny", Plan::hourly(2), 2)] {
            let case = format!("direct-{what}-{threads}");
            if choice.wants_case(&case) {
                one(&choice.options, &case, threads, plan, before);
            }
        }
    }
}

fn one(options: &Options, what: &str, threads: usize, plan: Plan, before: usize) {
    let mut rows = DirectRows { options, threads, plan, before, rows: vec![], exact: vec![] };
    each_direct(&mut rows);
    let ours: TollgateDirect = emptied(plan, before);
    let theirs: BucketDirect = emptied(plan, before);
    rows.rows
        .push(Row::new(OURS_GIVEN, threads, move |turn| given(turn, |now| ours.check_at(now))));
    let name = format!("{}, time given", BucketDirect::NAME);
    rows.rows.push(Row::new(&name, threads, move |turn| given(turn, |now| theirs.check_at(now))));
    if threads == 2 {
        rows.rows.extend(loops());
    }
    let meter = if threads == 1 { meter_rows(plan, before) } else { Ok(vec![]) };
    let skipped = meter.map(|meter| rows.rows.extend(meter)).err();
    let decisions = if threads == 1 { 50_000 } else { 200_000 };
    let figures = compare(options, decisions, &rows.rows);
    table(&format!("{what}: one bucket, {threads} thread(s)"), &figures);
    if let Some(why) = skipped {
        note(&format!("SKIPPED: {}: {why}", DpdkMeter::NAME));
    }
    side_by_side(&figures);
    let exact = Exact { own: rows.exact, given: vec![name] };
    print_targets(what, &figures, &exact, Some(1.0));
    println!();
}

/// DPDK's meter: in a loop in C, where it is inlined, and called for each decision. A turn has its lock to
/// itself.
fn meter_rows<'a>(plan: Plan, before: usize) -> Result<Vec<Row<'a>>, &'static str> {
    let name = DpdkMeter::NAME;
    let mut own = DpdkMeter::own(plan)?;
    assert_eq!(own.check_own(before), before, "{name}: its first cells");
    let own = Mutex::new(own);
    let emptied = || {
        let mut meter = DpdkMeter::given(plan)?;
        assert_eq!(meter.check_given(0, 0, before), before, "{name}: its first cells");
        Ok::<_, &'static str>(Mutex::new(meter))
    };
    let (inlined, called) = (emptied()?, emptied()?);
    let step = Turn::later(0);
    Ok(vec![
        Row::new(&format!("{name}, own clock"), 1, move |turn| {
            own.lock().check_own(turn.decisions)
        }),
        Row::new(&format!("{name}, time given"), 1, move |turn| {
            inlined.lock().check_given(turn.start_nanos(), step, turn.decisions)
        }),
        Row::new(&format!("{name}, called, time given"), 1, move |turn| {
            let mut meter = called.lock();
            given(turn, |now| meter.check_at(now))
        }),
    ])
}

/// A bucket from which `before` cells were taken. Both clocks begin near zero.
fn emptied<P: Direct>(plan: Plan, before: usize) -> P {
    let gate = P::new(plan);
    for _ in 0..before {
        assert!(gate.check(), "{}: its first cells", P::NAME);
    }
    gate
}

struct DirectRows<'a> {
    options: &'a Options,
    threads: usize,
    plan: Plan,
    before: usize,
    rows: Vec<Row<'a>>,
    exact: Vec<String>,
}

impl VisitDirect for DirectRows<'_> {
    fn direct<P: Direct>(&mut self) {
        let name = format!("{}, own clock", P::NAME);
        if !self.options.wants(&name) {
            return;
        }
        let gate: P = emptied(self.plan, self.before);
        self.rows.push(Row::new(&name, self.threads, move |turn| {
            let mut admitted = 0;
            for _ in 0..turn.decisions {
                admitted += usize::from(black_box(gate.check()));
            }
            admitted
        }));
        if P::EXACT && name != OURS {
            self.exact.push(name);
        }
    }
}

/// Runs `decide` at times that advance.
#[inline]
fn given(turn: Turn, mut decide: impl FnMut(u64) -> bool) -> usize {
    let mut admitted = 0;
    let mut now = turn.start_nanos();
    for _ in 0..turn.decisions {
        now = Turn::later(now);
        admitted += usize::from(black_box(decide(black_box(now))));
    }
    admitted
}
