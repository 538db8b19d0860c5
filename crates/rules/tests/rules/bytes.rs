//! The bandwidth of responses: `bytes`.

use std::sync::Arc;
use std::time::Duration;

use tollgate::ManualClock;
use tollgate_rules::{BytePace, Outcome, Request, Rules, RulesFile, RulesLimiter};

fn paces<C: tollgate::Clock>(gate: &RulesLimiter<C>, user: &str, path: &str) -> Vec<BytePace<C>> {
    let headers = [("x-user", user)];
    gate.decide(&Request { path, headers: &headers, ..Request::default() }).take_paces()
}

#[test]
fn a_response_is_paced_by_the_keys_of_all_rules_that_apply() {
    let text = r#"rule = [
        { name = "each", key = "header:x-user", bytes = "1MB/s burst 100kB" },
        { name = "exports", match = { path = "/export/**" }, key = "none", bytes = "10MB/s",
          limits = "2/h" },
        { name = "denied", match = { path = "/admin" }, action = "deny" },
    ]"#;
    let clock = Arc::new(ManualClock::new());
    let rules = Rules::parse("r.toml", text).expect("no mistakes");
    assert_eq!(rules.rules()[0].bytes(), Some("1M/s burst 100k".parse().expect("a quota")));
    let gate = RulesLimiter::with_clock(rules, Arc::clone(&clock)).expect("memory");
    let [ada] = &paces(&gate, "ada", "/")[..] else { panic!("one rule") };
    let [bob] = &paces(&gate, "bob", "/")[..] else { panic!("one rule") };
    let spend = |pace: &BytePace<ManualClock>, bytes: u64| {
        pace.limiter().ask(pace.key()).cells(bytes).check().is_ok()
    };
    assert!(spend(ada, 100_000) && !spend(ada, 1_000) && spend(bob, 100_000));
    clock.advance(Duration::from_millis(10));
    assert!(spend(ada, 10_000) && !spend(ada, 1_000));
    // The same bucket, whichever request it comes from.
    let both = paces(&gate, "ada", "/export/a");
    assert_eq!(both.len(), 2);
    assert!(!spend(&both[0], 1_000) && spend(&both[1], 10_000_000));
    assert_eq!(
        (paces(&gate, "ada", "/export/a").len(), paces(&gate, "ada", "/export/a").len()),
        (2, 0)
    );
    assert!(paces(&gate, "ada", "/admin").is_empty(), "a denied request has no body to pace");
    let decision = gate.decide(&Request::default());
    assert!(matches!(decision.outcome(), Outcome::NoRule), "nothing is charged before the body");
    assert!(gate.memory_bytes() > 1 << 20);
}

#[test]
fn the_bytes_of_a_key_stay_spent_over_a_reload_unless_the_rate_changes() {
    let path = std::env::temp_dir().join(format!("tollgate-bytes-{}.toml", std::process::id()));
    let write = |more: &str| {
        let text = format!("rule = [{{ name = \"a\", key = \"none\", {more} }}]");
        std::fs::write(&path, text).expect("a file");
    };
    write("bytes = \"1kB/min\"");
    let mut file = RulesFile::open(&path).expect("rules");
    let live = file.live();
    let spend = |bytes: u64| {
        let [pace] = &paces(&live.load(), "", "/")[..] else { panic!("one rule") };
        pace.limiter().ask(pace.key()).cells(bytes).check().is_ok()
    };
    assert!(spend(1_000) && !spend(500));
    write("bytes = \"1kB/min\", match = { path = \"/**\" }");
    let summary = file.poll().expect("no mistakes").expect("a change");
    assert_eq!((summary.kept, summary.new, summary.dropped), (1, 0, 0));
    assert!(!spend(500));
    write("bytes = \"2kB/min\"");
    let summary = file.poll().expect("no mistakes").expect("a change");
    assert_eq!((summary.kept, summary.new, summary.dropped), (0, 1, 1));
    let warnings: Vec<String> = summary.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(warnings, ["rule \"a\", limit \"bytes\" starts afresh, since its rate changed"]);
    assert!(spend(2_000));
    std::fs::remove_file(&path).expect("the file");
}
