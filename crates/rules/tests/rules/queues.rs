//! Requests that may wait behind so many others, or not at all.

use std::sync::Arc;
use std::time::Duration;

use tollgate::ManualClock;
use tollgate_rules::{Gate, Request, Rules, Verdict};

fn gate(text: &str) -> (Gate<ManualClock>, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new());
    let rules = Rules::parse("r.toml", text).unwrap_or_else(|error| panic!("{error}"));
    (Gate::with_clock(rules, Arc::clone(&clock)).expect("there is memory"), clock)
}

/// What is left, and how long until the request would be admitted.
fn denied(verdict: &Verdict<'_>) -> (u64, Option<Duration>) {
    let denied = verdict.denied().expect("denied");
    (denied.remaining(), denied.retry_after())
}

#[test]
fn a_request_that_may_not_wait_is_charged_nothing_whether_its_limit_is_alone_or_not() {
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
        // One behind it, and no more.
        assert!(gate.decide_queued(&request, 1).is_admitted());
        for _ in 0..20 {
            let turned_away = denied(&gate.decide_queued(&request, 1));
            assert_eq!(turned_away, (3, Some(Duration::from_millis(100))));
        }
        clock.advance(Duration::from_millis(200));
        assert!(gate.decide_queued(&request, 0).is_admitted());
    }
}

#[test]
fn a_turn_that_comes_too_late_is_no_strike_and_a_denial_is() {
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
    let shadowed = [(); 5].map(|()| gate.decide_queued(&Request::default(), 0).shadowed().len());
    assert_eq!(shadowed, [0, 0, 0, 1, 1]);
}
