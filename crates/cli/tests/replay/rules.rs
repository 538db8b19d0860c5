//! `--rules`: logs replayed through a rules file.

use serde_json::Value;

use crate::support::{
    AZURE_CODE, ELASTIC, HACKERS, NASA, data, json, json_with, replay, replay_with, scratch,
    unpacked,
};

/// Writes a rules file, and replays a log of the test data through it.
fn replay_rules(name: &str, rules: &str, log: &str) -> Value {
    json(&["--rules", &scratch(name, rules.as_bytes()), &data(log)])
}

fn figure(report: &Value, rule: usize, name: &str) -> u64 {
    report["rules"][rule][name].as_u64().unwrap_or_else(|| panic!("{name} of {rule}: {report}"))
}

/// Lines of a log for which something holds.
fn lines(log: &str, holds: impl Fn(&str) -> bool) -> u64 {
    String::from_utf8_lossy(&unpacked(log)).lines().filter(|line| holds(line)).count() as u64
}

/// The first segment of the path that a line asks for.
fn first_segment(line: &str) -> Option<&str> {
    let path = line.split('"').nth(1)?.split(' ').nth(1)?;
    path.split(['?', '#']).next()?.split('/').find(|segment| !segment.is_empty())
}

#[test]
fn a_log_without_methods_lacks_nothing_for_a_rule_without_one() {
    let rules = "[[rule]]\nname = \"all\"\nkey = \"none\"\nlimits = \"5/s\"\n";
    let file = scratch("no-methods.toml", rules.as_bytes());
    let report = json(&["--key", "none", "--rules", &file, &data(AZURE_CODE)]);
    assert_eq!(figure(&report, 0, "not_in_log"), 0);
}

#[test]
fn a_rule_for_all_requests_equals_the_limit_alone() {
    for log in [NASA, HACKERS, ELASTIC] {
        for limit in ["1/s burst 5", "2/min"] {
            let rules = format!("[[rule]]\nname = \"all\"\nlimits = \"{limit}\"\n");
            let by_file = replay_rules("same.toml", &rules, log);
            let by_option = json(&["--rule", limit, &data(log)]);
            for name in ["admitted", "denied", "keys_denied"] {
                assert_eq!(by_file["rules"][0][name], by_option[name], "{log} {limit} {name}");
                assert_eq!(by_file["all_rules"][name], by_option[name], "{log} {limit} {name}");
            }
            assert_eq!(by_file["rules"][0]["keys"], by_option["keys"]);
            let most = &by_option["limiters"][0]["denied_most"];
            // One rule lists as many keys as one limiter.
            assert_eq!(&by_file["rules"][0]["denied_most"], most, "{log} {limit}");
        }
    }
}

#[test]
fn a_mistake_in_a_file_is_reported_without_the_passwords_of_its_line() {
    let store = "store = { url = \"redis://app:s3cr3t@cache:6379\", fallbak = \"deny\" }";
    let rules = format!("[[rule]]\nname = \"a\"\nlimits = \"5/s\"\n{store}\n");
    let file = scratch("secret.toml", rules.as_bytes());
    let ran = replay(&["--rules", &file, &data(NASA)]);
    let place = format!("{file}:4:50: unknown key \"fallbak\"");
    assert!(ran.code == 2 && ran.err.contains(&place), "{ran:?}");
    assert!(!ran.err.contains("s3cr3t"), "{ran:?}");
}

