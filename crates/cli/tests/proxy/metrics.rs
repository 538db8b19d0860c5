//! The metrics page: the counters of rules, the format, and the documentation.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};

use crate::support::{Proxy, get, skipped};

const PROMTOOL: &str = "promtool";

fn page(proxy: &Proxy) -> String {
    get(proxy.admin, "/metrics", "").body
}

#[test]
fn metrics_of_a_rule_have_admissions_live_keys_and_evictions() {
    let rules = "[[rule]]\nname = \"small\"\nkey = \"header:k\"\ncapacity = 16\n\
                 limits = [\"5/day\", \"3/h\"]\n\
                 [[rule]]\nname = \"none\"\nmatch = { path = \"/none\" }\nlimits = \"1/s\"\n";
    let proxy = Proxy::with_rules("figures", rules);
    let count = |figure: &str, labels: &str| {
        let figure = proxy.metric(&format!("tollgate_rule_{figure}{{{labels}}}"));
        assert_eq!(figure.fract().to_bits(), 0_f64.to_bits());
        figure.to_string()
    };
    for key in 0..200 {
        let status = get(proxy.listen, "/", &format!("k: {key}\r\n")).status;
        assert_eq!(status, 200);
    }
    for expected in [200, 200, 429] {
        assert_eq!(get(proxy.listen, "/", "k: 199\r\n").status, expected);
    }
    assert_eq!(count("admissions_total", "rule=\"small\""), "202");
    assert_eq!(count("denials_total", "rule=\"small\""), "1");
    assert_eq!(count("admissions_total", "rule=\"none\""), "0");
    for limit in ["5/d", "3/h"] {
        let labels = format!("rule=\"small\",limit=\"{limit}\"");
        let [live, evicted, capacity] = ["live_keys", "evictions_total", "capacity_keys"]
            .map(|figure| count(figure, &labels).parse::<u64>().expect("whole"));
        assert_eq!(live + evicted, 200, "{labels}");
        assert!(live >= 16 && capacity >= 16 && evicted > 100, "{live} of {capacity}, {evicted}");
    }
}

#[test]
fn promtool_accepts_the_metrics_page() {
    // Names that need escapes, and a store that does not exist.
    let rules = "[[rule]]\nname = 'a \"b\" \\ ü'\nlimits = [\"5/s\", \"9/h\"]\n\
                 [[rule]]\nname = \"c\"\nlimits = \"5/s\"\nstore = \"redis://127.0.0.1:1\"\n";
    let proxy = Proxy::with_rules("promtool", rules);
    for _ in 0..8 {
        get(proxy.listen, "/", "");
    }
    let mut child = match Command::new(PROMTOOL)
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
    {
        Ok(child) => child,
        Err(_) => {
            let advice = "there is no promtool: apt-get install prometheus";
            let required = ["CI", "TOLLGATE_REQUIRE_PROMTOOL"];
            assert!(required.iter().all(|name| std::env::var_os(name).is_none()), "{advice}");
            return skipped(advice);
        }
    };
    let page = page(&proxy);
    child.stdin.take().expect("piped").write_all(page.as_bytes()).expect("written");
    let output = child.wait_with_output().expect("it ends");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success() && said.trim().is_empty(), "{said}\n{page}");
}

#[test]
fn every_metric_is_documented_once() {
    let proxy = Proxy::start("documented", &[]);
    let page = page(&proxy);
    let families = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    let families: BTreeSet<&str> = families.collect();
    let document = include_str!("../../../../docs/metrics.md");
    let rows = document.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let rows: Vec<&str> = rows.collect();
    let names: BTreeSet<&str> = rows.iter().copied().collect();
    assert_eq!(rows.len(), names.len(), "a name is there twice");
    // All other documented metrics belong to tollgate-observe.
    let observed = include_str!("../../../observe/README.md");
    let observed: BTreeSet<&str> =
        names.iter().copied().filter(|name| observed.contains(&format!("`{name}`"))).collect();
    assert!(observed.len() >= 9 && observed.is_disjoint(&families), "{observed:?}");
    let expected: BTreeSet<&str> = families.union(&observed).copied().collect();
    assert_eq!(names, expected);
}
