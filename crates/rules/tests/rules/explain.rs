//! Rules in plain words: the explanation names each choice of a file.

use std::sync::Arc;

use tollgate::{ManualClock, Quota};
use tollgate_rules::{Request, Rules, RulesLimiter};

/// The explanation of a file's only rule, without the lines of its limits.
fn explained(rest: &str) -> Vec<String> {
    let text = format!("[[rule]]\nname = \"a\"\nlimits = \"5/s\"\n{rest}\n");
    let rules = Rules::parse("r.toml", &text).unwrap_or_else(|error| panic!("{error}"));
    let lines = rules.rules()[0].explain();
    let (limits, others) =
        lines.lines().map(str::to_owned).partition::<Vec<_>, _>(|line| line.starts_with("limit "));
    let limit = "limit    5/s (gcra): at most 5 at once and 5 a second; in any second at most 10";
    assert_eq!(limits, [limit]);
    others
}

#[test]
fn the_conditions_of_a_rule_are_explained() {
    assert_eq!(explained("")[0], "matches  every request");
    let all = explained(
        r#"match = { method = ["POST", "PUT"], path = ["/api/**", "/v2/*"], host = "*.example.com", header = { x-plan = "free" } }"#,
    );
    assert_eq!(
        all[0],
        "matches  POST or PUT, path /api/** or /v2/*, host *.example.com, header x-plan is \"free\""
    );
    let all = explained(
        r#"match = { ip = ["10.0.0.0/8", "::1/128"], query = { page = true }, cookie = { c = "x" }, not = [{ path = "/a", method = "GET" }, { cookie = { d = false } }] }"#,
    );
    assert_eq!(
        all[0],
        "matches  ip in 10.0.0.0/8 or ::1, with a query parameter page, cookie c is \"x\"; not (GET, path \
         /a); not (without a cookie d)"
    );
    assert_eq!(
        explained("match = { not = { path = \"/a\" } }")[0],
        "matches  every request; not (path /a)"
    );
}

/// A terminal would obey them, and a line break would forge a line of the explanation.
#[test]
fn control_characters_of_a_file_are_explained_as_escapes() {
    let matcher = concat!(
        r#"{ path = "/a\u001b[2K/**", host = "a\u0007b", "#,
        r#"header = { x-a = "1\n  limit    none" }, query = { q = "\u007f" } }"#,
    );
    let said = "path /a\\u{1b}[2K/**, host a\\u{7}b, header x-a is \"1\\n  limit    none\", \
                query parameter q is \"\\u{7f}\"";
    assert_eq!(explained(&format!("match = {matcher}"))[0], format!("matches  {said}"));
    let rules =
        format!("rule = [{{ name = \"a\", match = {{ not = {matcher} }}, limits = \"1/s\" }}]");
    let rules = Rules::parse("r.toml", &rules).expect("no mistakes");
    let headers = [("x-a", "1\n  limit    none")];
    let request = Request {
        path: "/a%1b[2K/b?q=%7f",
        host: Some("a\u{7}b"),
        headers: &headers,
        ..Request::default()
    };
    let expected = format!("a: does not apply, since it is excluded: {said}\n");
    assert_eq!(rules.explain_request(&request), expected);
}

#[test]
fn the_key_and_requests_without_it_are_explained() {
    assert_eq!(explained("key = \"none\"")[1], "key      nothing: one bucket for all");
    for (key, said) in [
        ("[\"ip\", \"header:X-User\"]", "ip (IPv6 by /64) and header x-user"),
        ("[\"cookie:session\", \"path\"]", "cookie session and path"),
        ("[\"method\", \"host\"]", "method and host"),
        ("\"query:user\"", "query parameter user"),
    ] {
        for (word, without) in [
            ("shared", "requests without it share one bucket"),
            ("skip", "the rule does not apply to requests without it"),
            ("deny", "requests without it are denied"),
        ] {
            let lines = explained(&format!("key = {key}\non_no_key = \"{word}\""));
            assert_eq!(lines[1], format!("key      {said}; {without}"));
        }
    }
}

#[test]
fn a_full_table_is_explained() {
    for (on_full, said) in [
        ("\"evict\"", "the key with the least debt is forgotten"),
        ("\"deny\"", "new keys are denied"),
        ("\"admit\"", "new keys are admitted and not remembered"),
        ("{ shared = \"9/s\" }", "new keys share 9/s"),
    ] {
        let lines = explained(&format!("capacity = 700\non_full = {on_full}"));
        assert_eq!(lines[2], format!("keys     room for 700 at least; when full, {said}"));
    }
}