#[test]
fn rules_match_the_parts_that_the_log_records() {
    let rules = r#"
        rule = [
            { name = "path", match = { path = "/presentations/**" }, limits = "1000/s" },
            { name = "method", match = { method = "HEAD" }, limits = "1000/s" },
            { name = "header", match = { header = { referer = false } }, limits = "1000/s" },
            { name = "agent", match = { header = { user-agent = "-x" } }, limits = "1000/s" },
        ]
    "#;
    let report = replay_rules("matching.toml", rules, ELASTIC);
    assert_eq!(
        figure(&report, 0, "requests"),
        lines(ELASTIC, |line| first_segment(line) == Some("presentations"))
    );
    assert!(figure(&report, 0, "requests") > 1_000);
    assert_eq!(figure(&report, 1, "requests"), lines(ELASTIC, |line| line.contains("\"HEAD ")));
    let no_referer = lines(ELASTIC, |line| line.split('"').nth(3) == Some("-"));
    assert_eq!(figure(&report, 2, "requests"), no_referer);
    assert_eq!(figure(&report, 3, "requests"), 0);
    assert_eq!((0..4).map(|rule| figure(&report, rule, "not_in_log")).sum::<u64>(), 0);
}

#[test]
fn a_rule_that_needs_a_part_the_log_lacks_is_skipped_and_counted() {
    let rules = r#"
        rule = [
            { name = "user", match = { path = "/shuttle/**" }, key = "header:x-user", limits = "1/d" },
            { name = "deny", match = { method = "POST" }, key = "cookie:s", on_no_key = "deny", limits = "1/d" },
            { name = "host", match = { method = "HEAD", host = "a.example" }, limits = "1/d" },
            { name = "absent", match = { header = { x-old = false } }, limits = "1/d" },
            { name = "rest", limits = "1/s burst 5" },
        ]
    "#;
    let file = scratch("missing.toml", rules.as_bytes());
    let report = json(&["--rules", &file, &data(NASA)]);
    let asked = |what: &str| lines(NASA, |line| line.contains(what));
    let shuttle = lines(NASA, |line| first_segment(line) == Some("shuttle"));
    assert_eq!(figure(&report, 0, "not_in_log"), shuttle);
    assert_eq!(report["rules"][0]["missing"]["header x-user"], shuttle);
    assert_eq!(figure(&report, 1, "not_in_log"), asked("\"POST "));
    assert_eq!(figure(&report, 2, "not_in_log"), asked("\"HEAD "));
    assert_eq!(figure(&report, 3, "not_in_log"), 30_969);
    // These rules deny nothing, and the last rule denies what it denies alone.
    assert_eq!(report["all_rules"]["denied"], figure(&report, 4, "denied"));
    assert_eq!(figure(&report, 4, "denied"), 102);
    let ran = replay(&["--rules", &file, &data(NASA)]);
    let share = shuttle as f64 / 309.69;
    let note = format!(
        "not in this log: rule user needs header x-user: 8,{:03} requests ({share:.2} %) were decided without it",
        shuttle - 8_000
    );
    let text = ran.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains(&note), "{note}\n{}", ran.out);
    assert!(ran.out.lines().all(|line| line.chars().count() <= 80), "{}", ran.out);
}

#[test]
fn parts_of_rules_that_a_log_cannot_replay_are_named() {
    let rules = r#"rule = [
        { name = "at-once", concurrency = 1 },
        { name = "paced", key = "none", bytes = "1kB/s", limits = "1000000/s" },
        { name = "tokens", key = "none", limits = "1000000/s burst 100",
          cost = { response_header = "x-tokens", estimate = 100 } },
        { name = "weight", key = "none", limits = "5/s", cost = { header = "x-cost", max = 9 } },
    ]"#;
    let file = scratch("left-out.toml", rules.as_bytes());
    let report = json(&["--rules", &file, &data(NASA)]);
    let named = |rule: usize| report["rules"][rule]["not_replayed"].clone();
    assert_eq!(named(0), serde_json::json!(["concurrency"]));
    assert_eq!(named(1), serde_json::json!(["bytes"]));
    assert_eq!(named(2), serde_json::json!(["cost"]));
    assert_eq!(named(3), serde_json::json!([]));
    // A part that is left out denies nothing. The log has no header "x-cost", so each request misses it.
    assert_eq!([0, 1].map(|rule| figure(&report, rule, "denied")), [0, 0]);
    assert_eq!(report["rules"][3]["missing"]["header x-cost"], figure(&report, 0, "requests"));
    let ran = replay(&["--rules", &file, &data(NASA)]);
    let text = ran.out.split_whitespace().collect::<Vec<_>>().join(" ");
    for note in [
        "rule at-once: \"concurrency\" is not replayed, since a log does not say which requests were in flight",
        "rule paced: \"bytes\" is not replayed, since it delays and denies nothing",
        "rule tokens: \"cost\" is not replayed, since a log does not say what the response settled: each \
         request costs its estimate",
    ] {
        assert!(text.contains(note), "{}", ran.out);
    }
}

