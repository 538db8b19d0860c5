//! The cost of requests: `cost`.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tollgate::ManualClock;
use tollgate_rules::{Held, Request, RequestView, Rules, RulesLimiter};

fn gate(text: &str) -> (RulesLimiter<ManualClock>, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new());
    let rules = Rules::parse("r.toml", text).unwrap_or_else(|error| panic!("{error}"));
    (RulesLimiter::with_clock(rules, Arc::clone(&clock)).expect("there is memory"), clock)
}

fn rule(cost: &str, limits: &str) -> String {
    format!("rule = [{{ name = \"a\", key = \"none\", cost = {cost}, limits = {limits} }}]")
}

/// Decides a request; `Err` if it is denied.
fn ask(
    gate: &RulesLimiter<ManualClock>,
    method: &str,
    headers: &[(&str, &str)],
) -> Result<Held<ManualClock>, u64> {
    let mut decision = gate.decide(&Request { method, headers, ..Request::default() });
    match decision.denied() {
        Some(denied) => Err(denied.remaining()),
        None => Ok(decision.take_held()),
    }
}

/// The cells that are left, by a request that no quota can admit.
fn left(gate: &RulesLimiter<ManualClock>) -> u64 {
    let decision = gate.decide_n(&Request { method: "GET", ..Request::default() }, 1 << 40);
    decision.denied().expect("too much").remaining()
}

fn cells(name: &str) -> impl Fn(&str) -> Option<&'static [u8]> {
    let value: &'static [u8] = name.to_owned().leak().as_bytes();
    move |asked| (asked == "x-tokens").then_some(value)
}

#[test]
fn each_request_costs_what_the_rule_says() {
    let (gate, _) = gate(&rule("3", "\"10/h\""));
    (0..3).for_each(|_| assert!(ask(&gate, "GET", &[]).is_ok()));
    assert_eq!(ask(&gate, "GET", &[]).unwrap_err(), 1);
}

#[test]
fn in_a_window_a_request_may_cost_more_than_the_burst() {
    let limits = "{ quota = \"10/h burst 2\", algorithm = \"fixed-window\" }";
    let (gate, _) = gate(&rule("6", limits));
    assert!(ask(&gate, "GET", &[]).is_ok());
    assert_eq!(ask(&gate, "GET", &[]).unwrap_err(), 4);
}

#[test]
fn a_cost_from_a_header_is_bounded_and_a_malformed_one_takes_the_default() {
    let (gate, _) = gate(&rule("{ header = \"X-Cost\", max = 100, default = 7 }", "\"1000000/h\""));
    for (values, cost) in [
        (&["1"][..], 1),
        (&["42"], 42),
        (&[" 42 "], 42),
        (&["100"], 100),
        (&["101"], 100),
        (&["99999999999999999999999999"], 100),
        (&["0"], 1),
        (&["000012"], 12),
        (&[], 7),
        (&[""], 7),
        (&["-5"], 7),
        (&["+5"], 7),
        (&["1e3"], 7),
        (&["3.5"], 7),
        (&["x"], 7),
        // Of several values the largest counts, wherever a client puts it.
        (&["1", "90"], 90),
        (&["90", "1"], 90),
        (&["1", "x"], 7),
    ] {
        let headers: Vec<_> = values.iter().map(|value| ("x-cost", *value)).collect();
        let before = left(&gate);
        assert!(ask(&gate, "GET", &headers).is_ok());
        assert_eq!(before - left(&gate), cost, "{values:?}");
    }
}

#[test]
fn the_length_of_a_request_body_is_a_cost() {
    let text = rule("{ bytes = \"request\", max = 5000 }", "\"1000000/h\"");
    let (gate, _) = gate(&text);
    for (method, headers, cost) in [
        ("GET", &[][..], 1),
        ("DELETE", &[], 1),
        ("POST", &[("content-length", "0")], 1),
        ("POST", &[("content-length", "1234")], 1_234),
        ("POST", &[("content-length", "999999")], 5_000),
        ("POST", &[("content-length", "twelve")], 5_000),
        // Of unknown length.
        ("POST", &[], 5_000),
        ("PUT", &[("transfer-encoding", "chunked")], 5_000),
        ("GET", &[("transfer-encoding", "chunked")], 5_000),
    ] {
        let before = left(&gate);
        assert!(ask(&gate, method, headers).is_ok());
        assert_eq!(before - left(&gate), cost, "{method} {headers:?}");
    }
}

