//! The usual limiter by one call, in two processes of one quota.

use std::time::Instant;

use tollgate_redis::{Origin, Quota, WithFallback};

use crate::harness::{PATIENCE, Server, block_on};

#[test]
fn two_that_are_opened_with_one_name_share_one_quota() {
    let Some(server) = Server::start() else { return };
    let url = format!("redis://127.0.0.1:{}", server.port());
    let open = |name| WithFallback::open(&url, name, Quota::per_day(20), 2).expect("in range");
    let gates = [open("api"), open("api")];
    block_on(async {
        let began = Instant::now();
        let (mut admitted, mut over, mut fell_back) = (0, [false; 2], false);
        while over != [true; 2] {
            assert!(began.elapsed() < PATIENCE, "the server never denied");
            for (gate, over) in gates.iter().zip(&mut over) {
                let answer = gate.check("alice").await;
                match answer.origin {
                    Origin::Server => {
                        admitted += u32::from(answer.decision.is_ok());
                        *over |= answer.decision.is_err();
                    }
                    // A call may take longer than 10 ms on a busy machine, and may have been charged.
                    _ => fell_back = true,
                }
            }
        }
        assert!(admitted == 20 || (fell_back && admitted < 20), "{admitted}");
        let other = open("other");
        while other.check("alice").await.origin != Origin::Server {
            assert!(began.elapsed() < PATIENCE, "the server never answered");
        }
        assert_eq!(other.stats().server, 1);
    });
}