#[test]
fn headers_of_json_lines_can_be_keys() {
    let line = |second: u32, user: &str| {
        let headers =
            if user.is_empty() { "{}".to_owned() } else { format!("{{\"X-User\":[\"{user}\"]}}") };
        format!(
            "{{\"ts\":{second},\"request\":{{\"remote_ip\":\"192.0.2.{second}\",\"host\":\"A.example:80\",\
             \"method\":\"GET\",\"uri\":\"/a?b\",\"headers\":{headers}}}}}\n"
        )
    };
    let users = ["ada", "ada", "bob", "", "", "ada"];
    let log: String = (0..).zip(users).map(|(second, user)| line(second + 1, user)).collect();
    let of = |on_no_key: &str| {
        let rules = format!(
            "[[rule]]\nname = \"a\"\nmatch = {{ host = \"a.example\", path = \"/a\" }}\n\
             key = \"header:x-user\"\non_no_key = \"{on_no_key}\"\nlimits = \"1/min\"\n"
        );
        let file = scratch(&format!("json-{on_no_key}.toml"), rules.as_bytes());
        let report = json_with(&["--rules", &file, "--format", "jsonl"], log.as_bytes());
        ["requests", "denied", "without_key", "keys", "not_in_log"]
            .map(|name| figure(&report, 0, name))
    };
    assert_eq!(of("shared"), [6, 3, 0, 3, 0]);
    assert_eq!(of("skip"), [4, 2, 0, 2, 0]);
    assert_eq!(of("deny"), [6, 4, 2, 3, 0]);
}

#[test]
fn a_request_without_a_body_costs_one_cell_if_the_log_records_both_headers_of_a_body() {
    let rules = r#"rule = [
        { name = "up", key = "none", limits = "1000/d", cost = { bytes = "request", max = 500 } },
    ]"#;
    let file = scratch("up.toml", rules.as_bytes());
    let of = |more: &str| {
        let line = |method: &str, length: &str| {
            format!(
                "{{\"time\":1,\"ip\":\"1.2.3.4\",\"method\":\"{method}\",\"path\":\"/\",\
                 \"http_content_length\":\"{length}\"{more}}}\n"
            )
        };
        let log = line("GET", "-").repeat(500) + &line("POST", "500") + &line("POST", "1");
        let report = json_with(&["--rules", &file], log.as_bytes());
        ["requests", "denied", "not_in_log"].map(|name| figure(&report, 0, name))
    };
    assert_eq!(of(",\"http_transfer_encoding\":\"-\""), [502, 1, 0]);
    // A body without a length is a body, too: only this header tells.
    assert_eq!(of(""), [2, 0, 500]);
    assert_eq!(of(",\"http_transfer_encoding\":\"chunked\""), [502, 500, 0]);
}

/// The table has room for few keys, so that most requests put another key out of it.
#[test]
fn a_replay_with_rules_is_repeatable_when_a_table_is_full() {
    let rules = r#"rule = [
        { name = "full", capacity = 1, limits = "2/d" },
        { name = "ban", capacity = 1, limits = "3/d", on_full = "deny", penalty = "1 h" },
        { name = "window", capacity = 1, limits = "3/d", algorithm = "fixed-window" },
    ]"#;
    let file = scratch("full.toml", rules.as_bytes());
    let line = |second: u32| {
        let client = second * second % 97;
        format!("{{\"time\":{second},\"ip\":\"192.0.2.{client}\",\"path\":\"/\"}}\n")
    };
    let log: String = (1..2_000).map(line).collect();
    let report = || json_with(&["--rules", &file], log.as_bytes())["rules"].clone();
    let first = report();
    assert!(first[0]["denied"] != 0 && first[1]["denied"] != 0, "{first}");
    for _ in 0..4 {
        assert_eq!(report(), first);
    }
}