/// The way to deny requests that do not say how long they are.
#[test]
fn a_cost_of_unknown_length_may_be_more_than_a_limit_ever_admits() {
    let text = rule("{ bytes = \"request\", max = 100_000 }", "\"10000/min\"");
    let (gate, _) = gate(&text);
    assert!(ask(&gate, "POST", &[("transfer-encoding", "chunked")]).is_err());
    assert!(ask(&gate, "POST", &[("content-length", "10001")]).is_err());
    assert!(ask(&gate, "POST", &[("content-length", "9999")]).is_ok());
    assert_eq!(left(&gate), 1);
}

/// A request without headers, whose server says whether a body follows.
struct Seen(&'static str, Option<bool>);

impl RequestView for Seen {
    const PATH_HAS_QUERY: bool = false;
    fn method(&self) -> &str {
        self.0
    }
    fn path(&self) -> &str {
        "/"
    }
    fn query(&self) -> Option<&str> {
        None
    }
    fn host(&self) -> Option<&str> {
        None
    }
    fn header_values(&self, _: &str) -> impl Iterator<Item = &[u8]> {
        std::iter::empty()
    }
    fn has_open_body(&self) -> Option<bool> {
        self.1
    }
    fn peer(&self) -> Option<IpAddr> {
        None
    }
}

#[test]
fn a_server_that_sees_no_body_makes_a_request_cost_one_cell_whatever_its_method() {
    let text = rule("{ bytes = \"request\", max = 5000 }", "\"1000000/h\"");
    let rules = Rules::parse("r.toml", &text).expect("rules");
    let costs = |has_open_body| {
        ["GET", "POST"].map(|method| rules.rules()[0].cost_of(&Seen(method, has_open_body)))
    };
    assert_eq!(costs(Some(false)), [1, 1]);
    assert_eq!(costs(Some(true)), [5_000, 5_000]);
    assert_eq!(costs(None), [1, 5_000]);
}

#[test]
fn a_response_settles_what_was_reserved() {
    for limits in ["\"1000/h\"", "{ quota = \"1000/h\", algorithm = \"fixed-window\" }"] {
        let cost = "{ response_header = \"x-tokens\", estimate = 300, max = 800 }";
        let (gate, _) = gate(&rule(cost, limits));
        let settled = |value: &str| {
            let before = left(&gate);
            let mut held = ask(&gate, "POST", &[]).expect("there is enough");
            assert_eq!(before - left(&gate), 300, "the estimate");
            held.answered(cells(value));
            held.sent(5_000);
            assert!(held.is_empty() || before >= left(&gate));
            drop(held);
            before - left(&gate)
        };
        assert_eq!(settled("20"), 20, "{limits}");
        assert_eq!(settled("0"), 0);
        assert_eq!(settled("310"), 310);
        assert_eq!(settled("tokens"), 300, "a malformed header leaves the estimate");
        assert_eq!(left(&gate), 370);
        // More than the quota has left is charged all the same, as a debt.
        let mut held = ask(&gate, "POST", &[]).expect("370 of 300");
        held.answered(cells("10000"));
        assert_eq!(left(&gate), 0);
        assert!(ask(&gate, "POST", &[]).is_err());
    }
}

#[test]
fn a_settled_debt_is_paid_before_the_next_request() {
    let (gate, clock) =
        gate(&rule("{ response_header = \"x-tokens\", estimate = 100 }", "\"1000/h burst 1000\""));
    let mut held = ask(&gate, "POST", &[]).expect("all is there");
    held.answered(cells("2000"));
    drop(held);
    clock.advance(Duration::from_secs(3_600));
    assert!(ask(&gate, "POST", &[]).is_err(), "a debt of 1,000 was paid");
    clock.advance(Duration::from_secs(360));
    assert!(ask(&gate, "POST", &[]).is_ok());
}

#[test]
fn the_bytes_of_a_response_settle_a_cost() {
    let (gate, _) =
        gate(&rule("{ bytes = \"response\", estimate = 100, max = 10000 }", "\"100000/h\""));
    let spent = |end: &dyn Fn(Held<ManualClock>), method: &str| {
        let before = left(&gate);
        end(ask(&gate, method, &[]).expect("there is enough"));
        before - left(&gate)
    };
    assert_eq!(spent(&|mut held| held.sent(5_000), "GET"), 5_000);
    assert_eq!(spent(&|mut held| held.sent(0), "GET"), 0);
    assert_eq!(spent(&|mut held| held.sent(u64::MAX), "GET"), 10_000, "at most max");
    assert_eq!(spent(&|mut held| held.cut_short(5), "GET"), 100, "at least the estimate");
    assert_eq!(spent(&|mut held| held.cut_short(900), "GET"), 900);
    assert_eq!(spent(&|mut held| held.answered(cells("7")), "GET"), 100, "no header counts");
    assert_eq!(spent(&drop, "GET"), 100);
    assert_eq!(spent(&Held::refund, "GET"), 0, "a request that is not served");
    assert_eq!(spent(&|mut held| held.sent(0), "HEAD"), 100, "no body tells the cost");
}

#[test]
fn an_estimate_may_come_from_the_request() {
    let estimate = "{ header = \"x-max-tokens\", max = 400, default = 50 }";
    let cost = format!("{{ response_header = \"x-tokens\", estimate = {estimate} }}");
    let (gate, _) = gate(&rule(&cost, "\"1000/h\""));
    let held = ask(&gate, "POST", &[("x-max-tokens", "9999")]).expect("400 of 1000");
    assert_eq!(left(&gate), 600);
    held.refund();
    assert_eq!(left(&gate), 1_000);
    let held = ask(&gate, "POST", &[]).expect("50 of 1000");
    assert_eq!(left(&gate), 950);
    drop(held);
}

#[test]
fn a_denied_request_reserves_nothing_in_any_rule() {
    let text = r#"rule = [
        { name = "tokens", key = "none", limits = ["1000/h", "5000/d"], concurrency = 9,
          cost = { response_header = "x-tokens", estimate = 400 } },
        { name = "plans", key = "none", cost = { response_header = "x-tokens", estimate = 10 },
          plan = { by = "header:x-plan", gold = "2000/h", default = "1000/h" } },
        { name = "requests", key = "none", limits = "2/h" },
    ]"#;
    let (gate, _) = gate(text);
    let remaining = || {
        let decision = gate.decide_n(&Request::default(), 1_000);
        decision.denied().expect("too much").remaining()
    };
    let held = ask(&gate, "POST", &[]).expect("the first");
    let other = ask(&gate, "POST", &[]).expect("the second");
    let before = remaining();
    for _ in 0..20 {
        assert!(ask(&gate, "POST", &[]).is_err());
    }
    assert_eq!(remaining(), before);
    held.refund();
    other.refund();
    // The quota of requests is not settled.
    assert_eq!(ask(&gate, "POST", &[]).unwrap_err(), 0);
}

