//! The rules that apply, their keys, and their decisions.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tollgate::ManualClock;
use tollgate_rules::{DenyReason, Outcome, Request, Rules, RulesLimiter};

fn gate(text: &str) -> (RulesLimiter<ManualClock>, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new());
    clock.advance(Duration::from_secs(1_000_000));
    let rules = Rules::parse("r.toml", text).unwrap_or_else(|error| panic!("{error}"));
    (RulesLimiter::with_clock(rules, Arc::clone(&clock)).expect("there is memory"), clock)
}

fn get(path: &str) -> Request<'_> {
    Request { method: "GET", path, ..Request::default() }
}

fn from(peer: &str) -> Request<'static> {
    Request { method: "GET", path: "/", peer: peer.parse::<IpAddr>().ok(), ..Request::default() }
}

/// The limit that denies a request: `rule/limit`; empty if it is admitted.
fn denial<C: tollgate::Clock>(gate: &RulesLimiter<C>, request: &Request<'_>) -> String {
    match gate.decide(request).denied() {
        Some(denied) => match denied.reason() {
            DenyReason::Limit(limit, _) => format!("{}/{}", denied.rule().name(), limit.name()),
            why => format!("{}/{}", denied.rule().name(), &format!("{why:?}")[..4]),
        },
        None => String::new(),
    }
}

#[test]
fn a_rule_applies_if_all_its_conditions_hold() {
    let request = |method, host, path| Request { method, host, path, ..Request::default() };
    let plain = request("GET", None, "/");
    let headers = [("X-Plan", " free "), ("x-plan", "trial"), ("X-Debug", "")];
    let with = Request { headers: &headers, ..plain };
    for (matcher, request, fits) in [
        ("{}", plain, true),
        ("{ method = \"GET\" }", plain, true),
        ("{ method = \"POST\" }", plain, false),
        ("{ method = [\"POST\", \"GET\"] }", plain, true),
        ("{ path = \"/a/*\" }", request("GET", None, "/a/b"), true),
        ("{ path = \"/a/*\" }", request("GET", None, "/a/b/c"), false),
        ("{ path = [\"/a\", \"/b/**\"] }", request("GET", None, "/b/c/d"), true),
        ("{ path = \"/a\", method = \"PUT\" }", request("GET", None, "/a"), false),
        ("{ path = \"/a\", method = \"PUT\" }", request("PUT", None, "/a/"), true),
        ("{ host = \"example.com\" }", plain, false),
        ("{ host = \"example.com\" }", request("GET", Some("EXAMPLE.com:81"), "/"), true),
        ("{ host = \"*.example.com\" }", request("GET", Some("www.example.com"), "/"), true),
        ("{ host = [\"a.com\", \"b.com\"] }", request("GET", Some("b.com"), "/"), true),
        ("{ header = { X-Plan = \"free\" } }", with, true),
        ("{ header = { x-plan = \"trial\" } }", with, true),
        ("{ header = { x-plan = \"Free\" } }", with, false),
        ("{ header = { x-debug = true } }", with, true),
        ("{ header = { x-debug = false } }", with, false),
        ("{ header = { x-other = false } }", with, true),
        ("{ header = { x-other = true } }", with, false),
        ("{ header = { x-plan = \"free\", x-other = true } }", with, false),
    ] {
        let text = format!(
            "rule = [{{ name = \"a\", match = {matcher}, key = \"none\", limits = \"1/s\" }}]"
        );
        let rules = Rules::parse("r.toml", &text).expect("a rule");
        assert_eq!(rules.rules()[0].matches(&request), fits, "{matcher} {request:?}");
        let (gate, _) = gate(&text);
        let is_admitted = matches!(gate.decide(&request).outcome(), Outcome::Admitted(_));
        assert_eq!(is_admitted, fits, "{matcher} {request:?}");
        assert_eq!(!gate.decide(&request).is_admitted(), fits, "{matcher} {request:?}");
    }
}