#[test]
fn a_denial_for_an_unclear_path_is_no_denial_without_a_key() {
    let line = |path: &str, user: &str| {
        format!("{{\"time\":1,\"ip\":\"192.0.2.7\",\"path\":\"{path}\",\"x_user\":\"{user}\"}}\n")
    };
    let unclear = "/x%2f..%2flogin";
    let log: String = [("/login", "ada"), ("/login", ""), (unclear, "ada"), (unclear, "")]
        .map(|(path, user)| line(path, user))
        .concat();
    for (on_no_key, expected) in
        [("deny", [4, 3, 2, 1]), ("shared", [4, 2, 2, 0]), ("skip", [3, 2, 2, 0])]
    {
        let rules = format!(
            "[[rule]]\nname = \"login\"\nmatch = {{ path = \"/login\" }}\nkey = \"header:x-user\"\n\
             on_no_key = \"{on_no_key}\"\nlimits = \"1000/s\"\n"
        );
        let file = scratch(&format!("unclear-{on_no_key}.toml"), rules.as_bytes());
        let report = json_with(&["--rules", &file], log.as_bytes());
        let figures = ["requests", "denied", "unclear_path", "without_key"]
            .map(|name| figure(&report, 0, name));
        assert_eq!(figures, expected, "{on_no_key}");
        let ran = replay_with(&["--rules", &file], log.as_bytes());
        assert!(
            ran.out.contains("rule login: 2 of the denied had an unclear path\n"),
            "{}",
            ran.out
        );
        assert_eq!(ran.out.contains("had no key"), on_no_key == "deny", "{}", ran.out);
    }
}

#[test]
fn queries_and_addresses_are_matched_as_far_as_the_log_records_them() {
    let rules = r#"
        rule = [
            { name = "query", match = { query = { page = "2" } }, limits = "1000/s" },
            { name = "none", match = { query = { page = false } }, limits = "1000/s" },
            { name = "ip", match = { ip = "10.0.0.0/8" }, limits = "1000/s" },
            { name = "other", match = { not = { ip = "10.0.0.0/8" } }, limits = "1000/s" },
        ]"#;
    let file = scratch("query.toml", rules.as_bytes());
    let figures = |format: &str, log: &str| {
        let report = json_with(&["--rules", &file, "--format", format], log.as_bytes());
        [0, 1, 2, 3]
            .map(|rule| (figure(&report, rule, "requests"), figure(&report, rule, "not_in_log")))
    };
    let at = "[01/Aug/1995:06:00:00 +0000]";
    let clf = format!(
        "10.0.0.1 - - {at} \"GET /a?page=2 HTTP/1.0\" 200 1\n\
         192.0.2.1 - - {at} \"GET /a HTTP/1.0\" 200 1\n\
         a.example - - {at} \"GET /a?page=3 HTTP/1.0\" 200 1\n"
    );
    // The address of a name is not in the log.
    assert_eq!(figures("clf", &clf), [(1, 0), (1, 0), (1, 1), (1, 1)]);
    let csv = "time,ip,path\n1,10.0.0.1,/a?page=2\n2,10.0.0.2,/a\n";
    // A field named path may leave the query out.
    assert_eq!(figures("csv", csv), [(1, 1), (0, 1), (2, 0), (0, 0)]);
    // Blanks around a value are no part of it.
    let csv = "time, ip, path\n1, 10.0.0.1, /a?page=2\n2,  \"10.0.0.2\" ,\t\"/a\"\n";
    assert_eq!(figures("csv", csv), [(1, 1), (0, 1), (2, 0), (0, 0)]);
    let csv = "time,ip,path,args\n1,10.0.0.1,/a,page=2\n2,10.0.0.2,/a,-\n";
    assert_eq!(figures("csv", csv), [(1, 0), (1, 0), (2, 0), (0, 0)]);
}

