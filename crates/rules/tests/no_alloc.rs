//! A decision allocates nothing: counted by the allocator itself.
//!
//! The test has a file of its own, because the allocator belongs to the process. It counts for each
//! thread.

#[path = "../../http/tests/allocations/mod.rs"]
mod allocations;

use tollgate_rules::{Request, Rules, RulesFile, RulesLimiter};

use allocations::allocations;

/// Rules that match by each part of a request.
const MATCHES: &str = r#"rule = [
    { name = "health", match = { path = "/health" }, action = "exempt" },
    { name = "admin", match = { path = "/admin/**" }, action = "deny" },
    { name = "a", limits = "9/h", match = { method = "GET", ip = ["192.0.2.0/24", "::/0"],
        query = { a = "x y", c = false }, cookie = { session = "1" },
        not = [{ path = "/b/c" }, { path = "/d", ip = "192.0.2.7" }, { query = { b = "3" } }] } },
]"#;

#[test]
fn decisions_allocate_nothing() {
    assert_eq!(allocations(|| drop(std::hint::black_box(vec![1_u8]))), 1, "the count counts");
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../rules/example.toml");
    let live = RulesFile::open(example).expect("it parses").live();
    let headers = [("x-user", "ada"), ("cookie", "session=1"), ("x-plan", "paid")];
    let request = |method, path| Request {
        method,
        path,
        headers: &headers,
        peer: Some([192, 0, 2, 7].into()),
        ..Request::default()
    };
    // The first load on a thread may allocate room for its guards.
    drop(live.load());
    let counted = allocations(|| {
        for (method, path) in
            [("GET", "/"), ("POST", "/login"), ("PUT", "/api/posts/7"), ("POST", "/api/accounts")]
        {
            let mut denied = 0;
            for _ in 0..200 {
                let rules = live.load();
                let decision = rules.decide(&request(method, path));
                denied += usize::from(!decision.is_admitted());
            }
            assert!(denied > 50, "{path}: both answers are given");
        }
    });
    assert_eq!(counted, 0);
    let rules = Rules::parse("r.toml", MATCHES).expect("rules");
    let gate = RulesLimiter::new(rules).expect("memory");
    let counted = allocations(|| {
        for _ in 0..200 {
            let _ = gate.decide(&request("HEAD", "/a/../b?%61=x+y&b=2"));
            assert!(gate.decide(&request("GET", "/health")).exempted_by().is_some());
            assert!(!gate.decide(&request("GET", "/admin")).is_admitted());
        }
    });
    assert!(!gate.decide(&request("HEAD", "/a/../b?%61=x+y&b=2")).is_admitted());
    assert_eq!(counted, 0);
    let long = "x".repeat(300);
    let headers = [("x-user", &*long)];
    let other = Some([192, 0, 2, 8].into());
    let long = Request { headers: &headers, peer: other, ..request("POST", "/api/posts") };
    // A key that is too long for the stack is allocated, and counted.
    let counted = allocations(|| assert!(live.load().decide(&long).is_admitted()));
    assert!((1..=3).contains(&counted), "{counted}");
}
