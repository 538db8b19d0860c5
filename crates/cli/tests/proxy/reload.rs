//! Reloads of the rules file.

use crate::support::{Proxy, eventually, get, scratch};

const FAILURES: &str = "tollgate_rules_reload_failures_total";
const SUCCESSFUL: &str = "tollgate_rules_last_reload_successful";

#[test]
fn a_changed_file_is_reloaded_and_unchanged_rules_keep_their_state() {
    let rules = |quota: &str| {
        format!(
            "[[rule]]\nname = \"kept\"\nmatch = {{ path = \"/kept\" }}\nlimits = \"2/day\"\n\
             [[rule]]\nname = \"changed\"\nmatch = {{ path = \"/changed\" }}\nlimits = \"{quota}\"\n"
        )
    };
    let proxy = Proxy::with_rules("reload", &rules("1/day"));
    let status = |path| get(proxy.listen, path, "").status;
    assert_eq!(["/kept", "/changed", "/changed"].map(status), [200, 200, 429]);

    // The proxy polls the file within about a second. One of 3 cells a day is used.
    scratch("reload.toml", &rules("3/day"));
    eventually("it is polled", || proxy.stderr().contains("rules reloaded: 1 limit kept, 1 with"));
    assert_eq!(["/changed"; 3].map(status), [200, 200, 429]);
    assert_eq!(["/kept"; 2].map(status), [200, 429]);

    // A wrong file changes nothing and is logged.
    scratch("reload.toml", &rules("3/fortnight"));
    eventually("it fails", || proxy.metric(SUCCESSFUL) == 0.0);
    assert_eq!(proxy.metric(FAILURES).to_bits(), 1_f64.to_bits());
    let said = "the rules in force stay unchanged";
    eventually("it is logged", || proxy.stderr().contains(said));
    let stderr = proxy.stderr();
    assert!(stderr.contains("reload.toml:8:13"), "{stderr}");
    assert_eq!(["/kept", "/changed"].map(status), [429, 429]);
    assert_eq!(
        proxy.metric("tollgate_rule_denials_total{rule=\"kept\"}").to_bits(),
        2_f64.to_bits()
    );

    // SIGHUP reloads immediately. A rule with a new name is a new rule.
    scratch("reload.toml", &rules("3/day").replace("\"kept\"", "\"new\""));
    proxy.signal("HUP");
    eventually("it is right again", || proxy.metric(SUCCESSFUL) == 1.0);
    assert_eq!(["/kept", "/changed"].map(status), [200, 429]);
    assert!(proxy.metric("tollgate_rules_reloads_total") >= 2.0);
    assert_eq!(
        proxy.metric("tollgate_rule_denials_total{rule=\"new\"}").to_bits(),
        0_f64.to_bits()
    );
}

#[test]
fn a_reload_that_resets_a_limit_is_logged() {
    let rules = |key: &str, quota: &str| {
        format!("[[rule]]\nname = \"a\"\nkey = \"{key}\"\nlimits = \"{quota}\"\n")
    };
    let proxy = Proxy::with_rules("afresh", &rules("ip", "9/day"));
    scratch("afresh.toml", &rules("ip", "8/day"));
    eventually("it is reloaded", || proxy.stderr().contains("0 limits kept, 1 with"));
    assert!(!proxy.stderr().contains("start afresh"), "{}", proxy.stderr());
    scratch("afresh.toml", &rules("host", "8/day"));
    let said = "WARN rule \"a\": all limits and bans start afresh, since \"key\" changed";
    eventually("it is logged", || proxy.stderr().contains(said));
}

#[test]
fn a_file_whose_limits_in_a_store_cannot_be_built_is_tried_again_and_logged_once() {
    let good = "[[rule]]\nname = \"a\"\nlimits = \"1/s\"\n";
    let proxy = Proxy::with_rules("unbuilt", good);
    let unbuilt = "limits = \"1/day\"\nstore = { url = \"redis://127.0.0.1:1\", nodes = 900 }\n";
    scratch("unbuilt.toml", &format!("[[rule]]\nname = \"a\"\n{unbuilt}"));
    eventually("it is tried again", || proxy.metric(FAILURES) >= 3.0);
    let stderr = proxy.stderr();
    assert_eq!(stderr.matches("the rules in force stay unchanged").count(), 1, "{stderr}");
    assert!(stderr.contains("the part of one of 900 nodes"), "{stderr}");
    scratch("unbuilt.toml", good);
    eventually("it is right again", || proxy.metric(SUCCESSFUL) == 1.0);
}

#[test]
fn sighup_does_not_end_a_proxy_without_a_file() {
    let proxy = Proxy::start("hangup", &[]);
    proxy.signal("HUP");
    assert_eq!(get(proxy.listen, "/", "").status, 200);
}
