//! A decision by a rules file: the rules that the index finds, beside trying every rule.
//!
//! `cargo bench -p tollgate-benches --bench rules`

use std::fmt::Write;
use std::hint::black_box;
use std::net::IpAddr;

use tollgate_benches::options::Options;
use tollgate_benches::report::{compared, heading, quartiles, table, verdict};
use tollgate_benches::rounds::{Row, compare};
use tollgate_benches::target::Bound;
use tollgate_rules::{Request, Rules, RulesLimiter};

const DECISIONS: usize = 5_000;

/// A gateway's file: half of the rules are for paths with a common beginning, a quarter for other paths and a
/// method, and a quarter for networks.
fn file(rules: usize) -> String {
    let mut text = String::new();
    for nth in 0..rules {
        let matcher = match nth % 4 {
            0 | 2 => format!("path = \"/api/v1/service{nth}/**\""),
            1 => format!("path = \"/tenant{nth}/*/items\", method = \"POST\""),
            _ => format!("ip = \"10.{}.{}.0/24\"", nth / 256, nth % 256),
        };
        writeln!(
            text,
            "[[rule]]\nname = \"{nth}\"\nmatch = {{ {matcher} }}\ncapacity = 1000\nlimits = \"1000000/s\""
        )
        .expect("a string takes everything");
    }
    text
}

fn main() {
    let options = Options::from_args();
    heading("rules: the rules that the index finds, beside trying every rule");
    for rules in [10, 100, 1_000] {
        let parsed = Rules::parse("bench.toml", &file(rules)).expect("no mistakes");
        let gate = RulesLimiter::new(parsed).expect("memory");
        let last_service = (rules - 1) / 2 * 2;
        let service = format!("/api/v1/service{last_service}/orders/7?page=2");
        for (what, method, path) in [
            ("no rule matches", "GET", "/assets/app.css"),
            ("one of the last rules admits", "GET", &*service),
            ("two readings, one of the last rules admits", "GET", &format!("/x/..{service}")),
        ] {
            let peers = (0..200).map(|nth| Some(IpAddr::from([192, 0, 2, nth])));
            let request = |peer| Request { method, path, peer, ..Request::default() };
            let requests: Vec<Request<'_>> = peers.map(request).collect();
            let title = format!("{rules} rules, {what}");
            let (index, each) =
                ("tollgate: by the index, own clock", "tollgate: each rule, own clock");
            let count = |decide: &dyn Fn(&Request<'_>) -> bool, decisions: usize| {
                let requests = requests.iter().cycle().take(decisions);
                requests.filter(|request| black_box(decide(black_box(request)))).count()
            };
            let by_index = |request: &Request<'_>| gate.decide(request).is_admitted();
            let by_each =
                |request: &Request<'_>| gate.decide_among(request, 1, |_, _| true).is_admitted();
            let rows = [
                Row::new(index, 1, |turn| count(&by_index, turn.decisions)),
                Row::new(each, 1, |turn| count(&by_each, turn.decisions)),
            ];
            let figures = compare(&options, DECISIONS, &rows);
            table(&title, &figures);
            compared(&title, &figures, [index, each]);
            let found = figures.iter().find(|its| its.name == index);
            if let (1_000, Some(found)) = (rules, found) {
                let [_, median, _] = quartiles(&found.nanos);
                verdict(&title, median, Bound::AtMost(1_000.0), "nanoseconds, by the index");
            }
        }
    }
}
