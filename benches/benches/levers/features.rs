//! The cost of features around a limiter: dynamic quotas, plans, reservations, composites, penalties.

use std::hint::black_box;
use std::time::Duration;

use tollgate::composite::Composite;
use tollgate::dynamic::DynamicGcra;
use tollgate::limiter::SlotLayout;
use tollgate::penalty::Penalties;
use tollgate::plan::Plan;
use tollgate::shadow::Shadow;
use tollgate::{Direct, Gcra, Limiter, Quota};
use tollgate_benches::keys::{self, Draw};
use tollgate_benches::options::Options;
use tollgate_benches::report::{compared, note, table};
use tollgate_benches::rounds::compare;

use crate::{roomy, row};

const KEYS: usize = 1_000;
const DECISIONS: usize = 20_000;

pub(crate) fn run(options: &Options) {
    for threads in [1, 2] {
        at(options, threads);
    }
    note(
        "Own clock, all admitted; the composite and the three asked one by one are two limiters and \
         one bucket without keys, which two threads contend for.",
    );
    println!();
}

fn limiter() -> Limiter<u64> {
    let builder = Limiter::builder(roomy()).capacity(KEYS as u64).slots(SlotLayout::Wide);
    builder.build().expect("in range")
}

/// A quota as large as the states of a dynamic quota can hold.
fn dynamic_quota() -> Limiter<u64, DynamicGcra> {
    let quota = black_box(Quota::per_second(10_000).burst(400_000_000));
    Limiter::builder(quota)
        .algorithm(DynamicGcra::new())
        .capacity(KEYS as u64)
        .build()
        .expect("in range")
}

fn planned() -> (Limiter<u64>, Plan<Gcra>) {
    let builder = Limiter::builder(roomy()).algorithm(Gcra::new().for_plans());
    let gate = builder.capacity(KEYS as u64).build().expect("in range");
    let plan = gate.plan(Quota::per_second(5_000).burst(1_000_000_000)).expect("slower");
    (gate, plan)
}

fn at(options: &Options, threads: usize) {
    let sequence: Vec<u64> = keys::ranks(Draw::Uniform, KEYS).into_iter().map(keys::key).collect();
    let (gate, live, (many, plan)) = (limiter(), dynamic_quota(), planned());
    let (first, second) = (limiter(), limiter());
    let shared = Direct::new(roomy()).expect("in range");
    let all = Composite::<u64>::builder()
        .keyed("first", &first, |key: &u64| key)
        .keyed("second", &second, |key: &u64| key)
        .shared("shared", &shared)
        .build()
        .expect("three limits");
    let both = Shadow::new(limiter(), limiter());
    let banning = Penalties::builder(limiter(), Quota::per_minute(5), Duration::from_secs(60))
        .capacity(KEYS as u64)
        .build()
        .expect("in range");
    let rows = [
        row("tollgate", threads, &sequence, |key| gate.check(key).is_ok()),
        row("tollgate DynamicGcra", threads, &sequence, |key| live.check(key).is_ok()),
        row("tollgate by a plan", threads, &sequence, |key| {
            many.ask(key).plan(&plan).check().is_ok()
        }),
        row("tollgate reserve and settle for half", threads, &sequence, |key| {
            gate.ask(key).cells(2).reserve().map(|reserved| reserved.settle(1)).is_ok()
        }),
        row("tollgate three one by one", threads, &sequence, |key| {
            first.check(key).is_ok() && second.check(key).is_ok() && shared.check().is_ok()
        }),
        row("tollgate Composite of three", threads, &sequence, |key| all.check(key).is_ok()),
        row("tollgate Shadow", threads, &sequence, |key| both.check(key).is_ok()),
        row("tollgate Penalties, nobody banned", threads, &sequence, |key| {
            banning.check(key).is_ok()
        }),
    ];
    let figures = compare(options, DECISIONS, &rows);
    let title = format!("{KEYS} keys, uniform, {threads} threads");
    table(&title, &figures);
    compared(&title, &figures, ["tollgate three one by one", "tollgate Composite of three"]);
}