#[test]
fn what_a_cost_reads_is_required_and_explained() {
    let text = rule(
        "{ response_header = \"x-tokens\", estimate = { header = \"X-Max\", max = 9 } }",
        "\"10/h\"",
    );
    let rules = Rules::parse("r.toml", &text).expect("no mistakes");
    assert_eq!(rules.required_headers(), ["x-max"]);
    assert!(rules.rules()[0].is_settled_by_response());
    let line = "cost     header x-max, 1 to 9; 1 without a number in it; settled by the response's header \
                x-tokens, at most 1000000000\n";
    assert!(rules.rules()[0].explain().contains(line), "{}", rules.rules()[0].explain());
    let text = rule("{ bytes = \"request\", max = 5000 }", "\"5000/h\"");
    let rules = Rules::parse("r.toml", &text).expect("no mistakes");
    // The second tells whether a request without the first has a body.
    assert_eq!(rules.required_headers(), ["content-length", "transfer-encoding"]);
}

#[test]
fn a_response_settles_a_request_of_many_cells_for_all_of_them() {
    let spent = |cost: &str, settle: &dyn Fn(Held<ManualClock>)| {
        let (gate, _) = gate(&rule(cost, "\"10000/h\""));
        settle(gate.decide_n(&Request { method: "GET", ..Request::default() }, 3).take_held());
        10_000 - left(&gate)
    };
    let by_header = "{ response_header = \"x-tokens\", estimate = 60, max = 500 }";
    assert_eq!(spent(by_header, &|mut held| held.answered(cells("15"))), 45);
    assert_eq!(
        spent(by_header, &|mut held| held.answered(cells("9000"))),
        1_500,
        "the largest cost"
    );
    assert_eq!(spent(by_header, &drop), 180);
    assert_eq!(spent(by_header, &Held::refund), 0);
    let by_bytes = "{ bytes = \"response\", estimate = 60 }";
    assert_eq!(spent(by_bytes, &|mut held| held.sent(20)), 60);
    assert_eq!(spent(by_bytes, &|mut held| held.cut_short(20)), 180, "at least the estimate");
    assert_eq!(spent(by_bytes, &|mut held| held.cut_short(90)), 270);
}
