//! `match` by method, address, query and cookie, on the wire.

use crate::support::{Proxy, ask};

/// How many of three requests a rule with this match denies: it admits one.
fn denied(name: &str, matcher: &str, method: &str, target: &str, headers: &str) -> usize {
    let rules = format!(
        "rule = [{{ name = \"a\", match = {matcher}, key = \"none\", limits = \"1/day\" }}]"
    );
    let proxy = Proxy::with_rules(name, &rules);
    let statuses = [(); 3].map(|()| ask(proxy.listen, method, target, headers).status);
    assert!(statuses.iter().all(|status| [200, 429].contains(status)), "{matcher}: {statuses:?}");
    statuses.into_iter().filter(|status| *status == 429).count()
}

#[test]
fn the_parts_of_a_request_on_the_wire_are_matched() {
    for (index, (matcher, method, target, headers, denials)) in [
        ("{ method = \"GET\" }", "HEAD", "/", "", 2),
        ("{ query = { format = \"a b\" } }", "GET", "/?x&%66ormat=a+b", "", 2),
        ("{ query = { format = \"a b\" } }", "GET", "/?format=a%2520b", "", 0),
        ("{ cookie = { plan = \"free\" } }", "GET", "/", "cookie: a=1; plan=free\r\n", 2),
        ("{ cookie = { plan = false } }", "GET", "/", "cookie: a=1; plan=free\r\n", 0),
        ("{ ip = \"127.0.0.0/8\" }", "GET", "/", "", 2),
        ("{ not = { ip = \"127.0.0.0/8\" } }", "GET", "/", "", 0),
        ("{ not = { ip = \"127.0.0.0/8\", path = \"/health\" } }", "GET", "/a", "", 2),
    ]
    .into_iter()
    .enumerate()
    {
        let found = denied(&format!("match-{index}"), matcher, method, target, headers);
        assert_eq!(found, denials, "{matcher} {target} {headers}");
    }
}
