//! Limits that several proxies share in a real Redis server.
//!
//! A call that a busy machine does not answer by the deadline may have been charged. The tests count such
//! calls, and allow only their cells to be missing.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::redis::Redis;
use crate::support::{Proxy, eventually, get, scratch};

/// So long that no machine is too busy to answer in time.
const LONG_DEADLINE: &str = "deadline = \"5 s\"";

/// Two proxies with the same rules.
fn pair(name: &str, rules: &str) -> [Proxy; 2] {
    ["one", "two"].map(|which| Proxy::with_rules(&format!("{name}-{which}"), rules))
}

/// The sum of a metric over the proxies.
fn sum(proxies: &[Proxy], name: &str) -> u64 {
    // Counts are small whole numbers.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "see above")]
    let whole = |proxy: &Proxy| proxy.metric(name) as u64;
    proxies.iter().map(whole).sum()
}

/// Calls without an answer, which may have been charged.
fn lost(proxies: &[Proxy], redis: &Redis) -> u64 {
    let of = |outcome| {
        let store = redis.url();
        let name = format!("tollgate_store_calls_total{{store=\"{store}\",outcome=\"{outcome}\"}}");
        sum(proxies, &name)
    };
    of("timed_out") + of("disconnected")
}

/// Sends `count` requests to each proxy from each of two concurrent clients. Returns the number admitted.
fn ask(proxies: &[Proxy], path: &'static str, count: usize) -> u64 {
    let clients = proxies.iter().chain(proxies).map(|proxy| {
        let listen = proxy.listen;
        std::thread::spawn(move || {
            let statuses = (0..count).map(|_| get(listen, path, "").status);
            statuses.fold(0, |admitted, status| {
                assert!([200, 429, 503].contains(&status), "{status}");
                admitted + u64::from(status == 200)
            })
        })
    });
    let clients: Vec<_> = clients.collect();
    clients.into_iter().map(|client| client.join().expect("no panic")).sum()
}

#[test]
fn two_proxies_that_always_ask_the_store_admit_exactly_the_quota() {
    let Some(redis) = Redis::start() else { return };
    let rules = format!(
        "[[rule]]\nname = \"daily\"\nlimits = \"20 per day\"\n\
         store = {{ url = \"{}\", ask = \"always\", fallback = \"deny\", {LONG_DEADLINE} }}\n",
        redis.url()
    );
    let proxies = pair("always", &rules);
    let admitted = ask(&proxies, "/", 15);
    let lost = lost(&proxies, &redis);
    assert!(admitted <= 20 && admitted + lost >= 20, "{admitted} admitted, {lost} lost");
    // Each request and each denial is counted once.
    let decided = |word| sum(&proxies, &format!("tollgate_decisions_total{{decision=\"{word}\"}}"));
    let denied = decided("denied") + decided("unavailable");
    assert_eq!((decided("admitted"), denied), (admitted, 60 - admitted));
    assert_eq!(sum(&proxies, "tollgate_rule_denials_total{rule=\"daily\"}"), denied);
    assert_eq!(sum(&proxies, "tollgate_store_waits_total"), 60);
    let by = |origin| {
        let labels = format!("rule=\"daily\",origin=\"{origin}\"");
        sum(&proxies, &format!("tollgate_rule_store_decisions_total{{{labels}}}"))
    };
    assert_eq!(["lease", "memory"].map(by), [0, 0]);
    assert_eq!(by("server") + by("fallback"), 60);
    assert_eq!(by("fallback"), sum(&proxies, "tollgate_unavailable_total"));
}

