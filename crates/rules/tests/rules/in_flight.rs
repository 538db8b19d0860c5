//! Requests in flight: `concurrency`.

use std::sync::Arc;
use std::time::Duration;

use tollgate::ManualClock;
use tollgate_rules::{
    DenyReason, Held, Outcome, Request, Rules, RulesDecision, RulesFile, RulesLimiter,
};

type Gate = RulesLimiter<ManualClock>;

fn gate(text: &str) -> (Gate, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new());
    let rules = Rules::parse("r.toml", text).unwrap_or_else(|error| panic!("{error}"));
    let gate = RulesLimiter::with_clock(rules, Arc::clone(&clock));
    (gate.expect("there is memory"), clock)
}

/// Decides a request of this user; `Ok` is what it holds.
fn ask(gate: &Gate, user: &str) -> Result<Held<ManualClock>, String> {
    let headers = [("x-user", user)];
    let mut decision = gate.decide(&Request { headers: &headers, ..Request::default() });
    match decision.denied() {
        Some(denied) => Err(format!("{}: {:?}", denied.rule().name(), denied.reason())),
        None => Ok(decision.take_held()),
    }
}

fn is_in_flight_denial<C: tollgate::Clock>(decision: &RulesDecision<'_, C>) -> bool {
    decision.denied().is_some_and(|its| matches!(its.reason(), DenyReason::InFlight(_)))
}

#[test]
fn each_key_has_as_many_requests_in_flight_as_the_rule_allows() {
    let (gate, _) = gate(r#"rule = [{ name = "a", key = "header:x-user", concurrency = 2 }]"#);
    let ada = [ask(&gate, "ada").unwrap(), ask(&gate, "ada").unwrap()];
    let denied = ask(&gate, "ada").unwrap_err();
    assert!(denied.starts_with("a: InFlight(") && denied.contains("in_flight: 2"), "{denied}");
    let bob = ask(&gate, "bob").expect("another key");
    let [first, second] = ada;
    drop(first);
    let third = ask(&gate, "ada").expect("one has ended");
    assert!(ask(&gate, "ada").is_err());
    drop((second, third, bob));
    assert!(ask(&gate, "ada").is_ok());
}

#[test]
fn a_decision_says_how_many_are_in_flight_and_when_to_return() {
    let (gate, _) = gate(r#"rule = [{ name = "a", key = "none", concurrency = 3 }]"#);
    let first = gate.decide(&Request::default());
    assert!(matches!(first.outcome(), Outcome::NoRule), "no rule with a quota");
    let second = gate.decide_n(&Request::default(), 7);
    let [entry] = second.in_flight() else { panic!("{second:?}") };
    assert_eq!(
        (entry.limit(), entry.in_flight(), entry.remaining()),
        (3, 2, 1),
        "cells are not counted"
    );
    let third = gate.decide(&Request::default());
    let denied = gate.decide(&Request::default());
    assert!(is_in_flight_denial(&denied));
    assert_eq!(denied.denied().unwrap().retry_after(), Some(Duration::ZERO));
    assert_eq!((denied.denied().unwrap().remaining(), denied.denied().unwrap().limit()), (0, None));
    drop((first, second, third));
    assert!(gate.decide(&Request::default()).is_admitted());
}

#[test]
fn a_request_denied_by_any_limit_is_charged_by_none() {
    let (gate, clock) = gate(
        r#"rule = [
            { name = "both", key = "none", limits = "3/h", concurrency = 1 },
            { name = "all", key = "none", limits = "9/h" },
        ]"#,
    );
    let held = ask(&gate, "ada").unwrap();
    // Denied because of what is in flight: no quota is charged.
    (0..20).for_each(|_| assert!(ask(&gate, "ada").unwrap_err().starts_with("both: InFlight")));
    drop(held);
    assert!(ask(&gate, "ada").is_ok() && ask(&gate, "ada").is_ok());
    // Denied by the quota: nothing stays in flight.
    assert!(ask(&gate, "ada").unwrap_err().starts_with("both: Limit"));
    clock.advance(Duration::from_secs(1_200));
    assert!(ask(&gate, "ada").is_ok());
}

#[test]
fn a_rule_in_shadow_counts_what_it_would_have_admitted() {
    let (gate, _) =
        gate(r#"rule = [{ name = "a", key = "none", concurrency = 1, shadow = true }]"#);
    let mut first = gate.decide(&Request::default());
    assert!(first.shadow_denials().is_empty() && first.in_flight().is_empty());
    let held = first.take_held();
    assert_eq!(gate.decide(&Request::default()).shadow_denials().len(), 1);
    drop(held);
    assert!(gate.decide(&Request::default()).shadow_denials().is_empty());
}

#[test]
fn a_denial_by_requests_in_flight_is_a_strike_of_the_penalty() {
    let (gate, clock) = gate(
        r#"rule = [{ name = "a", key = "none", concurrency = 1,
            penalty = { ban = "1 min", after = 2 } }]"#,
    );
    let held = ask(&gate, "ada").unwrap();
    assert!(ask(&gate, "ada").unwrap_err().starts_with("a: InFlight"));
    assert!(ask(&gate, "ada").unwrap_err().starts_with("a: InFlight"));
    drop(held);
    assert!(ask(&gate, "ada").unwrap_err().starts_with("a: Banned"));
    clock.advance(Duration::from_secs(60));
    assert!(ask(&gate, "ada").is_ok());
}

