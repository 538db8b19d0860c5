//! Which rules apply, by what they count, and what they say.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tollgate::ManualClock;
use tollgate_rules::{DenyReason, Gate, Outcome, Request, Rules};

fn gate(text: &str) -> (Gate<ManualClock>, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new());
    clock.advance(Duration::from_secs(1_000_000));
    let rules = Rules::parse("r.toml", text).unwrap_or_else(|error| panic!("{error}"));
    (Gate::with_clock(rules, Arc::clone(&clock)).expect("there is memory"), clock)
}

fn get(path: &str) -> Request<'_> {
    Request { method: "GET", path, ..Request::default() }
}

fn from(peer: &str) -> Request<'static> {
    Request { method: "GET", path: "/", peer: peer.parse::<IpAddr>().ok(), ..Request::default() }
}

/// Who denies: `rule/limit`; nothing where it is admitted.
fn denial<C: tollgate::Clock>(gate: &Gate<C>, request: &Request<'_>) -> String {
    match gate.decide(request).denied() {
        Some(denied) => match denied.why() {
            DenyReason::Limit(limit, _) => format!("{}/{}", denied.rule().name(), limit.name()),
            why => format!("{}/{}", denied.rule().name(), &format!("{why:?}")[..4]),
        },
        None => String::new(),
    }
}

#[test]
fn what_matches() {
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
        assert_eq!(rules.rules()[0].fits(&request), fits, "{matcher} {request:?}");
        let (gate, _) = gate(&text);
        let is_admitted = matches!(gate.decide(&request).outcome(), Outcome::Admitted(_));
        assert_eq!(is_admitted, fits, "{matcher} {request:?}");
        assert_eq!(!gate.decide(&request).is_admitted(), fits, "{matcher} {request:?}");
    }
}

#[test]
fn all_that_match_apply_unless_the_first_is_asked_for() {
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
fn a_denied_request_is_charged_to_nobody() {
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
fn the_longest_denial_and_the_tightest_limit_are_named() {
    let (gate, clock) =
        gate("rule = [{ name = \"a\", key = \"none\", limits = [\"3/s\", \"3/min\", \"5/h\"] }]");
    let verdict = gate.decide_n(&get("/"), 2);
    let standing = verdict.standing().expect("admitted");
    assert_eq!((standing.limit().name(), standing.remaining()), ("3/s", 1));
    let verdict = gate.decide_n(&get("/"), 4);
    let denied = verdict.denied().expect("more than ever fits");
    assert_eq!((denied.limit().unwrap().name(), denied.retry_after()), ("3/s", None));
    let verdict = gate.decide_n(&get("/"), 2);
    let denied = verdict.denied().expect("1 is left");
    assert_eq!(denied.limit().unwrap().name(), "3/min");
    assert_eq!((denied.remaining(), denied.retry_after()), (1, Some(Duration::from_secs(20))));
    assert_eq!(denied.reset_after(), Duration::from_secs(40));
    clock.advance(Duration::from_secs(20));
    assert!(gate.decide_n(&get("/"), 2).is_admitted());
}

#[test]
fn a_rule_in_shadow_denies_nothing_and_says_so() {
    let (gate, _) = gate(
        "apply = \"first\"
         rule = [
            { name = \"new\", shadow = true, key = \"none\", limits = \"1/h\" },
            { name = \"old\", key = \"none\", limits = \"2/h\" },
         ]",
    );
    let shadowed = || {
        let verdict = gate.decide(&get("/"));
        let names: Vec<_> =
            verdict.shadowed().iter().map(|it| it.rule().name().to_owned()).collect();
        (verdict.is_admitted(), names)
    };
    assert_eq!(shadowed(), (true, vec![]));
    assert_eq!(shadowed(), (true, vec!["new".to_owned()]));
    // What the rules in force deny is not counted against the one in shadow.
    assert_eq!(shadowed(), (false, vec![]));
}

#[test]
fn requests_without_a_key() {
    let of = |on_no_key: &str| {
        gate(&format!(
            "rule = [{{ name = \"a\", key = [\"ip\", \"header:x-user\"], limits = \"1/h\" {on_no_key} }}]"
        ))
        .0
    };
    let headers = [("x-user", "ada")];
    let ada = Request { headers: &headers, ..from("192.0.2.1") };
    let nobody = from("192.0.2.1");
    for (on_no_key, said) in [
        ("", ["", "a/1/h"]),
        (", on_no_key = \"shared\"", ["", "a/1/h"]),
        (", on_no_key = \"skip\"", ["", ""]),
        (", on_no_key = \"block\"", ["a/NoKe", "a/NoKe"]),
    ] {
        let gate = of(on_no_key);
        assert_eq!([(); 2].map(|()| denial(&gate, &nobody)), said, "{on_no_key}");
        assert_eq!([(); 2].map(|()| denial(&gate, &ada)), ["", "a/1/h"], "{on_no_key}");
    }
    let (gate, _) =
        gate("rule = [{ name = \"a\", shadow = true, on_no_key = \"block\", limits = \"1/h\" }]");
    let verdict = gate.decide(&get("/"));
    assert!(verdict.is_admitted() && matches!(verdict.shadowed()[0].why(), DenyReason::NoKey));
}

#[test]
fn a_penalty_follows_on_denials() {
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
    let verdict = gate.decide(&from("192.0.2.1"));
    let retry = verdict.denied().unwrap().retry_after().unwrap();
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
        // All at the same keys at the same time, so that they race for every key's last cell.
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
        // Whatever was charged to `a` and denied by `b` was given back.
        let verdict = gate.decide_n(&get("/a"), 0);
        let left = verdict.standing().expect("nothing is asked for").remaining();
        assert_eq!(left, 100_000 - 3 * u64::from(KEYS), "{other}");
    }
}

#[test]
fn a_turn_in_a_queue_holds_also_where_another_limit_has_less_left() {
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
        let verdict = gate.decide(&Request::default());
        let standing = verdict.standing().expect("within both limits");
        assert_eq!((standing.rule().name(), standing.remaining()), ("hours", left));
        assert_eq!(standing.delay(), Duration::from_millis(100) * turn);
    }
}
