//! `match` by method, address, query and cookie, on the wire.

use crate::support::{Proxy, ask, eventually, scratch};

/// A header that the client names in `Connection`.
const NAMED: &str = "connection: x-plan\r\nx-plan: paid\r\n";

/// How many of three requests a rule with this match denies: it admits one.
fn denied(name: &str, matcher: &str, method: &str, target: &str, headers: &str) -> usize {
    let rules = format!(
        "rule = [{{ name = \"a\", match = {matcher}, key = \"none\", limits = \"1/day\" }}]"
    );
    let proxy = Proxy::with_rules(name, &rules);
    let statuses = [(); 3].map(|()| ask(proxy.listen, method, target, headers).status);
    assert!(statuses.iter().all(|status| [200, 429].contains(status)), "{matcher}: {statuses:?}");
    statuses.into_iter().filter(|status| *status == 429).count()
}

#[test]
fn the_parts_of_a_request_on_the_wire_are_matched() {
    for (index, (matcher, method, target, headers, denials)) in [
        ("{ method = \"GET\" }", "HEAD", "/", "", 2),
        ("{ query = { format = \"a b\" } }", "GET", "/?x&%66ormat=a+b", "", 2),
        ("{ query = { format = \"a b\" } }", "GET", "/?format=a%2520b", "", 0),
        ("{ cookie = { plan = \"free\" } }", "GET", "/", "cookie: a=1; plan=free\r\n", 2),
        ("{ cookie = { plan = false } }", "GET", "/", "cookie: a=1; plan=free\r\n", 0),
        ("{ header = { x-plan = \"paid\" } }", "GET", "/", "x-plan: paid\r\n", 2),
        // The upstream does not receive a header that `Connection` names.
        ("{ header = { x-plan = \"paid\" } }", "GET", "/", NAMED, 0),
        ("{ header = { x-plan = false } }", "GET", "/", NAMED, 2),
        // Nor one whose name a server of CGI would read as `X-Plan`.
        ("{ header = { x-plan = false } }", "GET", "/", "x_plan: paid\r\n", 2),
        ("{ header = { x_plan = true } }", "GET", "/", "X_Plan: paid\r\n", 0),
        ("{ ip = \"127.0.0.0/8\" }", "GET", "/", "", 2),
        ("{ not = { ip = \"127.0.0.0/8\" } }", "GET", "/", "", 0),
        ("{ not = { ip = \"127.0.0.0/8\", path = \"/health\" } }", "GET", "/a", "", 2),
    ]
    .into_iter()
    .enumerate()
    {
        let found = denied(&format!("match-{index}"), matcher, method, target, headers);
        assert_eq!(found, denials, "{matcher} {target} {headers}");
    }
}

#[test]
fn requests_are_exempt_or_answered_403_as_the_rules_say() {
    let rules = r#"rule = [
        { name = "health", match = { path = "/health" }, action = "exempt" },
        { name = "trial", match = { path = "/health/**" }, action = "deny", shadow = true },
        { name = "trial-all", action = "deny", shadow = true },
        { name = "admin", match = { path = "/admin/**", not = { ip = "10.0.0.0/8" } }, action = "deny" },
        { name = "all", key = "none", limits = "2/day" },
    ]"#;
    let proxy = Proxy::with_rules("actions", rules);
    let status = |path: &str| ask(proxy.listen, "GET", path, "").status;
    assert_eq!([(); 4].map(|()| status("/health")), [200; 4]);
    assert_eq!([(); 4].map(|()| status("/admin/users")), [403; 4]);
    let answer = ask(proxy.listen, "GET", "/x/../admin", "");
    assert_eq!((answer.status, answer.header("content-type")), (403, "application/problem+json"));
    assert_eq!((answer.header("retry-after"), answer.header("ratelimit")), ("", ""));
    assert!(answer.body.contains("\"title\":\"Forbidden\""), "{}", answer.body);
    assert_eq!(["/", "/", "/"].map(status), [200, 200, 429]);
    let count = |name: &str, labels: &str| proxy.metric(&format!("tollgate_{name}{{{labels}}}"));
    for (name, labels, expected) in [
        ("rule_admissions_total", "rule=\"health\"", 4.0),
        ("rule_denials_total", "rule=\"admin\"", 5.0),
        ("rule_denials_total", "rule=\"all\"", 1.0),
        ("rule_shadow_denials_total", "rule=\"trial-all\"", 2.0),
        ("decisions_total", "decision=\"no_rule\"", 4.0),
        ("decisions_total", "decision=\"denied\"", 6.0),
        ("decisions_total", "decision=\"admitted\"", 2.0),
    ] {
        assert!((count(name, labels) - expected).abs() < 0.5, "{name} {labels}");
    }
}

#[test]
fn rules_that_no_request_reaches_are_logged_and_mistakes_are_logged_in_part() {
    let rule = |nth: usize| format!("{{ name = \"r{nth}\", limits = \"5/s\" }},\n");
    let rules: String = (0..9).map(rule).collect();
    let rules = format!("rule = [{{ name = \"all\", action = \"exempt\" }},\n{rules}]");
    let proxy = Proxy::with_rules("unreached", &rules);
    let first = "rule \"r0\" is never reached, since \"all\" on line 1 exempts all that it matches";
    let more = "4 more rules are never reached: `tollgate check` shows them";
    eventually("it is logged", || proxy.stderr().contains(first) && proxy.stderr().contains(more));
    // A broken file of 300 kB takes a few lines of the log.
    let before = proxy.stderr().len();
    let broken: String = (0..20_000).map(|nth| format!("key{nth} = nothing\n")).collect();
    scratch("unreached.toml", &broken);
    proxy.signal("HUP");
    let more = "and 19995 more: `tollgate check";
    eventually("it is logged", || proxy.stderr().contains(more));
    assert!(proxy.stderr().len() - before < 4_000, "{}", proxy.stderr());
    assert_eq!(ask(proxy.listen, "GET", "/", "").status, 200);
}
