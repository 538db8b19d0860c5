//! `match` by method, address, query and cookie, and `not`.

use tollgate_rules::{DenyReason, Request, Rules, RulesLimiter};

fn rules(matcher: &str) -> Rules {
    let text =
        format!("rule = [{{ name = \"a\", match = {matcher}, key = \"none\", limits = \"1/h\" }}]");
    Rules::parse("r.toml", &text).unwrap_or_else(|error| panic!("{error}"))
}

/// Whether a rule applies, by each way to ask.
#[track_caller]
fn check(matcher: &str, request: &Request<'_>, applies: bool) {
    let rules = rules(matcher);
    assert_eq!(rules.rules()[0].matches(request), applies, "{matcher} {request:?}");
    let said = rules.explain_request(request);
    assert_eq!(said.contains("a: applies"), applies, "{matcher} {request:?}: {said}");
    assert_eq!(said.contains("a: does not apply, since "), !applies, "{matcher}: {said}");
    let gate = RulesLimiter::new(rules).expect("memory");
    let denied = |gate: &RulesLimiter| gate.decide(request).denied().is_some();
    assert_eq!([denied(&gate), denied(&gate)], [false, applies], "{matcher} {request:?}");
}

fn method(method: &str) -> Request<'_> {
    Request { method, path: "/", ..Request::default() }
}

fn get(path: &str) -> Request<'_> {
    Request { method: "GET", path, ..Request::default() }
}

fn from<'a>(peer: &str, path: &'a str) -> Request<'a> {
    Request { peer: Some(peer.parse().expect("an address")), ..get(path) }
}

#[test]
fn get_includes_head_and_head_does_not_include_get() {
    for (matcher, asked, applies) in [
        ("{ method = \"GET\" }", "GET", true),
        ("{ method = \"GET\" }", "HEAD", true),
        ("{ method = [\"POST\", \"GET\"] }", "HEAD", true),
        ("{ method = [\"POST\", \"PUT\"] }", "HEAD", false),
        ("{ method = \"HEAD\" }", "HEAD", true),
        ("{ method = \"HEAD\" }", "GET", false),
        ("{ method = \"GET\", not = { method = \"HEAD\" } }", "GET", true),
        ("{ method = \"GET\", not = { method = \"HEAD\" } }", "HEAD", false),
        ("{ not = { method = \"GET\" } }", "HEAD", false),
        ("{ not = { method = \"GET\" } }", "POST", true),
    ] {
        check(matcher, &method(asked), applies);
    }
}

/// Some servers write a method in upper case before they look at it.
#[test]
fn a_method_matches_and_is_counted_in_any_case() {
    for (matcher, asked, applies) in [
        ("{ method = \"POST\" }", "post", true),
        ("{ method = [\"PUT\", \"POST\"], path = \"/\" }", "PosT", true),
        ("{ method = \"GET\" }", "head", true),
        ("{ method = \"HEAD\" }", "get", false),
        ("{ method = \"POST\" }", "pos", false),
        ("{ not = { method = \"GET\" } }", "head", true),
        ("{ not = { method = \"GET\" } }", "HEAD", false),
    ] {
        check(matcher, &method(asked), applies);
    }
    let said = rules("{ method = \"GET\" }").explain_request(&method("head"));
    let lines = [
        "method as head: servers that tell it from HEAD",
        "method as HEAD: servers that write it in upper case",
        "a: applies by some of these readings; counted by nothing: one bucket for all",
    ];
    assert_eq!(said.lines().collect::<Vec<_>>(), lines);
    let text = "rule = [{ name = \"a\", key = \"method\", limits = \"1/day\" }]";
    let gate = RulesLimiter::new(Rules::parse("r.toml", text).expect("a rule")).expect("memory");
    let admits = |asked| gate.decide(&method(asked)).is_admitted();
    assert_eq!(["post", "POST", "Post", "put"].map(admits), [true, false, false, true]);
}