#[test]
fn a_lost_request_is_forgotten_after_its_longest_hold() {
    let (gate, clock) = gate(
        r#"rule = [{ name = "a", key = "none", concurrency = { limit = 1, max_hold = "10 s" } }]"#,
    );
    let held = ask(&gate, "ada").unwrap();
    clock.advance(Duration::from_secs(10));
    assert!(ask(&gate, "ada").is_err());
    clock.advance(Duration::from_secs(10));
    assert!(ask(&gate, "ada").is_ok());
    drop(held);
}

#[test]
fn a_key_in_use_is_not_evicted_and_one_without_room_is_treated_as_on_full_says() {
    for (on_full, admits) in [("evict", false), ("deny", false), ("admit", true)] {
        let text = format!(
            "rule = [{{ name = \"a\", key = \"header:x-user\", capacity = 1, on_full = \"{on_full}\",
                concurrency = 1 }}]"
        );
        let (gate, _) = gate(&text);
        let users: Vec<String> = (0..500).map(|user| user.to_string()).collect();
        let held: Vec<_> = users.iter().map(|user| (user, ask(&gate, user))).collect();
        let denied = held.iter().filter(|(_, its)| its.is_err()).count() as u64;
        assert_eq!(denied == 0, admits, "{on_full}");
        let stats = gate.stats().next().unwrap().in_flight.unwrap().stats;
        assert_eq!(stats.denied_full, denied, "{on_full}");
        assert_eq!(stats.admitted_full > 0, admits, "{on_full}");
        let counted = held.iter().filter(|(user, its)| its.is_ok() && ask(&gate, user).is_err());
        assert!((1..100).contains(&counted.count()), "{on_full}");
    }
}

