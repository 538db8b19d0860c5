//! A quota that restores nothing during the run: any client is admitted exactly the quota, and client,
//! proxy and upstream count the same.

use crate::loads::{self, Seen, WRK_CONNECTIONS};
use crate::nginx::Nginx;
use crate::support::{Proxy, eventually, scratch};

/// One cell is restored every 864 seconds.
const RULES: &str = r#"rule = [{ name = "all", limits = "100 per day" }]"#;
const QUOTA: u64 = 100;

/// A proxy in front of nginx or of its built-in upstream, with this quota.
pub(crate) fn proxy(name: &str, rules: &str, nginx: Option<&Nginx>) -> Proxy {
    let rules = scratch(&format!("{name}.toml"), rules);
    let url = nginx.map(|nginx| format!("http://{}", nginx.address));
    let upstream = url.as_deref().map_or(vec![], |url| vec!["--upstream", url]);
    Proxy::start(name, &[&["--rules", rules.to_str().expect("UTF-8")], &*upstream].concat())
}

/// The value of a counter.
pub(crate) fn count(proxy: &Proxy, name: &str) -> u64 {
    proxy.metric(name).to_string().parse().expect("whole")
}

/// Waits until the counts are final. A request that the proxy has not read yet is not in flight, and changes
/// them later.
pub(crate) fn wait_until_clients_have_gone(proxy: &Proxy) {
    eventually("all clients have gone", || count(proxy, "tollgate_connections_open") == 0);
}

/// Asserts the bound and the counts. The client may have missed up to `unseen` responses.
fn assert_exact(proxy: &Proxy, nginx: Option<&Nginx>, seen: Seen, unseen: u64) {
    assert_eq!(seen.admitted, QUOTA, "{seen:?}");
    wait_until_clients_have_gone(proxy);
    let counted = |name| count(proxy, name);
    assert_eq!(counted("tollgate_http_requests_total{code=\"200\"}"), QUOTA);
    assert_eq!(counted("tollgate_decisions_total{decision=\"admitted\"}"), QUOTA);
    assert_eq!(counted("tollgate_decisions_total{decision=\"no_rule\"}"), 0);
    let denied = counted("tollgate_decisions_total{decision=\"denied\"}");
    assert!((seen.denied..=seen.denied + unseen).contains(&denied), "{denied}, {seen:?}");
    assert_eq!(counted("tollgate_rule_denials_total{rule=\"all\"}"), denied);
    // Responses that the client did not wait for may not exist.
    let answered = counted("tollgate_http_requests_total{code=\"429\"}");
    assert!((seen.denied..=denied).contains(&answered), "{answered}, {seen:?}");
    if let Some(nginx) = nginx {
        let quota = usize::try_from(QUOTA).expect("small");
        assert_eq!(nginx.log(quota), vec!["HTTP/1.1 200"; quota]);
    }
}

/// Runs in front of the built-in upstream, and in front of nginx.
fn both(name: &str, unseen: u64, load: impl Fn(&str) -> Seen) {
    for nginx in [None, Some(Nginx::start(name))] {
        let proxy = proxy(&format!("exact-{name}"), RULES, nginx.as_ref());
        let seen = load(&format!("http://{}/", proxy.listen));
        assert_exact(&proxy, nginx.as_ref(), seen, unseen);
    }
}

pub(crate) fn curl_http1() {
    both("curl1", 0, |url| loads::curl_http1(url, 150));
}

pub(crate) fn curl_http2() {
    both("curl2", 0, |url| loads::curl_http2(url, 150));
}

/// Both versions share the quota.
pub(crate) fn curl_in_both_versions() {
    both("curl12", 0, |url| {
        let first = loads::curl_http1(url, 60);
        assert_eq!(first, Seen { admitted: 60, denied: 0 });
        let then = loads::curl_http2(url, 60);
        Seen { admitted: 60 + then.admitted, denied: then.denied }
    });
}

pub(crate) fn hey() {
    both("hey", 0, |url| loads::hey(url, 500, &[]));
}

pub(crate) fn wrk() {
    both("wrk", WRK_CONNECTIONS, |url| loads::wrk(url, 1));
}