#[test]
fn an_absolute_target_is_read_as_path_and_host() {
    let rules = r#"rule = [
        { name = "path", match = { path = "/login" }, limits = "1/h" },
        { name = "host", match = { host = "a.example" }, limits = "9/h" },
    ]"#;
    let file = scratch("absolute.toml", rules.as_bytes());
    let targets =
        ["/login", "http://a.example/login", "http://b.example/login?x", "http://a.example:80"];
    let line = |target| {
        format!("192.0.2.7 - - [01/Aug/1995:06:00:00 +0000] \"GET {target} HTTP/1.1\" 200 1\n")
    };
    let log: String = targets.into_iter().map(line).collect();
    let report = json_with(&["--rules", &file], log.as_bytes());
    assert_eq!((figure(&report, 0, "requests"), figure(&report, 0, "denied")), (3, 2));
    assert_eq!((figure(&report, 1, "requests"), figure(&report, 1, "not_in_log")), (2, 1));
    let log =
        r#"{"time":1,"ip":"192.0.2.7","method":"GET","host":"a.example","url":"http://b/login"}"#;
    let report = json_with(&["--rules", &file], log.as_bytes());
    // The host of an absolute target takes precedence, as in the proxy (RFC 9112, 3.2.2).
    assert_eq!([0, 1].map(|rule| figure(&report, rule, "requests")), [1, 0]);
}

#[test]
fn an_address_with_a_zone_or_in_brackets_is_an_address() {
    let rules = r#"rule = [
        { name = "ip", limits = "1/h" },
        { name = "link", match = { ip = "fe80::/10" }, key = "none", limits = "9/h" },
    ]"#;
    let file = scratch("zones.toml", rules.as_bytes());
    let line =
        |ip: &str| format!("{ip} - - [01/Aug/1995:06:00:00 +0000] \"GET / HTTP/1.1\" 200 1\n");
    let ips = ["fe80::1%eth0", "[fe80::1%25eth0]:80", "fe80::2", "[2001:db8::1]", "2001:db8::2"];
    let log: String = ips.into_iter().map(line).collect();
    let report = json_with(&["--rules", &file], log.as_bytes());
    assert_eq!((figure(&report, 0, "keys"), figure(&report, 0, "denied")), (2, 3));
    assert_eq!((figure(&report, 1, "requests"), figure(&report, 1, "not_in_log")), (3, 0));
    let ran = replay_with(&["--rules", &file], log.as_bytes());
    assert!(!ran.out.contains("by name"), "{}", ran.out);
}

#[test]
fn as_many_requests_of_a_key_wait_as_in_the_proxy() {
    let rules = r#"rule = [
        { name = "queue", limits = "60/min burst 1000", algorithm = "leaky-queue" },
    ]"#;
    let file = scratch("queue.toml", rules.as_bytes());
    let line = "192.0.2.7 - - [01/Aug/1995:06:00:00 +0000] \"GET / HTTP/1.1\" 200 1\n";
    let report = json_with(&["--rules", &file], line.repeat(300).as_bytes());
    // One is served at once, and 128 wait.
    assert_eq!(figure(&report, 0, "denied"), 300 - 129);
}

