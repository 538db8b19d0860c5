//! A bucket for every key: the comparisons whose rows all fit into memory together.

use tollgate_benches::keys::Draw;
use tollgate_benches::report::table;
use tollgate_benches::rounds::compare;
use tollgate_peers::limiters::each;

use crate::choice::Choice;
use crate::ours::{BATCHED, BATCHED_HUGE, HUGE, LEASES, LEASES_COARSE, LEASES_GIVEN, Pages};
use crate::rows::{Case, Rows, Wanted, beside_best, loops, print_targets, side_by_side};

pub(crate) fn run(choice: &Choice) {
    let wanted = |own, given| Wanted { own: Some(own), given: Some(given), both: None };
    let one = |name: &str, case: Case, wanted: Wanted| {
        if choice.wants_case(name) {
            one(choice, name, case, wanted);
        }
    };
    one("1k-zipf-admit", Case::admit(Draw::Zipf, 1_000, 1, 50_000), wanted(1.35, 4.0));
    one("1k-zipf-deny", Case::deny(Draw::Zipf, 1_000, 1, 50_000), Wanted::default());
    one("100k-uniform-admit", Case::admit(Draw::Uniform, 100_000, 2, 400_000), wanted(1.4, 4.5));
    one("100k-zipf-deny", Case::deny(Draw::Zipf, 100_000, 2, 400_000), wanted(3.0, 10.0));
    one("1m-uniform-admit", Case::admit(Draw::Uniform, 1_000_000, 2, 200_000), wanted(2.0, 8.0));
    one("hot-key-admit", Case::admit(Draw::One, 1, 2, 400_000), Wanted::default());
    one("hot-key-deny", Case::deny(Draw::One, 1, 2, 200_000), Wanted::default());
}

fn one(choice: &Choice, name: &str, case: Case, wanted: Wanted) {
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
    print_targets(name, &figures, &rows.exact, wanted);
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
