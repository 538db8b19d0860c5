//! `action`: rules that exempt and rules that deny.

use tollgate_rules::{Action, DenyReason, Outcome, Request, Rules, RulesLimiter};

fn gate(text: &str) -> RulesLimiter {
    let rules = Rules::parse("r.toml", text).unwrap_or_else(|error| panic!("{error}"));
    RulesLimiter::new(rules).expect("memory")
}

fn get(path: &str) -> Request<'_> {
    Request { method: "GET", path, ..Request::default() }
}

/// The rule and the reason of a denial, or what admits.
fn outcome(gate: &RulesLimiter, request: &Request<'_>) -> String {
    let decision = gate.decide(request);
    let exempt = decision.exempted_by().map(|rule| format!(" exempted by {}", rule.name()));
    let said = match decision.outcome() {
        Outcome::NoRule => "no limit".to_owned(),
        Outcome::Admitted(permit) => format!("by {}", permit.rule().name()),
        Outcome::Denied(denied) => {
            let why = match denied.reason() {
                DenyReason::Forbidden => "forbids",
                DenyReason::UnclearPath => "unclear",
                DenyReason::Limit(..) => "limits",
                other => panic!("{other:?}"),
            };
            assert_eq!(denied.limit().is_some(), why == "limits");
            format!("{} {why}", denied.rule().name())
        }
    };
    said + &exempt.unwrap_or_default()
}

fn admitted(gate: &RulesLimiter) -> Vec<(String, u64)> {
    gate.stats().map(|its| (its.rule.name().to_owned(), its.admitted)).collect()
}

