//! Rules whose limits a store keeps: matched here, deferred to the caller.

use std::sync::Arc;
use std::time::Duration;

use tollgate::ManualClock;
use tollgate_rules::{Fallback, Outcome, Request, Rules, RulesLimiter};

fn rules(text: &str) -> Rules {
    Rules::parse("r.toml", text).unwrap_or_else(|error| panic!("{error}"))
}

fn gate(rules: Rules) -> RulesLimiter<ManualClock> {
    RulesLimiter::with_clock(rules, Arc::new(ManualClock::new())).expect("there is memory")
}

fn names<'g>(gate: &'g RulesLimiter<ManualClock>, path: &str) -> Vec<&'g str> {
    let decision = gate.decide(&Request { path, ..Request::default() });
    decision.deferred().iter().map(|its| its.rule().name()).collect()
}

const BOTH: &str = r#"
    [[rule]]
    name = "here"
    key = "none"
    limits = "1/h"

    [[rule]]
    name = "there"
    limits = ["5/s", "100/h"]
    store = { url = "redis://cache", ask = "always", fallback = "deny", nodes = 3 }
"#;

#[test]
fn a_request_that_this_process_denies_is_not_deferred() {
    let gate = gate(rules(BOTH));
    let first = gate.decide(&Request::default());
    assert!(matches!(first.outcome(), Outcome::Admitted(its) if its.rule().name() == "here"));
    assert_eq!(first.deferred().len(), 1);
    assert!(!first.is_admitted(), "that is not known yet");
    let second = gate.decide(&Request::default());
    assert!(second.denied().is_some_and(|its| its.rule().name() == "here"));
    assert!(second.deferred().is_empty());
}

#[test]
fn with_first_a_rule_with_a_store_is_the_first() {
    let text = format!("apply = \"first\"\n{BOTH}");
    assert_eq!(names(&gate(rules(&text)), "/"), [""; 0], "the first is of this process");
    let text = text.replace("name = \"here\"", "name = \"here\"\nmatch = { path = \"/here\" }");
    let gate = gate(rules(&text));
    for _ in 0..3 {
        assert_eq!(names(&gate, "/"), ["there"]);
    }
    assert_eq!(names(&gate, "/here"), [""; 0]);
}

#[test]
fn a_rule_in_shadow_with_a_store_is_deferred_beside_the_enforced_rule() {
    let text = r#"
        apply = "first"
        [[rule]]
        name = "trial"
        shadow = true
        limits = "1/s"
        store = "redis://cache"
        [[rule]]
        name = "real"
        limits = "5/s"
        store = "redis://cache"
    "#;
    assert_eq!(names(&gate(rules(text)), "/"), ["trial", "real"]);
}

#[test]
fn a_rule_with_a_store_takes_no_memory_and_is_explained() {
    let shared = rules(BOTH);
    let rule = &shared.rules()[1];
    let store = rule.store().expect("it has one");
    assert_eq!((store.fallback(), store.nodes()), (Fallback::Deny, 3));
    let said = rule.explain();
    let line = "store    redis://cache, which decides each request; while it is down, requests are \
                denied\n";
    assert!(said.contains(line), "{said}");
    let gate = gate(shared.clone());
    assert_eq!(gate.memory_by_rule().nth(1), Some(0));

    // Without stores it is decided here: of the five a second, the sixth is denied.
    let text = BOTH.replace("\"1/h\"", "\"100/h\"");
    let alone = self::gate(rules(&text).without_stores());
    let admitted = (0..9).filter(|_| alone.decide(&Request::default()).is_admitted()).count();
    assert_eq!(admitted, 5);
}

#[test]
fn a_deadline_and_a_prefix_are_read_and_explained() {
    let text = BOTH.replace("nodes = 3", "deadline = \"1500 ms\", prefix = \"shop:eu\"");
    let shared = rules(&text);
    let store = shared.rules()[1].store().expect("it has one");
    assert_eq!(
        (store.deadline(), store.prefix()),
        (Some(Duration::from_millis(1_500)), Some("shop:eu"))
    );
    let said = shared.rules()[1].explain();
    let line = "store    redis://cache, which decides each request with a deadline of 1500 milliseconds, keys begin \
                with \"shop:eu\"; while it is down, requests are denied\n";
    assert!(said.contains(line), "{said}");
    let plain = rules(BOTH);
    let store = plain.rules()[1].store().expect("it has one");
    assert_eq!((store.deadline(), store.prefix()), (None, None), "the caller chooses");
}