#[test]
fn first_rule_shadow_and_bans_work_as_in_the_proxy() {
    let log: String = (0..20)
        .map(|second| {
            format!(
                "192.0.2.7 - - [01/Aug/1995:06:00:{second:02} +0000] \"GET / HTTP/1.0\" 200 1\n"
            )
        })
        .collect();
    let of = |name: &str, rules: &str| {
        let file = scratch(name, rules.as_bytes());
        json_with(&["--rules", &file], log.as_bytes())
    };
    let first = of(
        "first.toml",
        r#"
        apply = "first"
        rule = [
            { name = "shadow", shadow = true, limits = "5 per day" },
            { name = "a", limits = "12 per day" },
            { name = "b", limits = "1 per day" },
        ]"#,
    );
    let counts = |report: &Value, rule| {
        ["requests", "admitted", "denied", "denied_by_others"]
            .map(|name| figure(report, rule, name))
    };
    // The rule in shadow also sees the twelve requests that are admitted.
    assert_eq!(
        counts(&first, 0),
        [20, 12, 7, 8].map(|count| count).map(|c| if c == 12 { 5 } else { c })
    );
    assert_eq!(counts(&first, 1), [20, 12, 8, 0]);
    assert_eq!(counts(&first, 2), [0, 0, 0, 0]);
    let ban = of(
        "ban.toml",
        r#"rule = [{ name = "a", limits = "1/s burst 1", penalty = "5 s" },
                   { name = "b", limits = "1/2s burst 1" }]"#,
    );
    // b denies every other second. a is not charged then, so it never denies.
    assert_eq!(counts(&ban, 1), [20, 10, 10, 0]);
    assert_eq!(counts(&ban, 0), [20, 10, 0, 10]);
}

#[test]
fn wrong_rules_and_wrong_options_are_errors() {
    let fine = scratch("fine.toml", b"rule = [{ name = \"a\", limits = \"1/s\" }]");
    let wrong = scratch("wrong.toml", b"[[rule]]\nname = \"a\"\nlimits = \"5/fortnight\"");
    let long = scratch("long.toml", &[b'#'; (1 << 20) + 1]);
    for (words, why) in [
        (&["--rules", &fine, "--rule", "1/s"][..], "cannot be used with '--rule <RULE>'"),
        (&["--rules", &fine, "--compare"], "cannot be used with"),
        (&["--rules", &fine, "--verify"], "cannot be used with"),
        (&["--rules", &wrong], "wrong.toml:3:13"),
        (&["--rules", &long], "long.toml cannot be read: it is longer than a mebibyte"),
        (&["--rules", "/no/such.toml"], "/no/such.toml cannot be read"),
        (&[], "--rules <FILE>"),
    ] {
        let ran = replay(words);
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(ran.err.contains(why), "{words:?}: {}", ran.err);
    }
}

#[test]
fn an_empty_log_has_a_report() {
    let file = scratch("empty.toml", b"rule = [{ name = \"a\", limits = \"1/s\" }]");
    let ran = replay(&["--rules", &file, "--suggest"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.contains("the input contains no request"), "{}", ran.out);
}

#[test]
fn lines_that_are_no_request_of_http_are_decided_by_no_rule_and_counted() {
    let file = scratch("not-http.toml", b"[[rule]]\nname = \"all\"\nlimits = \"1/d\"\n");
    let line =
        |request: &str| format!("192.0.2.1 - - [01/Aug/1995:06:00:00 +0000] \"{request}\" 408 -\n");
    let log: String = ["-", "GET / HTTP/1.1", "\\x16\\x03\\x01", "-"].map(line).concat();
    let report = json_with(&["--rules", &file], log.as_bytes());
    assert_eq!((&report["requests"], &report["not_http"]), (&4.into(), &3.into()));
    assert_eq!((figure(&report, 0, "requests"), figure(&report, 0, "denied")), (1, 0));
    assert_eq!(report["all_rules"]["requests"], 1);
    let ran = replay_with(&["--rules", &file], log.as_bytes());
    let text = ran.out.split_whitespace().collect::<Vec<_>>().join(" ");
    let note = "no rule decided 3 requests (75.00 %) without a method or a target of HTTP";
    assert!(text.contains(note), "{}", ran.out);
    // A limit alone has no rules to leave a line out of.
    let report = json_with(&["--rule", "1/d"], log.as_bytes());
    assert_eq!((&report["denied"], &report["not_http"]), (&3.into(), &Value::Null));
}