#[test]
fn an_exempt_request_is_charged_by_earlier_rules_only() {
    for apply in ["all", "first"] {
        let gate = gate(&format!(
            "apply = \"{apply}\"
             rule = [
                {{ name = \"login\", match = {{ path = \"/login\" }}, key = \"none\", limits = \"2/h\" }},
                {{ name = \"office\", match = {{ ip = \"192.0.2.0/24\" }}, action = \"exempt\" }},
                {{ name = \"closed\", match = {{ path = \"/admin/**\" }}, action = \"deny\" }},
                {{ name = \"all\", key = \"none\", limits = \"1/h\" }},
             ]"
        ));
        let office = |path| Request { peer: Some([192, 0, 2, 7].into()), ..get(path) };
        let expected = "no limit exempted by office";
        for path in ["/", "/", "/admin/a"] {
            assert_eq!(outcome(&gate, &office(path)), expected, "{path}");
        }
        // With "first", the earlier rule is the first one, and no other is tried.
        let by_login = match apply {
            "all" => "by login exempted by office",
            _ => "by login",
        };
        let logins = [(); 3].map(|()| outcome(&gate, &office("/login")));
        assert_eq!(logins, [by_login, by_login, "login limits"]);
        assert_eq!(outcome(&gate, &get("/admin/a")), "closed forbids");
        assert_eq!([(); 2].map(|()| outcome(&gate, &get("/"))), ["by all", "all limits"]);
        let exempt = if apply == "all" { 5 } else { 3 };
        let counts = [("login", 2), ("office", exempt), ("closed", 0), ("all", 1)];
        assert_eq!(admitted(&gate), counts.map(|(name, count)| (name.to_owned(), count)));
    }
}

/// The upstream may do for `options` what it does for `POST`, and nothing for `OPTIONS`.
#[test]
fn a_rule_exempts_a_method_only_as_the_file_writes_it_and_denies_it_in_any_case() {
    let text = |action: &str| {
        format!(
            "rule = [
                {{ name = \"first\", match = {{ method = \"OPTIONS\" }}, action = \"{action}\" }},
                {{ name = \"all\", key = \"none\", limits = \"2/h\" }},
             ]"
        )
    };
    let of = |method| Request { method, ..get("/") };
    let exempts = gate(&text("exempt"));
    assert_eq!(outcome(&exempts, &of("OPTIONS")), "no limit exempted by first");
    assert_eq!(outcome(&exempts, &of("options")), "by all");
    let said = Rules::parse("r.toml", &text("exempt")).expect("rules");
    let said = said.explain_request(&of("options"));
    assert!(
        said.contains(
            "first: does not exempt, since OPTIONS matches some of these readings only\n"
        ),
        "{said}"
    );
    let denies = gate(&text("deny"));
    assert_eq!(
        ["OPTIONS", "options"].map(|method| outcome(&denies, &of(method))),
        ["first forbids"; 2]
    );
}

#[test]
fn a_rule_that_denies_charges_nothing_and_an_earlier_exemption_goes_before_it() {
    let gate = gate(
        "rule = [
            { name = \"all\", key = \"none\", limits = \"2/h\" },
            { name = \"health\", match = { path = \"/a/health\" }, action = \"exempt\" },
            { name = \"a\", match = { path = \"/a/**\" }, action = \"deny\" },
         ]",
    );
    for _ in 0..9 {
        assert_eq!(outcome(&gate, &get("/a/b")), "a forbids");
    }
    let decision = gate.decide(&get("/a/b"));
    let denied = decision.denied().expect("it is denied");
    assert_eq!(
        (denied.retry_after(), denied.remaining(), denied.limit().is_some()),
        (None, 0, false)
    );
    assert_eq!(denied.rule().action(), Action::Deny);
    assert_eq!(outcome(&gate, &get("/a/health")), "by all exempted by health");
    assert_eq!([(); 2].map(|()| outcome(&gate, &get("/"))), ["by all", "all limits"]);
    // The exemption of a request that another rule denies is not counted.
    assert_eq!(outcome(&gate, &get("/a/health")), "all limits");
    assert_eq!(admitted(&gate)[1].1, 1);
    assert_eq!(gate.memory_by_rule().collect::<Vec<_>>()[1..], [0, 0]);
}

#[test]
fn a_rule_in_shadow_that_denies_reports_and_later_rules_apply() {
    for apply in ["all", "first"] {
        let gate = gate(&format!(
            "apply = \"{apply}\"
             rule = [
                {{ name = \"closed\", shadow = true, action = \"deny\" }},
                {{ name = \"all\", key = \"none\", limits = \"1/h\" }},
             ]"
        ));
        let decision = gate.decide(&get("/"));
        let [shadow] = decision.shadow_denials() else { panic!("{decision:?}") };
        assert!(matches!(shadow.reason(), DenyReason::Forbidden));
        assert!(decision.is_admitted() && decision.permit().is_some());
        assert_eq!(outcome(&gate, &get("/")), "all limits");
    }
}

/// A client chooses the spelling of a path, so an exemption must not depend on it.
#[test]
fn a_rule_exempts_only_by_every_reading_of_the_path_and_denies_by_any() {
    let exempt = gate(
        "rule = [{ name = \"public\", match = { path = \"/public/**\" }, action = \"exempt\" },
                 { name = \"login\", match = { path = \"/login\" }, key = \"none\", limits = \"100/h\" },
                 { name = \"all\", key = \"none\", limits = \"1000/h\" }]",
    );
    assert_eq!(outcome(&exempt, &get("/public/a")), "no limit exempted by public");
    assert_eq!(outcome(&exempt, &get("/public/a/../b")), "no limit exempted by public");
    for path in ["/public/../login", "/public/x/../../login"] {
        assert_eq!(outcome(&exempt, &get(path)), "by login", "{path}");
    }
    for path in ["/public%2Fa", "/x/..%2Fpublic/a", "/public/..%2F..%2Fb"] {
        assert_eq!(outcome(&exempt, &get(path)), "by all", "{path}");
    }
    let deny =
        gate("rule = [{ name = \"a\", match = { path = \"/admin/**\" }, action = \"deny\" }]");
    for path in ["/admin", "/admin/../x", "/x/../admin/a", "/admin;v=1/a"] {
        assert_eq!(outcome(&deny, &get(path)), "a forbids", "{path}");
    }
    assert_eq!(outcome(&deny, &get("/admin%2Fa")), "a unclear");
    assert_eq!(outcome(&deny, &get("/x/admin")), "no limit");
}

#[test]
fn actions_are_explained() {
    let text = "rule = [
        { name = \"public\", match = { path = \"/public/**\" }, action = \"exempt\" },
        { name = \"trial\", shadow = true, action = \"deny\" },
        { name = \"admin\", match = { path = \"/admin\" }, action = \"deny\" },
        { name = \"all\", key = \"none\", action = \"limit\", limits = \"9/h\" },
    ]";
    let rules = Rules::parse("r.toml", text).expect("rules");
    let explained: Vec<String> = rules.rules()[..3].iter().map(|rule| rule.explain()).collect();
    assert_eq!(
        explained,
        [
            "matches  path /public/**\nexempts  later rules do not apply\n",
            "matches  every request\ndenies   every such request\n\
             shadow   denies nothing, and reports what it would have denied\n",
            "matches  path /admin\ndenies   every such request\n",
        ]
    );
    for (path, expected) in [
        (
            "/public/a",
            "public: applies; exempts the request from the rules after it\n\
             trial: is not tried, since public exempts the request\n\
             admin: is not tried, since public exempts the request\n\
             all: is not tried, since public exempts the request\n",
        ),
        (
            "/admin",
            "public: does not apply, since the path is not /public/**\n\
             trial: in shadow, would answer 403\nadmin: answers 403\n\
             all: is not tried, since admin denies the request\n",
        ),
        (
            "/public/../admin",
            "path as /admin: \"..\" is resolved\npath as /public/../admin: \"..\" is kept\n\
             public: does not exempt, since path /public/** matches some of these readings only\n\
             trial: in shadow, would answer 403\nadmin: answers 403\n\
             all: is not tried, since admin denies the request\n",
        ),
    ] {
        assert_eq!(rules.explain_request(&get(path)), expected);
    }
}
