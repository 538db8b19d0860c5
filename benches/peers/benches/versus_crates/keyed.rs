//! A bucket for every key: the comparisons whose rows all fit into memory together.

use tollgate_benches::keys::Draw;
use tollgate_benches::report::table;
use tollgate_benches::rounds::compare;
use tollgate_peers::limiters::each;

use crate::choice::Choice;
use crate::ours::{BATCHED, BATCHED_HUGE, HUGE, LEASES, LEASES_COARSE, LEASES_GIVEN, Pages};
use crate::rows::{Case, Rows, beside_best, loops, print_targets, side_by_side};

pub(crate) fn run(choice: &Choice) {
    let one = |name: &str, case: Case, least: f64| {
        if choice.wants_case(name) {
            one(choice, name, case, least);
        }
    };
    one("1k-zipf-admit", Case::admit(Draw::Zipf, 1_000, 1, 50_000), 1.5);
    one("1k-zipf-deny", Case::deny(Draw::Zipf, 1_000, 1, 50_000), 1.5);
    one("100k-uniform-admit", Case::admit(Draw::Uniform, 100_000, 2, 400_000), 2.0);
    one("100k-zipf-deny", Case::deny(Draw::Zipf, 100_000, 2, 400_000), 3.0);
    one("1m-uniform-admit", Case::admit(Draw::Uniform, 1_000_000, 2, 200_000), 2.5);
    one("hot-key-admit", Case::admit(Draw::One, 1, 2, 400_000), 1.5);
    one("hot-key-deny", Case::deny(Draw::One, 1, 2, 200_000), 3.0);
}

fn one(choice: &Choice, name: &str, case: Case, least: f64) {
    let sequence = case.sequence();
    let mut rows = Rows::new(&choice.options, case, &sequence);
    each(&mut rows);
    match name {
        "1m-uniform-admit" => {
            rows.huge();
            rows.batched(Pages::Ordinary);
            rows.batched(Pages::Huge);
        }
        "hot-key-admit" => rows.leases(rows.keys()[0]),
        _ => {}
    }
    if case.threads == 2 {
        rows.rows.extend(loops());
    }
    let figures = compare(&choice.options, case.decisions, &rows.rows);
    table(&case.title(name), &figures);
    side_by_side(&figures);
    print_targets(name, &figures, &rows.exact, Some(least));
    let further = [
        ("huge pages", HUGE, None),
        ("batch of 16", BATCHED, None),
        ("batch of 16, huge pages", BATCHED_HUGE, None),
        ("leases, own clock", LEASES, Some(10.0)),
        ("leases, coarse clock", LEASES_COARSE, Some(35.0)),
        ("leases, time given (the peer reads its own clock)", LEASES_GIVEN, Some(35.0)),
    ];
    for (what, ours, least) in further {
        beside_best(&format!("{name}, {what}"), &figures, &rows.exact.own, ours, least);
    }
    println!();
}
