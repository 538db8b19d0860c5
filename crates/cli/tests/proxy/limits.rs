//! Which requests are admitted, and what denied requests receive.

use std::time::{Duration, Instant};

use crate::support::{Answer, Proxy, ask, eventually, get};

/// Checks the problem of a denial: the end of its type, and the policy that denied.
pub(crate) fn assert_denied(answer: &Answer, kind: &str, policy: &str) {
    assert_eq!(answer.status, 429, "{answer:?}");
    assert_eq!(answer.header("content-type"), "application/problem+json");
    let problem: serde_json::Value = serde_json::from_str(&answer.body).expect("JSON");
    assert!(problem["type"].as_str().expect("a type").ends_with(kind), "{problem}");
    assert_eq!(problem["violated-policies"], serde_json::json!([policy]));
}

#[test]
fn a_burst_over_many_connections_admits_exactly_the_quota() {
    let proxy = Proxy::with_rules("burst", r#"rule = [{ name = "a", limits = "20/day" }]"#);
    let listen = proxy.listen;
    let clients = (0..8).map(|_| {
        std::thread::spawn(move || {
            let statuses = (0..25).map(|_| get(listen, "/", "").status);
            statuses
                .filter(|status| {
                    *status == 200 || {
                        assert_eq!(*status, 429);
                        false
                    }
                })
                .count()
        })
    });
    let clients: Vec<_> = clients.collect();
    let admitted: usize = clients.into_iter().map(|client| client.join().expect("no panic")).sum();
    assert_eq!(admitted, 20);
    for (name, expected) in [
        ("tollgate_http_requests_total{code=\"200\"}", 20.0),
        ("tollgate_http_requests_total{code=\"429\"}", 180.0),
        ("tollgate_decisions_total{decision=\"admitted\"}", 20.0),
        ("tollgate_rule_denials_total{rule=\"a\"}", 180.0),
        ("tollgate_connections_total", 200.0),
        ("tollgate_http_request_duration_seconds_count", 200.0),
    ] {
        assert_eq!(proxy.metric(name).to_bits(), f64::to_bits(expected), "{name}");
    }
}

#[test]
fn a_denial_has_a_reason_and_a_retry_time() {
    let rules = r#"rule = [{ name = "min", limits = "1/min" }, { name = "b", limits = "9/s" }]"#;
    let proxy = Proxy::with_rules("denial", rules);
    let began = Instant::now();
    let admitted = get(proxy.listen, "/", "");
    assert_eq!((admitted.status, admitted.header("ratelimit")), (200, "\"min\";r=0;t=60"));
    assert_eq!(admitted.header("ratelimit-policy"), "\"min\";q=1;w=60");
    let denied = get(proxy.listen, "/", "");
    assert_denied(&denied, "#quota-exceeded", "min");
    // Rounded up: a whole minute, unless a second has passed since the first request.
    let retry_after: u64 = denied.header("retry-after").parse().expect("seconds");
    let passed = began.elapsed().as_secs();
    assert!((60 - passed..=60).contains(&retry_after), "{retry_after} after {passed} s");
    assert_eq!(denied.header("ratelimit-policy"), "\"min\";q=1;w=60");
    assert_eq!(denied.header("ratelimit"), format!("\"min\";r=0;t={retry_after}"));
    // A preflight is a request like any other.
    let preflight = "origin: https://a\r\naccess-control-request-method: PUT\r\n";
    assert_eq!(ask(proxy.listen, "OPTIONS", "/", preflight).status, 429);
}

#[test]
fn a_ban_is_reported_as_abnormal_usage() {
    let rules = r#"rule = [{ name = "login", limits = "1/day", penalty = "10 min" }]"#;
    let proxy = Proxy::with_rules("ban", rules);
    assert_eq!(get(proxy.listen, "/", "").status, 200);
    for kind in ["#quota-exceeded", "#abnormal-usage-detected"] {
        assert_denied(&get(proxy.listen, "/", ""), kind, "login");
    }
}

#[test]
fn the_example_rules_are_enforced() {
    let proxy = Proxy::start("example", &["--rules", "rules/example.toml"]);
    let post = |path: &str, headers: &str| {
        let headers = format!("content-length: 0\r\n{headers}");
        ask(proxy.listen, "POST", path, &headers).status
    };
    // The spelling of the path does not matter.
    let posts = |user: &str| {
        ["/api/posts", "/api/posts", "/api/posts", "//api/./%70osts?x"]
            .map(|path| post(path, &format!("x-user: {user}\r\n")))
    };
    // Each user has its own two cells. The next one comes after half a second, so if the machine is
    // slower than that, the requests are repeated for another user.
    for name in ["ada", "bob"] {
        let mut turns = 0..;
        eventually("four requests take less than half a second", || {
            let user = format!("{name}-{}", turns.next().expect("endless"));
            let began = Instant::now();
            let statuses = posts(&user);
            let is_in_time = began.elapsed() < Duration::from_millis(490);
            assert!(!is_in_time || statuses == [200, 200, 429, 429], "{user}: {statuses:?}");
            is_in_time
        });
    }
    let rewards = |device| post("/api/rewards/7/claim", device);
    assert_eq!(
        [1, 2, 3, 4, 5, 6].map(|_| rewards("x-device: d\r\n")),
        [200, 200, 200, 200, 200, 429]
    );
    assert_eq!(rewards(""), 400);
    let accounts = (0..11).filter(|_| post("/api/accounts", "") == 200).count();
    assert_eq!(accounts, 10);
}

#[test]
fn a_rule_in_shadow_denies_nothing_and_is_counted() {
    let rules = r#"rule = [{ name = "try", limits = "1/day", shadow = true }]"#;
    let proxy = Proxy::with_rules("shadow", rules);
    assert_eq!([1, 2, 3].map(|_| get(proxy.listen, "/", "").status), [200; 3]);
    let count = proxy.metric("tollgate_rule_shadow_denials_total{rule=\"try\"}");
    assert_eq!(count.to_bits(), 2_f64.to_bits());
}

#[test]
fn the_fields_have_the_form_that_the_dialect_names() {
    let rules = r#"rule = [{ name = "a", limits = "2/s burst 5", penalty = "1 h" }]"#;
    let file = crate::support::scratch("dialect.toml", rules);
    let file = file.to_str().expect("UTF-8");
    let newest = ("ratelimit", r#""a";r=4;t=1"#);
    for (dialect, fields) in [
        ("draft-7", [("ratelimit", "limit=5, remaining=4, reset=1"), ("x-ratelimit-limit", "")]),
        ("envoy", [newest, ("x-ratelimit-limit", r#"5, 2;w=1;name="a""#)]),
        ("github", [newest, ("x-ratelimit-limit", "5")]),
    ] {
        let proxy = Proxy::start(dialect, &["--rules", file, "--dialect", dialect]);
        let answer = get(proxy.listen, "/", "");
        for (name, value) in fields {
            assert_eq!(answer.header(name), value, "{dialect}: {}", answer.head);
        }
        // A denial, and then a ban, are of the same limit.
        let denied =
            (0..8).map(|_| get(proxy.listen, "/", "")).filter(|answer| answer.status == 429);
        let starts = if dialect == "draft-7" { "limit=5, remaining=0" } else { "\"a\";r=0" };
        assert!(denied.count() >= 2);
        let banned = get(proxy.listen, "/", "");
        assert!(banned.header("ratelimit").starts_with(starts), "{dialect}: {}", banned.head);
    }
}

#[test]
fn a_queue_makes_requests_wait() {
    let rules = r#"rule = [{ name = "q", algorithm = "leaky-queue", limits = "5/s burst 3" }]"#;
    let proxy = Proxy::with_rules("queue", rules);
    let (listen, began) = (proxy.listen, Instant::now());
    let clients = [1, 2, 3].map(|_| std::thread::spawn(move || get(listen, "/", "").status));
    let statuses = clients.map(|client| client.join().expect("no panic"));
    assert_eq!(statuses, [200; 3]);
    assert!(began.elapsed().as_millis() >= 400, "{:?}", began.elapsed());
}

#[test]
fn a_client_denied_because_the_queue_is_full_is_charged_nothing() {
    let rules = r#"rule = [{
        name = "q", key = "header:x-user", algorithm = "leaky-queue", limits = "1/h burst 10",
        cost = { header = "x-cost", max = 100, default = 1 } }]"#;
    let file = crate::support::scratch("queue-full.toml", &rules.replace('\n', " "));
    let words = ["--rules", file.to_str().expect("UTF-8"), "--max-waiting", "1"];
    let proxy = Proxy::start("queue-full", &words);
    let listen = proxy.listen;
    assert_eq!(get(listen, "/", "x-user: busy\r\n").status, 200);
    // The request waits an hour for its turn, as long as the connection is open.
    let mut waits = crate::support::connect(listen);
    let request = b"GET / HTTP/1.1\r\nhost: a\r\nx-user: busy\r\n\r\n";
    std::io::Write::write_all(&mut waits, request).expect("connected");
    eventually("it waits", || proxy.metric("tollgate_queued_total") >= 1.0);
    assert_eq!(get(listen, "/", "x-user: other\r\n").status, 200);
    for _ in 0..20 {
        let answer = get(listen, "/", "x-user: other\r\n");
        assert_eq!(answer.status, 503);
        assert!(answer.header("ratelimit").starts_with("\"q\";r=0;"), "{}", answer.head);
    }
    // The key has the cells for the first, and not for the second.
    let cost = |cells: u8| format!("x-user: other\r\nx-cost: {cells}\r\n");
    assert_eq!([9, 10].map(|cells| get(listen, "/", &cost(cells)).status), [503, 429]);
    assert_eq!(proxy.metric("tollgate_queue_full_total").to_bits(), 21_f64.to_bits());
}

#[test]
fn only_a_trusted_proxy_names_the_client() {
    let rules = r#"rule = [{ name = "a", limits = "1/day" }]"#;
    let forged = |n: u8| format!("x-forwarded-for: 192.0.2.{n}\r\n");
    let proxy = Proxy::with_rules("forged", rules);
    assert_eq!([1, 2].map(|n| get(proxy.listen, "/", &forged(n)).status), [200, 429]);
    for (name, words) in
        [("hops", ["--trusted-hops", "1"]), ("networks", ["--trusted-proxies", "127.0.0.0/8,::1"])]
    {
        let file = crate::support::scratch(&format!("{name}.toml"), rules);
        let given = ["--rules", file.to_str().expect("UTF-8")];
        let proxy = Proxy::start(name, &[given, words].concat());
        let client =
            |text: &str| get(proxy.listen, "/", &format!("x-forwarded-for: {text}\r\n")).status;
        assert_eq!(["192.0.2.1", "192.0.2.2", "192.0.2.1"].map(client), [200, 200, 429], "{name}");
        assert_eq!(client("192.0.2.9, 192.0.2.1"), 429, "{name}");
        // Values that are not addresses share one bucket.
        assert_eq!(["what", "192.0.2.9, ever"].map(client), [200, 429], "{name}");
        assert_eq!(proxy.metric("tollgate_client_unknown_total").to_bits(), 2_f64.to_bits());
    }
}
