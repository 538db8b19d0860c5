//! Requests that may wait in a queue of bounded length.

use std::net::IpAddr;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use tollgate::ManualClock;
use tollgate_rules::{DenyReason, Request, Rules, RulesDecision, RulesLimiter};

fn gate(text: &str) -> (RulesLimiter<ManualClock>, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new());
    let rules = Rules::parse("r.toml", text).unwrap_or_else(|error| panic!("{error}"));
    (RulesLimiter::with_clock(rules, Arc::clone(&clock)).expect("there is memory"), clock)
}

/// The cells left of the limit, and the time until the request would be admitted. If its turn comes too late, clients
/// are shown that none are left.
fn denied(decision: &RulesDecision<'_, ManualClock>) -> (u64, Option<Duration>) {
    let denied = decision.denied().expect("denied");
    let (DenyReason::Limit(_, of_limit) | DenyReason::Banned(of_limit)) = denied.reason() else {
        panic!("{denied:?}")
    };
    let shown = if denied.comes_too_late() { 0 } else { of_limit.remaining() };
    assert_eq!(denied.remaining(), shown);
    (of_limit.remaining(), denied.retry_after())
}

#[test]
fn a_turn_too_late_leaves_no_cells_also_if_another_limit_denies_for_a_shorter_time() {
    let (gate, _) = gate(
        r#"rule = [
            { name = "bucket", key = "none", limits = "20/s burst 1" },
            { name = "queue", key = "none", algorithm = "leaky-queue", limits = "10/s burst 50" },
        ]"#,
    );
    assert!(gate.decide_queued(&Request::default(), 0).is_admitted());
    let decision = gate.decide_queued(&Request::default(), 0);
    let denied = decision.denied().expect("by both");
    assert_eq!((denied.rule().name(), denied.comes_too_late()), ("queue", false));
    assert_eq!(denied.remaining(), 0);
}

#[test]
fn a_request_that_may_not_wait_is_charged_nothing_alone_or_beside_another_limit() {
    let alone = r#"rule = [
        { name = "q", key = "none", algorithm = "leaky-queue", limits = "10/s burst 5" },
    ]"#;
    let beside = r#"rule = [
        { name = "q", key = "none", algorithm = "leaky-queue", limits = "10/s burst 5" },
        { name = "b", key = "none", limits = "100/day" },
    ]"#;
    for text in [alone, beside] {
        let (gate, clock) = gate(text);
        let request = Request::default();
        assert!(gate.decide_queued(&request, 0).is_admitted());
        for _ in 0..20 {
            let turned_away = denied(&gate.decide_queued(&request, 0));
            assert_eq!(turned_away, (4, Some(Duration::from_millis(100))));
        }
        // One request may wait, and no second.
        assert!(gate.decide_queued(&request, 1).is_admitted());
        for _ in 0..20 {
            let turned_away = denied(&gate.decide_queued(&request, 1));
            assert_eq!(turned_away, (3, Some(Duration::from_millis(100))));
        }
        clock.advance(Duration::from_millis(200));
        assert!(gate.decide_queued(&request, 0).is_admitted());
    }
}

/// A queue of `100/s burst 1000` that 200 cells are charged to, by requests that `cost` settles.
fn costly(cost: &str) -> RulesLimiter<ManualClock> {
    let (gate, _) = gate(&format!(
        "rule = [{{ name = \"q\", key = \"none\", algorithm = \"leaky-queue\", cost = {cost}, \
         limits = \"100/s burst 1000\" }}]"
    ));
    assert!(gate.decide_queued(&costing("200"), 0).is_admitted());
    gate
}

