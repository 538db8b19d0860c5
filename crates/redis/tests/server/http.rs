//! A limit on the server as a gate of `tollgate-http`.

use http::Request;
use tollgate::Quota;
use tollgate_http::key::Header;
use tollgate_http::{Gate, GateDecision, Policy, Reason, Report, Verdict};
use tollgate_redis::http::RemoteLimit;
use tollgate_redis::{Fallback, RedisLimiter, WithFallback};

use crate::harness::{Server, block_on};

/// Granted: 5 of a key by two gates together. Each has a store of its own, as in two processes.
#[test]
fn two_gates_admit_the_quota_together() {
    let Some(mut server) = Server::start() else { return };
    let quota = Quota::per_day(5);
    let gate = || {
        let store = server.store().build().expect("a store");
        let redis_limiter =
            RedisLimiter::builder(&store, "posts", quota).build().expect("a limiter");
        let policy = Policy::new("posts", &quota).expect("a name");
        let header = Header::new("x-user").expect("a name");
        RemoteLimit::new(policy, WithFallback::new(redis_limiter, Fallback::Deny), header)
    };
    let gates = [gate(), gate()];
    let decide = |gate: &RemoteLimit<Header>, user: &str| -> (GateDecision, Report) {
        let request = Request::get("/").header("x-user", user).body(()).expect("a request");
        let Verdict::Pending(asking) = gate.decide(&request.into_parts().0, &mut Report::default())
        else {
            panic!("the server is to be asked");
        };
        block_on(asking)
    };
    for user in ["ada", "bob"] {
        let mut left = Vec::new();
        for turn in 0..8 {
            let (ruling, report) = decide(&gates[turn % 2], user);
            let reading = report.readings().next().expect("a reading");
            assert_eq!(ruling.is_err(), reading.denied);
            left.extend(ruling.is_ok().then_some(reading.remaining));
        }
        assert_eq!(left, [4, 3, 2, 1, 0], "{user}");
    }
    server.kill();
    let (ruling, _) = decide(&gates[0], "eve");
    assert_eq!(ruling.err(), Some(Reason::Unavailable));
    assert_eq!(gates[0].limiter().stats().fallback_denied, 1);
}