#[test]
fn stats_count_keys_with_requests_in_flight() {
    let (gate, _) =
        gate(r#"rule = [{ name = "a", key = "header:x-user", capacity = 1000, concurrency = 2 }]"#);
    let held: Vec<_> = (0..20).map(|user: u32| ask(&gate, &user.to_string()).unwrap()).collect();
    let stats = gate.stats().next().unwrap();
    assert_eq!((stats.admitted, stats.in_flight.unwrap().keys), (20, 20));
    assert!(gate.memory_bytes() > 16_000);
    drop(held);
    assert_eq!(gate.stats().next().unwrap().in_flight.unwrap().keys, 0);
}

#[test]
fn requests_in_flight_stay_counted_over_a_reload() {
    let path = std::env::temp_dir().join(format!("tollgate-in-flight-{}.toml", std::process::id()));
    let write = |concurrency: &str, more: &str| {
        let text = format!(
            "rule = [{{ name = \"a\", key = \"none\", concurrency = {concurrency} {more} }}]"
        );
        std::fs::write(&path, text).expect("a file");
    };
    write("2", "");
    let mut file = RulesFile::open(&path).expect("rules");
    let live = file.live();
    let enter = || {
        let rules = live.load();
        let mut decision = rules.decide(&Request::default());
        decision.is_admitted().then(|| decision.take_held())
    };
    let first = enter().expect("one of two");
    write("2", ", match = { path = \"/**\" }");
    let summary = file.poll().expect("no mistakes").expect("a change");
    assert_eq!((summary.kept, summary.new, summary.dropped), (1, 0, 0));
    let second = enter().expect("two of two");
    assert!(enter().is_none());
    // Another limit counts what is in flight already.
    write("3", "");
    file.poll().expect("no mistakes");
    let third = enter().expect("three of three");
    assert!(enter().is_none());
    write("1", "");
    assert!(file.poll().expect("no mistakes").expect("a change").warnings.is_empty());
    drop((first, second));
    assert!(enter().is_none(), "the third is in flight");
    drop(third);
    let last = enter().expect("none is in flight");
    write("{ limit = 1, max_hold = \"1 h\" }", "");
    let summary = file.poll().expect("no mistakes").expect("a change");
    let warnings: Vec<String> = summary.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        ["rule \"a\", limit \"concurrency\" starts afresh, since \"max_hold\" changed"]
    );
    assert!(enter().is_some(), "it starts afresh");
    drop(last);
    std::fs::remove_file(&path).expect("the file");
}

#[test]
fn requests_stay_in_flight_and_bans_stay_when_limits_become_a_plan() {
    let file = format!("tollgate-flight-plan-{}.toml", std::process::id());
    let path = std::env::temp_dir().join(file);
    let write = |limits: &str| {
        let text = format!(
            "rule = [
                {{ name = \"a\", match = {{ path = \"/a\" }}, key = \"none\", concurrency = 2, {limits} }},
                {{ name = \"b\", match = {{ path = \"/b\" }}, key = \"none\", penalty = \"1 h\", {limits} }},
            ]"
        );
        std::fs::write(&path, text).expect("a file");
    };
    let plan = "plan = { by = \"header:x-plan\", gold = \"9/h\", default = \"5/h\" }";
    write("limits = \"5/h\"");
    let mut file = RulesFile::open(&path).expect("rules");
    let live = file.live();
    let enter = |path| {
        let rules = live.load();
        let mut decision = rules.decide(&Request { path, ..Request::default() });
        decision.is_admitted().then(|| decision.take_held())
    };
    let held = enter("/a").expect("one of two");
    assert_eq!((0..9).filter(|_| enter("/b").is_some()).count(), 5, "then it is banned");
    for (limits, afresh) in [
        (plan, "limit \"plan\" starts afresh, since the rule had \"limits\" before"),
        ("limits = \"5/h\"", "limit \"5/h\" starts afresh, since the rule had \"plan\" before"),
    ] {
        write(limits);
        let summary = file.poll().expect("no mistakes").expect("a change");
        let warnings: Vec<String> = summary.warnings.iter().map(ToString::to_string).collect();
        assert_eq!(warnings, ["a", "b"].map(|rule| format!("rule \"{rule}\", {afresh}")));
        assert_eq!((summary.kept, summary.new, summary.dropped), (1, 2, 2));
        let other = enter("/a").expect("two of two");
        assert!(enter("/a").is_none(), "the first is still in flight");
        assert!(enter("/b").is_none(), "the ban stays");
        drop(other);
    }
    drop(held);
    std::fs::remove_file(&path).expect("the file");
}