#[test]
fn a_full_table_of_bytes_or_of_requests_in_flight_is_explained() {
    let (least, shared) = ("\"evict\"", "{ shared = \"9/s\" }");
    let (deny, admit) = ("\"deny\"", "\"admit\"");
    let forgotten = "the key with the least debt is forgotten";
    let in_flight = "; when full of keys with requests in flight, new keys are denied";
    let [both, share] = [forgotten, "new keys share 9/s"].map(|said| format!("{said}{in_flight}"));
    let admitted = "new keys are admitted and not remembered";
    for (limits, on_full, said) in [
        ("bytes = \"1MB/s\"", least, forgotten),
        ("bytes = \"1MB/s\"", deny, "the bytes of new keys wait for a free slot"),
        ("bytes = \"1MB/s\"", admit, admitted),
        ("concurrency = 2", least, "new keys are denied"),
        ("concurrency = 2", deny, "new keys are denied"),
        ("concurrency = 2, bytes = \"1MB/s\"", deny, "new keys are denied"),
        ("concurrency = 2", admit, admitted),
        ("limits = \"5/s\", concurrency = 2", least, &*both),
        ("limits = \"5/s\", concurrency = 2", shared, &*share),
        ("limits = \"5/s\", concurrency = 2", deny, "new keys are denied"),
        ("limits = \"5/s\", concurrency = 2", admit, admitted),
        ("limits = \"5/s\", bytes = \"1MB/s\"", deny, "new keys are denied"),
    ] {
        let text =
            format!("rule = [{{ name = \"a\", capacity = 7, on_full = {on_full}, {limits} }}]");
        let rules = Rules::parse("r.toml", &text).unwrap_or_else(|error| panic!("{error}"));
        let lines = rules.rules()[0].explain();
        let line = format!("keys     room for 7 at least; when full, {said}");
        assert_eq!(lines.lines().last(), Some(&*line), "{limits} {on_full}");
    }
}

#[test]
fn a_body_of_unknown_length_that_no_limit_admits_is_explained() {
    for (bounds, said) in [
        ("max = 5", "1 to 5; 5 of unknown length"),
        ("max = 9, default = 5", "1 to 9; 5 of unknown length"),
        ("max = 6", "1 to 6; 6 of unknown length, so such a request is denied"),
    ] {
        let lines = explained(&format!("cost = {{ bytes = \"request\", {bounds} }}"));
        assert!(
            lines.contains(&format!("cost     bytes of the request's body, {said}")),
            "{lines:?}"
        );
    }
}

/// The first request of a burst does not wait.
#[test]
fn the_bound_of_a_queue_counts_the_requests_that_wait() {
    for (burst, said) in [
        (1, "evenly 10 an hour; none waits for its turn"),
        (2, "evenly 10 an hour; one at a time waits for its turn, for 6 minutes"),
        (3, "evenly 10 an hour; up to 2 wait for their turn, the last of them 12 minutes"),
        (129, "evenly 10 an hour; up to 128 wait for their turn, the last of them 768 minutes"),
        (
            131,
            "evenly 10 an hour; up to 130 wait for their turn, the last of them 13 hours; a proxy lets 128 of a \
             key wait",
        ),
    ] {
        let quota = Quota::per_hour(10).burst(burst);
        let limits = format!("limits = \"{quota}\", algorithm = \"leaky-queue\"");
        let text = format!("rule = [{{ name = \"a\", key = \"none\", {limits} }}]");
        let rules = Rules::parse("r.toml", &text).unwrap_or_else(|error| panic!("{error}"));
        let limit = &rules.rules()[0].limits()[0];
        assert_eq!(limit.explain(), format!("{quota} (leaky-queue): {said}"));
        let gate = RulesLimiter::with_clock(rules, Arc::new(ManualClock::new())).expect("memory");
        let ask = || gate.decide(&Request::default()).permit().map(|permit| permit.delay());
        let delays: Vec<_> = std::iter::from_fn(ask).collect();
        let waits = delays.iter().filter(|delay| !delay.is_zero()).count() as u64;
        assert_eq!((delays.len() as u64, waits), (burst, burst - 1));
    }
}

#[test]
fn a_store_and_its_fallback_are_explained() {
    for (nodes, share) in [(1, "all"), (3, "1/3")] {
        let store = format!("store = {{ url = \"redis://u:secret@cache\", nodes = {nodes} }}");
        let said = format!(
            "store    redis://cache, from which each process may lease cells ahead (a tenth of a burst may be \
             withheld); while it is down, each process decides by {share} of the quota"
        );
        assert_eq!(explained(&store)[2], said);
    }
}