fn costing(cells: &'static str) -> Request<'static> {
    let headers: &[_] = match cells {
        "200" => &[("x-cost", "200")],
        "100" => &[("x-cost", "100")],
        _ => &[],
    };
    Request { headers, ..Request::default() }
}

#[test]
fn as_many_requests_wait_whatever_fixed_number_of_cells_each_costs() {
    let fixed = costly("200");
    assert_eq!(denied(&fixed.decide_queued(&Request::default(), 0)).0, 800);
    for waiting in 1..5 {
        assert!(fixed.decide_queued(&Request::default(), waiting).is_admitted(), "{waiting}");
        let decision = fixed.decide_queued(&Request::default(), waiting);
        assert!(decision.denied().is_some(), "{waiting} wait");
    }
    let full = fixed.decide_queued(&Request::default(), 128);
    assert!(!full.denied().expect("1,000 of 1,000 cells").comes_too_late());
}

/// A client that could choose the costs would otherwise let more requests wait than the bound says.
#[test]
fn a_queue_whose_costs_differ_is_bounded_as_if_each_request_cost_one_cell() {
    let by_header = costly("{ header = \"x-cost\", max = 1000 }");
    let decision = by_header.decide_queued(&costing("100"), 128);
    assert!(decision.denied().expect("its turn is in 2 s").comes_too_late());
    assert!(by_header.decide_queued(&costing("100"), 200).is_admitted());
}

#[test]
fn a_denial_comes_too_late_only_if_each_limit_has_the_cells() {
    let queue =
        r#"{ name = "q", key = "none", algorithm = "leaky-queue", limits = "1/s burst 5" }"#;
    let window = r#"{ name = "w", key = "none", limits = "1/h burst 4" }"#;
    let is_late = |rules: &str, cells| {
        let (gate, _) = gate(&format!("rule = [{rules}]"));
        assert!(gate.decide(&Request::default()).is_admitted());
        let decision = gate.decide_queued_among(&Request::default(), cells, 0, |_, _| true);
        decision.denied().expect("it may not wait").comes_too_late()
    };
    assert_eq!([3, 4, 5, 6].map(|cells| is_late(queue, cells)), [true, true, false, false]);
    for both in [format!("{queue}, {window}"), format!("{window}, {queue}")] {
        assert_eq!([3, 4, 5].map(|cells| is_late(&both, cells)), [true, false, false], "{both}");
    }
}

#[test]
fn a_denial_is_a_strike_unless_only_the_turn_comes_too_late() {
    let text = r#"rule = [{
        name = "q", key = "none", algorithm = "leaky-queue", limits = "10/s burst 2",
        penalty = { ban = "1 h", after = 3, within = "10 min" },
    }]"#;
    let (gate, clock) = gate(&text.replace("\n        ", " ").replace(",\n    }", " }"));
    let request = Request::default();
    assert!(gate.decide_queued(&request, 0).is_admitted());
    for _ in 0..20 {
        assert_eq!(denied(&gate.decide_queued(&request, 0)).0, 1);
    }
    assert!(gate.decide_queued(&request, 5).is_admitted());
    for _ in 0..3 {
        assert_eq!(denied(&gate.decide_queued(&request, 5)).0, 0);
    }
    clock.advance(Duration::from_secs(60));
    let banned_for = denied(&gate.decide_queued(&request, 5)).1.expect("a ban ends");
    assert!(banned_for > Duration::from_secs(3_000), "{banned_for:?}");
}

#[test]
fn a_rule_in_shadow_decides_as_if_the_request_could_wait() {
    let text = r#"rule = [
        { name = "q", key = "none", algorithm = "leaky-queue", limits = "1/h burst 3", shadow = true },
    ]"#;
    let (gate, _) = gate(text);
    let shadowed =
        [(); 5].map(|()| gate.decide_queued(&Request::default(), 0).shadow_denials().len());
    assert_eq!(shadowed, [0, 0, 0, 1, 1]);
}

/// A queue whose slots 16 clients have taken, alone and beside another limit. Further clients share
/// one queue.
fn overflowing() -> [RulesLimiter<ManualClock>; 2] {
    let alone = r#"rule = [
        { name = "q", key = "ip", algorithm = "leaky-queue", limits = "10/s burst 5",
          capacity = 1, on_full = { shared = "10/s burst 5" } },
        { name = "b", match = { path = "BESIDE" }, key = "none", limits = "100/day" },
    ]"#;
    ["/elsewhere", "/**"].map(|path| {
        let (gate, _) = gate(&alone.replace("\n        ", " ").replace("BESIDE", path));
        for number in 0..16 {
            assert!(gate.decide_queued(&from(number), 0).is_admitted());
        }
        gate
    })
}

fn from(number: u8) -> Request<'static> {
    Request { path: "/x", peer: Some(IpAddr::from([192, 0, 2, number])), ..Request::default() }
}

#[test]
fn clients_that_share_the_overflow_queue_wait_no_longer_than_a_queue_of_bounded_length() {
    for gate in overflowing() {
        assert!(gate.decide_queued(&from(16), 1).is_admitted());
        assert!(gate.decide_queued(&from(17), 1).is_admitted());
        for number in 18..28 {
            let turned_away = denied(&gate.decide_queued(&from(number), 1));
            assert_eq!(turned_away.1, Some(Duration::from_millis(100)), "{number}");
        }
    }
}

#[test]
fn clients_that_share_the_overflow_queue_get_its_delay_alone_or_beside_another_limit() {
    for gate in overflowing() {
        for (number, millis) in [(16, 0), (17, 100), (18, 200)] {
            let decision = gate.decide(&from(number));
            let permit = decision.permit().expect("there is room in the queue");
            assert_eq!(permit.delay(), Duration::from_millis(millis), "{number}");
        }
    }
}

/// The threads peek at the queue before any of them is charged.
#[test]
fn requests_of_several_threads_have_different_turns_in_a_queue_beside_another_limit() {
    const ROUNDS: u64 = 500;
    let (gate, clock) = gate(
        r#"rule = [
            { name = "q", key = "none", algorithm = "leaky-queue", limits = "10/s burst 9" },
            { name = "b", key = "none", limits = "100000/day" },
        ]"#,
    );
    let together = Barrier::new(3);
    let ask = || {
        together.wait();
        let decision = gate.decide(&Request::default());
        decision.permit().expect("there is room in the queue").delay().as_millis()
    };
    for round in 0..ROUNDS {
        let mut delays: Vec<u128> = thread::scope(|scope| {
            let threads: Vec<_> = (0..3).map(|_| scope.spawn(ask)).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        delays.sort_unstable();
        assert_eq!(delays, [0, 100, 200], "round {round}");
        clock.advance(Duration::from_secs(10));
    }
}