#[test]
fn two_proxies_with_leases_never_admit_more_than_the_quota() {
    let Some(redis) = Redis::start() else { return };
    let rules = format!(
        "[[rule]]\nname = \"fast\"\nalgorithm = \"fixed-window\"\nlimits = \"600/min\"\n\
         store = {{ url = \"{}\", fallback = \"deny\", {LONG_DEADLINE} }}\n",
        redis.url()
    );
    let proxies = pair("ahead", &rules);
    let began = Instant::now();
    let admitted = ask(&proxies, "/", 225);
    // A window begins with its first request, so the next one begins a minute later.
    let windows = began.elapsed().as_secs() / 60 + 1;
    assert!((300..=600 * windows).contains(&admitted), "{admitted} in {windows}");
    let name = "tollgate_rule_store_decisions_total{rule=\"fast\",origin=\"lease\"}";
    let leased = sum(&proxies, name);
    assert!(leased > 100, "{leased}");
    assert!(sum(&proxies, "tollgate_store_waits_total") < 900);
}

/// Leases would withhold a part of the burst. Without an answer in time, the fallback admits the request too.
#[test]
fn a_request_may_cost_all_that_a_limit_in_a_store_admits_at_once() {
    let Some(redis) = Redis::start() else { return };
    let rule = |name: &str, limits: &str, cost: &str| {
        format!(
            "[[rule]]\nname = \"{name}\"\nmatch = {{ path = \"/{name}\" }}\nlimits = \"{limits}\"\n\
             cost = {cost}\nstore = \"{}\"\n",
            redis.url()
        )
    };
    let rules = [
        rule("most", "100/s burst 20", "15"),
        rule("all", "100/s", "100"),
        rule("named", "100/s", "{ header = \"x-cost\", max = 100 }"),
    ];
    let proxy = Proxy::with_rules("costly", &rules.concat());
    let status = |path: &str| get(proxy.listen, path, "x-cost: 100\r\n").status;
    assert_eq!(["/most", "/all", "/named"].map(status), [200; 3]);
}

#[test]
fn while_the_store_is_down_each_rule_uses_its_fallback() {
    let Some(mut redis) = Redis::start() else { return };
    let rule = |name: &str, limits: &str, rest: &str| {
        format!(
            "[[rule]]\nname = \"{name}\"\nmatch = {{ path = \"/{name}\" }}\nlimits = \"{limits}\"\n\
             store = {{ url = \"{}\", ask = \"always\", fallback = \"{name}\"{rest}, {LONG_DEADLINE} }}\n",
            redis.url()
        )
    };
    let here = "[[rule]]\nname = \"here\"\nmatch = { path = \"/deny\" }\nlimits = \"9999/s\"\n";
    let rules = [
        here.to_owned(),
        rule("deny", "1000/s", ""),
        rule("admit", "1/day", ""),
        rule("local", "8/day", ", nodes = 2"),
    ];
    let proxy = Proxy::with_rules("down", &rules.concat());
    let status = |path: &str| {
        let began = Instant::now();
        let answer = get(proxy.listen, path, "");
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        answer.status
    };
    eventually("the server is asked", || status("/deny") == 200);
    assert_eq!(status("/local"), 200);
    redis.kill();
    for _ in 0..6 {
        assert_eq!(["/deny", "/admit"].map(status), [503, 200]);
    }
    let open = format!("tollgate_store_circuit_open{{store=\"{}\"}}", redis.url());
    assert_eq!(proxy.metric(&open).to_bits(), 1_f64.to_bits());
    // The share of one proxy is 4 cells, of which the server has granted one.
    assert_eq!(["/local"; 5].map(status), [200, 200, 200, 429, 429]);
    // No limit denies, so no limit is named, although a limit in memory was checked too.
    assert_eq!(get(proxy.listen, "/deny", "").header("ratelimit"), "");
    redis.run();
    eventually("it is found again", || status("/deny") == 200);
    assert_eq!(proxy.metric(&open).to_bits(), 0_f64.to_bits());
}