#[test]
fn a_store_that_never_leases_is_explained_as_one_that_decides_each_request() {
    let mode = |limits: &str, ask: &str| {
        let text = format!(
            "rule = [{{ name = \"a\", limits = {limits}, store = {{ url = \"redis://cache\"{ask} }} }}]"
        );
        let rules = Rules::parse("r.toml", &text).unwrap_or_else(|error| panic!("{error}"));
        let said = rules.rules()[0].explain();
        let (_, said) = said.split_once("redis://cache, ").expect("a line for the store");
        said.split_once(';').expect("a fallback").0.to_owned()
    };
    let [decides, leases] = [
        "which decides each request",
        "from which each process may lease cells ahead (a tenth of a burst may be withheld)",
    ];
    let of = |quota: &str, algorithm: &str| {
        format!("{{ quota = \"{quota}\", algorithm = \"{algorithm}\" }}")
    };
    let [log, counter] = [of("5/s", "sliding-log"), of("9/min", "sliding-counter")];
    assert_eq!(mode(&format!("[{log}, {counter}]"), ""), decides);
    assert_eq!(mode(&format!("[{log}, \"9/min\"]"), ""), leases);
    assert_eq!(mode("\"9/min\"", ""), leases);
    assert_eq!(mode("\"9/min\"", ", ask = \"always\""), decides);
}

#[test]
fn a_password_is_not_in_the_debug_text_of_a_store() {
    let text =
        "rule = [{ name = \"a\", limits = \"5/s\", store = { url = \"redis://u:secret@cache\" } }]";
    let rules = Rules::parse("r.toml", text).expect("it is right");
    let said = format!("{:?}", rules.rules()[0].store());
    assert!(said.contains("redis://cache") && !said.contains("secret"), "{said}");
}

#[test]
fn memory_is_counted_for_each_limit_and_each_ban() {
    let memory = |rest: &str| {
        let text = format!("rule = [{{ name = \"a\", capacity = 10000, {rest} }}]");
        let rules = Rules::parse("r.toml", &text).unwrap_or_else(|error| panic!("{error}"));
        RulesLimiter::new(rules).expect("there is memory").memory_bytes()
    };
    let one = memory("limits = \"5/s\"");
    assert!((160_000..1_000_000).contains(&one), "{one}");
    assert_eq!(memory("limits = [\"5/s\", \"9/min\"]"), 2 * one);
    let banned = memory("limits = \"5/s\", penalty = { after = 1, ban = \"1h\" }");
    let counted =
        memory("limits = \"5/s\", penalty = { after = 3, within = \"10m\", ban = \"1h\" }");
    assert!(banned > one + 1_000 && counted > banned + 1_000, "{one}, {banned}, {counted}");
}

const LOGINS: &str = r#"{ name = "logins", match = { path = "/login/**" }, limits = "5/min" }"#;

#[test]
fn paths_are_explained_by_the_files_settings_whatever_the_first_rule_is() {
    let settings = "encoded_slash = \"decode\"\nbackslash = \"keep\"\n";
    for first in
        [r#"{ name = "all", key = "path", limits = "9/s" }"#, r#"{ name = "b", limits = "9/s" }"#]
    {
        let text = format!("{settings}rule = [{first}, {LOGINS}]");
        let rules = Rules::parse("r.toml", &text).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(
            rules.explain_paths().as_deref(),
            Some(
                "%2F separate segments; backslashes belong to their segments; parameters (;v=1) and case are ignored"
            )
        );
        let said = rules.explain_request(&Request { path: "/login%2fx\\y", ..Request::default() });
        assert!(said.starts_with("path as /login/x\\y: %2F separates segments\n"), "{said}");
    }
}

#[test]
fn a_path_without_a_parameter_that_holds_a_separator_is_explained() {
    let text = format!("encoded_slash = \"decode\"\nrule = [{LOGINS}]");
    let rules = Rules::parse("r.toml", &text).unwrap_or_else(|error| panic!("{error}"));
    let said = rules.explain_request(&Request { path: "/login;v%2fx", ..Request::default() });
    let expected = "path as /login;v/x: %2F separates segments, \";\" belongs to its segment\n\
                    path as /login/x: %2F separates segments, without parameters\n\
                    path as /login: %2F separates segments, without parameters, each up to the next \"/\"\n";
    assert!(said.starts_with(expected), "{said}");
}

#[test]
fn no_rule_is_tried_after_one_that_denies_at_once() {
    let explained = |first: &str, path| {
        let text =
            format!("rule = [{first}, {{ name = \"all\", key = \"none\", limits = \"100/s\" }}]");
        let rules = Rules::parse("r.toml", &text).unwrap_or_else(|error| panic!("{error}"));
        let said = rules.explain_request(&Request { path, ..Request::default() });
        said.lines().last().expect("a line for each rule").to_owned()
    };
    let user = r#"{ name = "user", key = "header:x-user", on_no_key = "deny", limits = "1/s" }"#;
    let applies = "all: applies; counted by nothing: one bucket for all";
    for (first, path, last) in [
        (user, "/", "all: is not tried, since user denies the request"),
        (LOGINS, "/login%2f", "all: is not tried, since logins denies the request"),
        (LOGINS, "/login", applies),
        (&user.replace("}", ", shadow = true }"), "/", applies),
        (&LOGINS.replace("/min\"", "/min\", shadow = true"), "/login%2f", applies),
        (&user.replace("\"deny\"", "\"skip\""), "/", applies),
    ] {
        assert_eq!(explained(first, path), last, "{first} {path}");
    }
}