/// A server that reads `post` as `POST` executes a request that the exception is for.
#[test]
fn a_rule_that_excludes_a_method_ends_no_evaluation_of_it_in_another_case() {
    for (not, first) in [
        ("{ method = \"POST\" }", "limits = \"1000/s\""),
        ("{ method = \"POST\" }", "action = \"exempt\""),
        ("{ method = \"POST\", path = \"/api/*\" }", "limits = \"1000/s\""),
        ("[{ method = \"PUT\" }, { method = \"POST\", path = \"/api/*\" }]", "action = \"exempt\""),
    ] {
        let text = format!(
            "apply = \"first\"
             rule = [{{ name = \"reads\", match = {{ path = \"/api/**\", not = {not} }}, {first} }},
                     {{ name = \"writes\", key = \"none\", limits = \"2/day\" }}]"
        );
        for (asked, admitted) in [("POST", 2), ("post", 2), ("Post", 2), ("get", 6)] {
            let rules = Rules::parse("r.toml", &text).expect("no mistakes");
            let gate = RulesLimiter::new(rules).expect("memory");
            let request = Request { method: asked, ..get("/api/a") };
            let admits = |_: &i32| gate.decide(&request).is_admitted();
            assert_eq!((0..6).filter(admits).count(), admitted, "{asked} {not} {first}");
        }
    }
    let said = |matcher: &str, does: &str, request: &Request| {
        let text = format!("rule = [{{ name = \"a\", match = {matcher}, {does} }}]");
        let rules = Rules::parse("r.toml", &text).expect("no mistakes");
        rules.explain_request(request).lines().last().expect("a rule").to_owned()
    };
    for (matcher, does, path, expected) in [
        (
            "{ not = { method = \"POST\" } }",
            "key = \"none\", limits = \"1/s\"",
            "/",
            "a: applies by some of these readings; counted by nothing: one bucket for all",
        ),
        (
            "{ not = { method = \"POST\", path = \"/a\" } }",
            "action = \"exempt\"",
            "/a",
            "a: does not exempt, since not (POST, path /a) matches some of these readings only",
        ),
        (
            "{ method = \"POST\", not = { method = \"POST\" } }",
            "action = \"deny\"",
            "/",
            "a: does not apply, since it is excluded: POST",
        ),
        // As a POST, the path is unclear.
        (
            "{ not = { method = \"POST\", path = \"/a\" } }",
            "action = \"deny\"",
            "/a%2F",
            "a: answers 400, since not (POST, path /a) matches some of these readings only",
        ),
    ] {
        let request = Request { method: "post", ..get(path) };
        assert_eq!(said(matcher, does, &request), expected, "{matcher}");
    }
}

#[test]
fn an_address_matches_by_its_network_and_mapped_into_ipv6_as_ipv4() {
    for (networks, peer, applies) in [
        ("\"10.0.0.0/8\"", "10.255.0.1", true),
        ("\"10.0.0.0/8\"", "11.0.0.1", false),
        ("\"10.0.0.0/8\"", "::ffff:10.1.2.3", true),
        ("\"10.0.0.0/8\"", "::10.1.2.3", false),
        ("[\"10.0.0.0/8\", \"192.0.2.7\"]", "192.0.2.7", true),
        ("[\"10.0.0.0/8\", \"192.0.2.7\"]", "192.0.2.8", false),
        ("[\"2001:db8::/32\", \"10.0.0.0/8\"]", "2001:db8:1::1", true),
        ("[\"2001:db8::/32\", \"10.0.0.0/8\"]", "2001:db9::", false),
        ("\"0.0.0.0/0\"", "::ffff:1.2.3.4", true),
        ("\"0.0.0.0/0\"", "2001:db8::1", false),
        ("\"::/0\"", "2001:db8::1", true),
        // A mapped address is IPv4 for every network, also for one that has its IPv6 form.
        ("\"::/0\"", "::ffff:1.2.3.4", false),
    ] {
        check(&format!("{{ ip = {networks} }}"), &from(peer, "/"), applies);
        check(&format!("{{ not = {{ ip = {networks} }} }}"), &from(peer, "/"), !applies);
    }
    // A client without an address is in no network.
    check("{ ip = [\"0.0.0.0/0\", \"::/0\"] }", &get("/"), false);
    check("{ not = { ip = [\"0.0.0.0/0\", \"::/0\"] } }", &get("/"), true);
}

#[test]
fn a_query_matches_by_the_decoded_values_of_a_parameter() {
    for (matcher, path, applies) in [
        ("{ query = { format = \"csv\" } }", "/?format=csv", true),
        ("{ query = { format = \"csv\" } }", "/?x=1&%66ormat=%63sv", true),
        ("{ query = { format = \"csv\" } }", "/?format=json&format=csv", true),
        ("{ query = { format = \"csv\" } }", "/?format=CSV", false),
        ("{ query = { format = \"csv\" } }", "/?format=%2563sv", false),
        ("{ query = { format = \"csv\" } }", "/", false),
        ("{ query = { q = \"a b\" } }", "/?q=a+b", true),
        ("{ query = { q = \"a b\" } }", "/?q=a%20b", true),
        ("{ query = { q = \"a+b\" } }", "/?q=a%2Bb", true),
        ("{ query = { debug = true } }", "/?debug", true),
        ("{ query = { debug = true } }", "/?debug=0", true),
        ("{ query = { debug = true } }", "/debug", false),
        ("{ query = { debug = false } }", "/?debugger=1", true),
        ("{ query = { debug = false } }", "/?a&debug", false),
        ("{ query = { a = \"1\", b = \"2\" } }", "/?b=2&a=1", true),
        ("{ query = { a = \"1\", b = \"2\" } }", "/?b=2", false),
        ("{ path = \"/a\", query = { \"x[]\" = \"1\" } }", "/a?x%5B%5D=1", true),
    ] {
        check(matcher, &get(path), applies);
    }
}

#[test]
fn a_cookie_matches_by_its_exact_value_or_its_presence() {
    for (matcher, cookie, applies) in [
        ("{ cookie = { plan = \"free\" } }", "plan=free", true),
        ("{ cookie = { plan = \"free\" } }", "a=1; plan=\"free\"", true),
        ("{ cookie = { plan = \"free\" } }", "plan=paid; plan=free", true),
        ("{ cookie = { plan = \" free\" } }", "plan\t= free ", true),
        ("{ cookie = { plan = '\"free\"' } }", "plan=free", true),
        ("{ cookie = { plan = ' \"free\" ' } }", "plan=\"free\"", true),
        ("{ cookie = { plan = '\" free\"' } }", "plan=\" free\"", true),
        ("{ cookie = { plan = '\" free\"' } }", "plan=free", false),
        ("{ cookie = { plan = '\"' } }", "plan=\"", true),
        ("{ cookie = { plan = '\"free' } }", "plan=\"free", true),
        ("{ cookie = { plan = '\"\"' } }", "plan=", true),
        ("{ cookie = { plan = \"free\" } }", "plan=Free", false),
        ("{ cookie = { plan = \"free\" } }", "Plan=free", false),
        ("{ cookie = { plan = \"free\" } }", "plan=%66ree", false),
        ("{ cookie = { plan = true } }", "plan=", true),
        ("{ cookie = { plan = true } }", "plans=1", false),
        ("{ cookie = { plan = false } }", "plans=1", true),
        ("{ cookie = { plan = false } }", "a=1; plan=x", false),
    ] {
        let headers = [("Cookie", cookie)];
        check(matcher, &Request { headers: &headers, ..get("/") }, applies);
    }
}

/// White space beyond ASCII is a part of a value, in the file as in a request.
#[test]
fn a_value_that_begins_with_white_space_beyond_ascii_is_matched() {
    for (matcher, name, value) in [
        ("{ header = { x-plan = \"\\u00a0free\" } }", "x-plan", "\u{a0}free"),
        ("{ cookie = { plan = \"\\u00a0free\" } }", "cookie", "plan=\u{a0}free"),
    ] {
        for (value, applies) in [(value, true), (&value.replace('\u{a0}', ""), false)] {
            let headers = [(name, value)];
            check(matcher, &Request { headers: &headers, ..get("/") }, applies);
        }
    }
    for by in ["header:x-plan", "cookie:plan"] {
        let plan = format!("{{ by = \"{by}\", \"\\u00a0gold\" = \"5/s\", default = \"1/s\" }}");
        let text = format!("rule = [{{ name = \"a\", key = \"none\", plan = {plan} }}]");
        let rules = Rules::parse("r.toml", &text).unwrap_or_else(|error| panic!("{error}"));
        let gate = RulesLimiter::new(rules).expect("memory");
        let headers = [("x-plan", "\u{a0}gold"), ("cookie", "plan=\u{a0}gold")];
        let decision = gate.decide(&Request { headers: &headers, ..get("/") });
        let limit = decision.permit().map(|permit| permit.limit());
        assert_eq!(limit.expect("a limit").name(), "\u{a0}gold", "{by}");
    }
}

/// Some servers decode `%XX` in a cookie, and others octal numbers within quotes.
#[test]
fn no_spelling_of_a_cookie_has_a_key_of_its_own() {
    let text = "rule = [{ name = \"a\", key = \"cookie:id\", limits = \"1/day\" }]";
    let gate = RulesLimiter::new(Rules::parse("r.toml", text).expect("a rule")).expect("memory");
    let admits = |cookie: &str| {
        let headers = [("cookie", cookie)];
        gate.decide(&Request { headers: &headers, ..get("/") }).is_admitted()
    };
    assert!(admits("id=ab1"));
    for alike in [
        "id=%61b1",
        "id=\"ab1\"",
        "id=\"%61%62%31\"",
        "id=\"\\141\\142\\061\"",
        "id=\"\\ab1\"",
        "id=\"ab1X",
        "x=1; id=a%621",
    ] {
        assert!(!admits(alike), "{alike}");
    }
    for other in ["id=%2561b1", "id=\\141b1", "id=ab%", "id=ab%3", "id=\"ab\\\"", "id=ab2"] {
        assert!(admits(other), "{other}");
    }
}

#[test]
fn an_exception_holds_if_all_its_conditions_hold_and_one_of_a_list_suffices() {
    let both = "{ not = { ip = \"10.0.0.0/8\", path = \"/health\" } }";
    let either = "{ not = [{ ip = \"10.0.0.0/8\" }, { path = \"/health\" }] }";
    for (peer, path, by_both, by_either) in [
        ("10.0.0.1", "/health", false, false),
        ("10.0.0.1", "/a", true, false),
        ("192.0.2.1", "/health", true, false),
        ("192.0.2.1", "/a", true, true),
    ] {
        check(both, &from(peer, path), by_both);
        check(either, &from(peer, path), by_either);
    }
    let within = "{ path = \"/api/**\", not = { path = \"/api/public/**\", method = \"GET\" } }";
    check(within, &get("/api/a"), true);
    check(within, &get("/api/public/a"), false);
    check(within, &Request { method: "POST", ..get("/api/public/a") }, true);
    check(within, &get("/b"), false);
    let others = "{ not = { host = \"a.example\", header = { x-a = true }, query = { b = \"1\" }, \
                  cookie = { c = \"2\" } } }";
    let headers = [("x-a", ""), ("cookie", "c=2")];
    let all = Request { host: Some("a.example"), headers: &headers, ..get("/?b=1") };
    check(others, &all, false);
    check(others, &Request { host: Some("b.example"), ..all }, true);
    check(others, &Request { headers: &headers[..1], ..all }, true);
    check(others, &Request { headers: &headers[1..], ..all }, true);
    check(others, &Request { path: "/?b=2", ..all }, true);
}

/// A client cannot leave a rule by a path that is excluded by one of its readings only.
#[test]
fn an_exception_by_path_holds_for_the_readings_that_it_matches() {
    let matcher = "{ path = \"/api/**\", not = { path = \"/api/health\" } }";
    for path in ["/api/health", "/api//health/", "/api/%68ealth", "/API/Health"] {
        check(matcher, &get(path), false);
    }
    // Resolved, it is the excluded path; unchanged, it is another.
    for path in ["/api/x/../health", "/api/health/../health", "/api/health;v=1"] {
        check(matcher, &get(path), true);
    }
    let unclear = |matcher: &str, path: &str| {
        let rules = rules(matcher);
        let said = rules.explain_request(&get(path));
        let gate = RulesLimiter::new(rules).expect("memory");
        let decision = gate.decide(&get(path));
        let reason = decision.denied().map(|denied| *denied.reason());
        (matches!(reason, Some(DenyReason::UnclearPath)), said)
    };
    let (is_unclear, said) = unclear(matcher, "/api%2Fhealth/x");
    assert!(is_unclear, "{said}");
    let (is_unclear, said) = unclear(matcher, "/api/health%2F");
    assert!(is_unclear, "{said}");
    let why = "a: answers 400, since path /api/**, not path /api/health matches some of these readings \
               only\n";
    assert!(said.ends_with(why), "{said}");
    // Only the exception depends on the reading.
    let (is_unclear, said) = unclear("{ not = { path = \"/health\" } }", "/health%2F");
    assert!(is_unclear && said.contains("since not path /health matches some"), "{said}");
    // Where the rest of the exception does not hold, nothing is unclear.
    let other = "{ not = { path = \"/health\", method = \"POST\" } }";
    check(other, &get("/health%2F"), true);
}

#[test]
fn the_reason_why_a_rule_does_not_apply_is_the_first_condition_that_does_not_hold() {
    let headers = [("cookie", "a=1")];
    let request = Request { headers: &headers, ..from("192.0.2.1", "/a?b=1") };
    for (matcher, why) in [
        ("{ method = \"POST\", ip = \"::1\" }", "the method is not POST"),
        ("{ ip = [\"::1\", \"10.0.0.0/8\"] }", "the client 192.0.2.1 is not in ::1 or 10.0.0.0/8"),
        ("{ query = { b = \"2\" } }", "this does not hold: query parameter b is \"2\""),
        ("{ query = { b = false } }", "this does not hold: without a query parameter b"),
        ("{ cookie = { c = true } }", "this does not hold: with a cookie c"),
        ("{ cookie = { a = \"2\" } }", "this does not hold: cookie a is \"2\""),
        (
            "{ not = [{ path = \"/b\" }, { method = \"GET\", path = [\"/a\", \"/c\"] }] }",
            "it is excluded: GET, path /a or /c",
        ),
        ("{ not = { cookie = { a = true } } }", "it is excluded: with a cookie a"),
    ] {
        let said = rules(matcher).explain_request(&request);
        assert_eq!(said, format!("a: does not apply, since {why}\n"), "{matcher}");
    }
    let said = rules("{ ip = \"::1\" }").explain_request(&get("/"));
    assert_eq!(said, "a: does not apply, since a client without an address is not in ::1\n");
}

#[test]
fn of_many_headers_of_a_name_the_last_one_counts_too() {
    let mut headers = vec![("cookie", "plan=paid"); 400];
    headers.extend([("x-plan", "paid"); 400]);
    let applies = |matcher, headers: &[_]| {
        let rules = format!("rule = [{{ name = \"a\", match = {matcher}, action = \"deny\" }}]");
        let rules = Rules::parse("r.toml", &rules).unwrap_or_else(|error| panic!("{error}"));
        rules.rules()[0].matches(&Request { headers, ..Request::default() })
    };
    for (matcher, last) in [
        ("{ cookie = { plan = \"free\" } }", ("Cookie", "plan=free")),
        ("{ header = { x-plan = \"free\" } }", ("X-Plan", "free")),
    ] {
        assert!(!applies(matcher, &headers), "{matcher}");
        assert!(applies(matcher, &[&headers[..], &[last]].concat()), "{matcher}");
    }
}