#[test]
fn all_matching_rules_apply_or_with_first_only_the_first() {
    let rules = "
        rule = [
            { name = \"narrow\", match = { path = \"/a\" }, key = \"none\", limits = \"3/h\" },
            { name = \"wide\", key = \"none\", limits = \"2/h\" },
        ]";
    let (all, _) = gate(rules);
    let said: Vec<_> = (0..3).map(|_| denial(&all, &get("/a"))).collect();
    assert_eq!(said, ["", "", "wide/2/h"]);
    assert_eq!(denial(&all, &get("/b")), "wide/2/h");

    let (first, _) = gate(&format!("apply = \"first\"\n{rules}"));
    let said: Vec<_> = (0..4).map(|_| denial(&first, &get("/a"))).collect();
    assert_eq!(said, ["", "", "", "narrow/3/h"]);
    assert_eq!(denial(&first, &get("/b")), "");
}

#[test]
fn a_denied_request_is_charged_to_no_limit() {
    for (a, b) in
        [("gcra", "sliding-log"), ("sliding-log", "sub-windows"), ("fixed-window", "gcra")]
    {
        let (gate, clock) = gate(&format!(
            "rule = [
                {{ name = \"a\", key = \"none\", algorithm = \"{a}\", limits = \"5/h\" }},
                {{ name = \"b\", key = \"ip\", algorithm = \"{b}\", limits = [\"2/h\", \"4/day\"] }},
            ]"
        ));
        assert_eq!([(); 2].map(|()| denial(&gate, &from("192.0.2.1"))), ["", ""]);
        for _ in 0..50 {
            assert_eq!(denial(&gate, &from("192.0.2.1")), "b/2/h");
        }
        // Two of five were charged, so three are left, and the day's four still has two.
        let others = ["192.0.2.2", "192.0.2.2", "192.0.2.3", "192.0.2.4"];
        assert_eq!(others.map(|peer| denial(&gate, &from(peer))), ["", "", "", "a/5/h"], "{a} {b}");
        clock.advance(Duration::from_secs(7_300));
        assert_eq!([(); 2].map(|()| denial(&gate, &from("192.0.2.1"))), ["", ""], "{a} {b}");
    }
}

#[test]
fn a_denial_names_the_longest_wait_and_a_permit_the_tightest_limit() {
    let (gate, clock) =
        gate("rule = [{ name = \"a\", key = \"none\", limits = [\"3/s\", \"3/min\", \"5/h\"] }]");
    let decision = gate.decide_n(&get("/"), 2);
    let permit = decision.permit().expect("admitted");
    assert_eq!((permit.limit().name(), permit.remaining()), ("3/s", 1));
    let decision = gate.decide_n(&get("/"), 4);
    let denied = decision.denied().expect("more than ever fits");
    assert_eq!((denied.limit().unwrap().name(), denied.retry_after()), ("3/s", None));
    let decision = gate.decide_n(&get("/"), 2);
    let denied = decision.denied().expect("1 is left");
    assert_eq!(denied.limit().unwrap().name(), "3/min");
    assert_eq!((denied.remaining(), denied.retry_after()), (1, Some(Duration::from_secs(20))));
    assert_eq!(denied.reset_after(), Duration::from_secs(40));
    clock.advance(Duration::from_secs(20));
    assert!(gate.decide_n(&get("/"), 2).is_admitted());
}

#[test]
fn a_rule_in_shadow_denies_nothing_and_reports_its_denials() {
    let (gate, _) = gate(
        "apply = \"first\"
         rule = [
            { name = \"new\", shadow = true, key = \"none\", limits = \"1/h\" },
            { name = \"old\", key = \"none\", limits = \"2/h\" },
         ]",
    );
    let shadowed = || {
        let decision = gate.decide(&get("/"));
        let names: Vec<_> =
            decision.shadow_denials().iter().map(|it| it.rule().name().to_owned()).collect();
        (decision.is_admitted(), names)
    };
    assert_eq!(shadowed(), (true, vec![]));
    assert_eq!(shadowed(), (true, vec!["new".to_owned()]));
    // A request that an enforced rule denies is not charged to the rule in shadow.
    assert_eq!(shadowed(), (false, vec![]));
}

#[test]
fn a_request_without_a_key_is_shared_skipped_or_denied_as_the_file_says() {
    let of = |on_no_key: &str| {
        gate(&format!(
            "rule = [{{ name = \"a\", key = [\"ip\", \"header:x-user\"], limits = \"1/h\" {on_no_key} }}]"
        ))
        .0
    };
    let headers = [("x-user", "ada")];
    let ada = Request { headers: &headers, ..from("192.0.2.1") };
    let anonymous = from("192.0.2.1");
    for (on_no_key, said) in [
        ("", ["", "a/1/h"]),
        (", on_no_key = \"shared\"", ["", "a/1/h"]),
        (", on_no_key = \"skip\"", ["", ""]),
        (", on_no_key = \"deny\"", ["a/NoKe", "a/NoKe"]),
    ] {
        let gate = of(on_no_key);
        assert_eq!([(); 2].map(|()| denial(&gate, &anonymous)), said, "{on_no_key}");
        assert_eq!([(); 2].map(|()| denial(&gate, &ada)), ["", "a/1/h"], "{on_no_key}");
    }
    let (gate, _) =
        gate("rule = [{ name = \"a\", shadow = true, on_no_key = \"deny\", limits = \"1/h\" }]");
    let decision = gate.decide(&get("/"));
    assert!(
        decision.is_admitted()
            && matches!(decision.shadow_denials()[0].reason(), DenyReason::NoKey)
    );
}

#[test]
fn the_third_denial_within_the_span_bans_the_key() {
    let (gate, clock) = gate(
        "rule = [{ name = \"login\", limits = \"2/min\",
                   penalty = { ban = \"1 h\", after = 3, within = \"10 min\" } }]",
    );
    let ask = |peer| denial(&gate, &from(peer));
    let said: Vec<_> = (0..7).map(|_| ask("192.0.2.1")).collect();
    let (limit, banned) = ("login/2/min", "login/Bann");
    assert_eq!(said, ["", "", limit, limit, limit, banned, banned]);
    assert_eq!(ask("192.0.2.2"), "");
    clock.advance(Duration::from_secs(3_599));
    assert_eq!(ask("192.0.2.1"), banned);
    let decision = gate.decide(&from("192.0.2.1"));
    let retry = decision.denied().unwrap().retry_after().unwrap();
    assert!(retry <= Duration::from_secs(1) && retry > Duration::from_millis(300), "{retry:?}");
    clock.advance(Duration::from_secs(2));
    assert_eq!([(); 3].map(|()| ask("192.0.2.1")), ["", "", limit]);
    // Denials too far apart do not add up.
    clock.advance(Duration::from_secs(601));
    assert_eq!([(); 4].map(|()| ask("192.0.2.1")), ["", "", limit, limit]);
}

#[test]
fn threads_are_admitted_exactly_what_the_tightest_limit_allows() {
    const KEYS: u32 = 4_000;
    for other in ["fixed-window", "gcra", "sliding-log"] {
        let (gate, _) = gate(&format!(
            "rule = [
                {{ name = \"a\", key = \"none\", limits = \"100000/day\" }},
                {{ name = \"b\", match = {{ path = \"/b\" }}, algorithm = \"{other}\",
                   limits = \"3/day\" }},
            ]"
        ));
        // The threads go through the keys together, so that they race for each key's last cell.
        let ask = |key: u32| {
            let peer = Some(IpAddr::from(key.to_be_bytes()));
            let request = Request { peer, ..get("/b") };
            (0..3).filter(|_| gate.decide(&request).is_admitted()).count()
        };
        let barrier = std::sync::Barrier::new(3);
        let run = || {
            barrier.wait();
            (1..=KEYS).map(ask).sum::<usize>()
        };
        let admitted: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..3).map(|_| scope.spawn(run)).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
        });
        assert_eq!(admitted, 3 * KEYS as usize, "{other}");
        // All that was charged to `a` and denied by `b` was refunded.
        let decision = gate.decide_n(&get("/a"), 0);
        let left = decision.permit().expect("nothing is asked for").remaining();
        assert_eq!(left, 100_000 - 3 * u64::from(KEYS), "{other}");
    }
}

#[test]
fn a_permit_has_the_delay_of_a_queue_even_if_another_limit_is_tighter() {
    let (gate, _) = gate(
        r#"
        [[rule]]
        name = "queue"
        key = "none"
        algorithm = "leaky-queue"
        limits = "10/s burst 9"

        [[rule]]
        name = "hours"
        key = "none"
        limits = "3/h"
        "#,
    );
    for (turn, left) in [(0, 2), (1, 1), (2, 0)] {
        let decision = gate.decide(&Request::default());
        let permit = decision.permit().expect("within both limits");
        assert_eq!((permit.rule().name(), permit.remaining()), ("hours", left));
        assert_eq!(permit.delay(), Duration::from_millis(100) * turn);
    }
}

/// A client that repeats a parameter of the query can make as many rules apply as there are.
#[test]
fn a_request_may_meet_2048_rules_of_8_limits_on_a_stack_of_a_mebibyte() {
    let limits = (0..8).map(|nth| format!("\"{}/h\"", 1_000 + nth)).collect::<Vec<_>>().join(", ");
    let (mut text, mut path) = (String::new(), "/?".to_owned());
    for nth in 0..2_048 {
        text += &format!(
            "[[rule]]\nname = \"r{nth}\"\nkey = \"none\"\nmatch = {{ query = {{ a = \"{nth}\" }} }}\n\
             limits = [{limits}]\n"
        );
        path += &format!("a={nth}&");
    }
    let (gate, _) = gate(&text);
    let decide = move || gate.decide(&get(&path)).permit().map(|permit| permit.remaining());
    let thread = std::thread::Builder::new().stack_size(1 << 20).spawn(decide).expect("a thread");
    assert_eq!(thread.join().expect("no panic"), Some(999));
}

/// HTTP/2 takes values with blanks around them, and a server trims them.
#[test]
fn white_space_around_a_header_or_a_cookie_makes_no_other_key() {
    let (gate, _) = gate(
        "rule = [
            { name = \"header\", key = \"header:x-user\", limits = \"1/day\", on_no_key = \"deny\",
              match = { path = \"/header\" } },
            { name = \"cookie\", key = \"cookie:session\", limits = \"1/day\", on_no_key = \"deny\",
              match = { path = \"/cookie\" } },
        ]",
    );
    let said =
        |path, name, value| denial(&gate, &Request { headers: &[(name, value)], ..get(path) });
    assert_eq!(said("/header", "x-user", "ada"), "");
    for value in [" ada", "ada ", "\tada  "] {
        assert_eq!(said("/header", "x-user", value), "header/1/d", "{value:?}");
    }
    assert_eq!(said("/header", "x-user", "  "), "header/NoKe");
    assert_eq!(said("/cookie", "cookie", "session=ada"), "");
    for value in ["session= ada", "session =ada", "a=b;session\t=\t\"ada\" ;c=d", " session = ada "]
    {
        assert_eq!(said("/cookie", "cookie", value), "cookie/1/d", "{value:?}");
    }
    assert_eq!(said("/cookie", "cookie", "session= ; session"), "cookie/NoKe");
}