#[test]
fn a_reload_that_no_store_can_keep_leaves_the_old_rules_in_force() {
    let Some(redis) = Redis::start() else { return };
    let rules = |more: &str| {
        format!(
            "[[rule]]\nname = \"kept\"\nlimits = \"3/day\"\nstore = {{ url = \"{0}\", {LONG_DEADLINE} }}\n\
             [[rule]]\nname = \"other\"\nmatch = {{ path = \"/other\" }}\n{more}\nstore = {{ url = \"{0}\", {LONG_DEADLINE} }}\n",
            redis.url()
        )
    };
    let good = rules("limits = \"1000/s\"");
    let bad =
        rules("algorithm = \"fixed-window\"\nlimits = [{ name = \"odd\", quota = \"5/1500ns\" }]");
    let proxy = Proxy::with_rules("unfit", &good);
    let status = |path| get(proxy.listen, path, "").status;
    assert_eq!(["/", "/other"].map(status), [200; 2]);
    let file = scratch("unfit.toml", &bad);
    let successful = "tollgate_rules_last_reload_successful";
    eventually("it is denied", || proxy.metric(successful) == 0.0);
    let said = "the rules in force stay unchanged";
    eventually("it is logged", || proxy.stderr().contains(said));
    let stderr = proxy.stderr();
    assert!(stderr.contains("rule \"other\": limit \"odd\" in store redis://"), "{stderr}");
    assert_eq!(["/other", "/"].map(status), [200, 429]);

    // The same file at the start is an error.
    let mut start = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    start.args(["proxy", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--rules"]);
    let output = start.arg(file).output().expect("the binary starts");
    assert!(!output.status.success());
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("rule \"other\": limit \"odd\""), "{stderr}");

    // Unchanged limits keep their state.
    scratch("unfit.toml", &good.replace("1000/s", "1001/s"));
    eventually("it is right again", || proxy.metric(successful) == 1.0);
    assert_eq!(["/other", "/"].map(status), [429, 429]);
}

#[test]
fn limits_in_memory_in_a_store_and_in_shadow_are_reported_together() {
    let Some(redis) = Redis::start() else { return };
    let store =
        format!("store = {{ url = \"{}\", fallback = \"deny\", {LONG_DEADLINE} }}", redis.url());
    let rules = format!(
        "[[rule]]\nname = \"here\"\nlimits = \"50/day\"\n\
         [[rule]]\nname = \"shadow\"\nlimits = \"1/day\"\nshadow = true\n{store}\n\
         [[rule]]\nname = \"there\"\nlimits = [\"40/day\", \"3/h\"]\n{store}\n"
    );
    let proxies = [Proxy::with_rules("together", &rules)];
    let answers = [(); 6].map(|()| get(proxies[0].listen, "/", ""));
    let lost = lost(&proxies, &redis);
    let admitted: Vec<_> = answers.iter().filter(|answer| answer.status == 200).collect();
    let count = admitted.len() as u64;
    assert!(count <= 3 && count + lost >= 3, "{count} admitted, {lost} lost");
    for answer in &admitted {
        let policies =
            "\"here\";q=50;w=86400, \"there/40/d\";q=40;w=86400, \"there/3/h\";q=3;w=3600";
        assert_eq!(answer.header("ratelimit-policy"), policies);
    }
    let denied = answers.iter().find(|answer| answer.status == 429).expect("over the limit");
    assert_eq!(denied.header("ratelimit-policy"), "\"there/3/h\";q=3;w=3600");
    assert!(!denied.header("retry-after").is_empty());
    // The rule in shadow sees only admitted requests. It admits one, and counts its denials separately.
    let shadowed = sum(&proxies, "tollgate_rule_shadow_denials_total{rule=\"shadow\"}");
    assert!(shadowed < count && shadowed + 1 + lost >= count, "{shadowed} of {count}, {lost} lost");
    assert_eq!(sum(&proxies, "tollgate_rule_denials_total{rule=\"shadow\"}"), 0);
    assert_eq!(sum(&proxies, "tollgate_rule_denials_total{rule=\"there\"}"), 6 - count);
}

/// The rule in shadow has its limit in the proxy, and is decided before the store is asked.
#[test]
fn a_rule_in_shadow_counts_no_request_that_a_store_denies() {
    let Some(redis) = Redis::start() else { return };
    let rules = format!(
        "[[rule]]\nname = \"there\"\nlimits = \"2/day\"\n\
         store = {{ url = \"{}\", ask = \"always\", fallback = \"deny\", {LONG_DEADLINE} }}\n\
         [[rule]]\nname = \"here\"\nlimits = \"1/day\"\nshadow = true\n",
        redis.url()
    );
    let proxies = [Proxy::with_rules("shadow-store", &rules)];
    let answers = [(); 6].map(|()| get(proxies[0].listen, "/", ""));
    let admitted = answers.iter().filter(|answer| answer.status == 200).count() as u64;
    let lost = lost(&proxies, &redis);
    assert!(admitted <= 2 && admitted + lost >= 2, "{admitted} admitted, {lost} lost");
    let shadowed = sum(&proxies, "tollgate_rule_shadow_denials_total{rule=\"here\"}");
    assert!((shadowed..=shadowed + 1).contains(&admitted), "{shadowed} of {admitted}");
}

/// The reasons why the store is down, from the metrics.
fn reasons(proxy: &Proxy, redis: &Redis) -> [f64; 3] {
    ["timed_out", "disconnected", "failed"].map(|reason| {
        let labels = format!("store=\"{}\",reason=\"{reason}\"", redis.url());
        proxy.metric(&format!("tollgate_store_down{{{labels}}}"))
    })
}

#[test]
fn a_store_that_goes_down_and_up_shows_in_log_metrics_and_readiness() {
    let Some(mut redis) = Redis::start() else { return };
    let rules = format!(
        "[[rule]]\nname = \"a\"\nlimits = \"1000/s\"\n\
         store = {{ url = \"{}\", fallback = \"deny\", {LONG_DEADLINE} }}\n",
        redis.url()
    );
    let proxy = Proxy::with_rules("health", &rules);
    let ready = || get(proxy.admin, "/readyz", "");
    assert_eq!((ready().status, ready().body.as_str()), (200, "ready\n"));
    assert_eq!(reasons(&proxy, &redis), [0.0; 3]);

    // No request uses the store.
    redis.kill();
    let down = format!(" WARN store {} is down: the server cannot be reached (", redis.url());
    eventually("it is logged", || proxy.stderr().contains(&down));
    let answer = ready();
    assert_eq!(answer.status, 503);
    let expected =
        format!("not ready\nstore {} is down: the server cannot be reached (", redis.url());
    assert!(answer.body.starts_with(&expected), "{answer:?}");
    assert_eq!(reasons(&proxy, &redis), [0.0, 1.0, 0.0]);
    assert_eq!(get(proxy.admin, "/healthz", "").status, 200);

    redis.run();
    let up = format!(" INFO store {} is up again", redis.url());
    eventually("it is logged", || proxy.stderr().contains(&up));
    assert_eq!(ready().status, 200);
    assert_eq!(reasons(&proxy, &redis), [0.0; 3]);
    let stderr = proxy.stderr();
    assert_eq!(stderr.matches(" is down: ").count(), 1, "{stderr}");
    assert_eq!(stderr.matches(" is up again").count(), 1, "{stderr}");
}

#[test]
fn a_store_with_a_fallback_leaves_the_proxy_ready_but_degraded() {
    // No server listens at this address.
    let rules = "[[rule]]\nname = \"a\"\nlimits = \"1000/s\"\n\
                 store = { url = \"redis://user:secret@127.0.0.1:1\", fallback = \"admit\" }\n";
    let proxy = Proxy::with_rules("degraded", rules);
    eventually("it is noticed", || get(proxy.admin, "/readyz", "").body != "ready\n");
    let answer = get(proxy.admin, "/readyz", "");
    assert_eq!(answer.status, 200);
    assert!(answer.body.starts_with("degraded\nstore redis://127.0.0.1:1 is down: "), "{answer:?}");
    assert!(!(answer.body + &proxy.stderr()).contains("secret"));
    assert_eq!(get(proxy.listen, "/", "").status, 200);
}
