//! One bucket.

use std::hint::black_box;

use tollgate_benches::options::Options;
use tollgate_benches::report::table;
use tollgate_benches::rounds::{Row, Turn, compare};
use tollgate_peers::limiters::{BucketDirect, TollgateDirect, each_direct};
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
    let decisions = if threads == 1 { 50_000 } else { 200_000 };
    let figures = compare(options, decisions, &rows.rows);
    table(&format!("{what}: one bucket, {threads} thread(s)"), &figures);
    side_by_side(&figures);
    let exact = Exact { own: rows.exact, given: vec![name] };
    print_targets(what, &figures, &exact, Some(1.0));
    println!();
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