#[test]
fn a_password_is_in_no_text_of_the_rules() {
    let text = r#"rule = [{ name = "a", limits = "1/s", store = "redis://me:hunter2@cache/0" }]"#;
    let shared = rules(text);
    let said = format!("{shared:?}\n{}", shared.rules()[0].explain());
    assert!(said.contains("redis://cache/0") && !said.contains("hunter2"), "{said}");
}

#[test]
fn rules_share_connections_if_server_deadline_and_prefix_are_equal() {
    let rules = rules(
        r#"rule = [
            { name = "a", limits = "1/s", store = "redis://cache" },
            { name = "b", limits = "2/s", store = { url = "redis://cache", nodes = 3 } },
            { name = "c", limits = "2/s", store = "redis://other" },
            { name = "d", limits = "2/s", store = { url = "redis://cache", deadline = "1 s" } },
            { name = "e", limits = "2/s", store = { url = "redis://cache", prefix = "mine" } },
        ]"#,
    );
    let store = |index: usize| rules.rules()[index].store().expect("each has one");
    assert!(store(0).shares_connections_with(store(1)));
    for other in 2..5 {
        assert!(!store(0).shares_connections_with(store(other)), "{other}");
        assert!(store(other).shares_connections_with(store(other)), "{other}");
    }
}

#[test]
fn every_form_of_a_url_that_a_client_reads_is_accepted() {
    for url in [
        "redis://cache",
        "redis://cache:",
        "redis://cache:6379/",
        "redis://me:p:w@cache:6379/2?protocol=resp3",
        "redis://[2001:db8::5]:6379",
        "redis://10.0.0.5",
        "redis+cluster://a:6379,b:6379,[::1]",
    ] {
        let text = format!("rule = [{{ name = \"a\", limits = \"1/s\", store = \"{url}\" }}]");
        assert_eq!(rules(&text).rules()[0].store().expect(url).url(), url);
    }
}

#[test]
fn the_text_of_a_store_has_every_node_and_no_password() {
    for (url, text) in [
        ("redis://me:secret@cache:6379/2?protocol=resp3", "redis://cache:6379/2?protocol=resp3"),
        ("redis://:sec,ret@cache", "redis://cache"),
        ("redis://:a@secret@cache", "redis://cache"),
        ("redis+cluster://a:6379,b:6379,[::1]", "redis+cluster://a:6379,b:6379,[::1]"),
        ("redis+cluster://:secret@a,:secret@b", "redis+cluster://a,b"),
        ("redis+cluster://:secret@a:6379/,me:secret@b:6379/", "redis+cluster://a:6379/,b:6379/"),
        (
            "redis+cluster://a/0,:secret@b/0?protocol=resp3",
            "redis+cluster://a/0,b/0?protocol=resp3",
        ),
    ] {
        let rules =
            rules(&format!("rule = [{{ name = \"a\", limits = \"1/s\", store = \"{url}\" }}]"));
        let store = rules.rules()[0].store().expect(url);
        assert_eq!((store.url(), store.to_string().as_str()), (url, text));
        assert!(!format!("{store:?}").contains("secret"), "{store:?}");
    }
}

#[test]
fn a_store_keeps_a_log_of_ten_thousand_cells_at_most() {
    let parsed = |limit: &str| {
        let text = format!(
            "rule = [{{ name = \"a\", algorithm = \"sliding-log\", limits = \"{limit}\", store = \"redis://a\" }}]"
        );
        Rules::parse("r.toml", &text)
    };
    assert!(parsed("10000/min").is_ok());
    let error = parsed("10001/min").expect_err("it is too long");
    let said = error.to_string();
    assert!(said.contains("a \"sliding-log\" of 10,000 cells at most: lower the limit"), "{said}");
}
