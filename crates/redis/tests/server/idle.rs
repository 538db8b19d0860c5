//! Connections that end between two requests: each request still gets a decision of the server.

use std::time::{Duration, Instant};

use tollgate::Quota;
use tollgate_redis::{
    Answer, Fallback, Leased, Origin, RedisLimiter, Store, Unavailable, WithFallback,
};

use crate::harness::{PATIENCE, Server, block_on, with_long_deadline};
use crate::proxy::Proxy;

/// More than the failures in a row that open the circuit.
const ROUNDS: u32 = 7;

fn per_day(store: &Store, cells: u64) -> RedisLimiter {
    RedisLimiter::builder(store, "idle", Quota::per_day(cells)).build().expect("a limiter")
}

/// Asks `rounds` times and lets something happen before each request but the first. All decisions
/// must be the server's, although the fallback would admit everything. Returns how many the server
/// admitted.
fn admitted_by_server(store: &Store, cells: u64, rounds: u32, mut happen: impl FnMut()) -> u32 {
    let gate = WithFallback::new(per_day(store, cells), Fallback::Admit);
    let mut admitted = 0;
    for round in 0..rounds {
        if round > 0 {
            happen();
        }
        let Answer { decision, origin, .. } = block_on(gate.check("k"));
        assert_eq!(origin, Origin::Server, "round {round}: {:?}", store.stats());
        admitted += u32::from(decision.is_ok());
    }
    let stats = store.stats();
    assert_eq!((stats.disconnected, stats.timed_out, stats.failed), (0, 0, 0), "{stats:?}");
    assert_eq!((stats.circuit_opened, store.is_circuit_open()), (0, false));
    admitted
}

/// Granted: 2 of "2 per day". The server closes connections that are idle for a second.
#[test]
fn the_server_closes_idle_connections_and_still_decides() {
    let Some(server) = Server::start() else { return };
    let mut timeout = redis::cmd("CONFIG");
    let _: () = timeout.arg("SET").arg("timeout").arg(1).query(&mut server.admin()).expect("set");
    let store = server.store().build().expect("a store");
    assert_eq!(admitted_by_server(&store, 2, 3, || server.has_closed_all_others()), 2);
}

/// Granted: 2 of "2 per day".
#[test]
fn clients_are_killed_and_the_server_still_decides() {
    let Some(server) = Server::start() else { return };
    let store = server.store().build().expect("a store");
    assert_eq!(admitted_by_server(&store, 2, ROUNDS, || server.kill_clients()), 2);
}

/// Granted: 2 of "2 per day". The connection is a Unix domain socket.
#[test]
#[cfg(unix)]
fn clients_of_a_unix_socket_are_killed_and_the_server_still_decides() {
    let path = std::env::temp_dir().join(format!("tollgate-idle-{}.sock", std::process::id()));
    let path = path.to_str().expect("UTF-8");
    let Some(server) = Server::start_with(&["--unixsocket", path]) else { return };
    let store = with_long_deadline(Store::builder(format!("redis+unix://{path}")))
        .build()
        .expect("a store");
    assert_eq!(admitted_by_server(&store, 2, ROUNDS, || server.kill_clients()), 2);
}

/// Granted: one fresh burst after each restart, since the server keeps nothing.
#[test]
fn the_server_restarts_and_decides() {
    let Some(mut server) = Server::start() else { return };
    let store = server.store().build().expect("a store");
    assert_eq!(admitted_by_server(&store, 1, ROUNDS, || server.restart()), ROUNDS);
}

/// Granted: 2 of "2 per day". A load balancer closes idle connections.
#[test]
fn a_balancer_closes_idle_connections_and_the_server_still_decides() {
    let Some(server) = Server::start() else { return };
    let link = Proxy::to(server.port());
    let store =
        with_long_deadline(Store::builder(link.url())).connections(2).build().expect("a store");
    assert_eq!(admitted_by_server(&store, 2, ROUNDS, || link.close()), 2);
}

/// Granted: as many as were asked for, each charged once. All requests find the connection closed.
#[test]
fn many_requests_at_once_on_a_closed_connection_are_each_charged_once() {
    const AT_ONCE: u64 = 50;
    let Some(server) = Server::start() else { return };
    let link = Proxy::to(server.port());
    let store = with_long_deadline(Store::builder(link.url())).build().expect("a store");
    let gate = per_day(&store, 1_000);
    for round in 1..=u64::from(ROUNDS) {
        let tasks: Vec<_> = block_on(async {
            (0..AT_ONCE)
                .map(|_| {
                    tokio::spawn({
                        let gate = gate.clone();
                        async move { gate.check("k").await }
                    })
                })
                .collect()
        });
        for task in tasks {
            let decision = block_on(task).expect("no panic").expect("an answer");
            assert!(decision.is_ok());
        }
        let left = block_on(gate.peek_n("k", 0)).expect("an answer").expect("room for none");
        assert_eq!(left.remaining(), 1_000 - round * AT_ONCE);
        link.close();
    }
}

/// Granted: 30 of 30. No lease is lost with a connection that was closed before the call.
#[test]
fn a_leasing_process_gets_all_that_is_due_over_closed_connections() {
    let Some(server) = Server::start() else { return };
    let link = Proxy::to(server.port());
    let store = with_long_deadline(Store::builder(link.url())).build().expect("a store");
    let redis_limiter = RedisLimiter::builder(&store, "leased", Quota::per_day(30));
    let redis_limiter = redis_limiter.leases(Duration::from_secs(60)).build().expect("a limiter");
    let gate = Leased::builder(redis_limiter).max_lease(1).build().expect("a limiter");
    let mut granted = 0;
    for _ in 0..40 {
        let answer = block_on(gate.check(b"k")).expect("an answer");
        granted += u32::from(answer.decision.is_ok());
        link.close();
    }
    // The burst is lowered by what comes back in a lease's lifetime: less than a cell, rounded up.
    assert!((29..=30).contains(&granted), "{granted} of 30");
    assert_eq!(store.stats().disconnected, 0);
}

/// Granted: one cell, charged once. The request arrives, and its connection breaks before the
/// answer. The request is not sent again.
#[test]
fn a_request_that_may_have_been_executed_is_not_sent_again() {
    let Some(server) = Server::start() else { return };
    let link = Proxy::to(server.port());
    let store = with_long_deadline(Store::builder(link.url())).build().expect("a store");
    let gate = per_day(&store, 10);
    // Makes the connection.
    let _ = block_on(gate.peek_n("k", 0)).expect("an answer").expect("room for none");
    link.swallow_answers();
    let asker = gate.clone();
    let asking = block_on(async { [tokio::spawn(async move { asker.check("k").await })] });
    let [asking] = asking;
    let charged = || {
        let exists: u32 =
            redis::cmd("EXISTS").arg(gate.redis_key("k")).query(&mut server.admin()).expect("it");
        exists == 1
    };
    let began = Instant::now();
    while !charged() {
        assert!(began.elapsed() < PATIENCE, "it does not arrive");
        block_on(async { tokio::time::sleep(Duration::from_millis(1)).await });
    }
    link.close();
    let answer = block_on(asking).expect("no panic");
    assert_eq!(answer.expect_err("it is not answered"), Unavailable::Disconnected);
    let left = block_on(gate.peek_n("k", 0)).expect("an answer").expect("room for none");
    assert_eq!(left.remaining(), 9);
}

/// Granted: 2 of "2 per day". A NAT forgets the connection without notice.
#[test]
fn a_connection_that_died_in_silence_while_idle_is_replaced() {
    const IDLE: Duration = Duration::from_millis(10);
    let Some(server) = Server::start() else { return };
    let link = Proxy::to(server.port());
    let store = with_long_deadline(Store::builder(link.url())).check_idle_after(IDLE);
    let store = store.build().expect("a store");
    let forget = || {
        link.let_die();
        std::thread::sleep(2 * IDLE);
    };
    assert_eq!(admitted_by_server(&store, 2, ROUNDS, forget), 2);
    assert_eq!(store.stats().connections_renewed, u64::from(ROUNDS) - 1);
}

/// Granted: all, by the server. A link whose round trip is less than half of the deadline is good, also for a
/// process that asks so seldom that each request checks its connection.
#[test]
fn seldom_requests_over_a_slow_link_are_answered_in_time() {
    const IDLE: Duration = Duration::from_millis(10);
    let Some(server) = Server::start() else { return };
    let link = Proxy::to(server.port());
    // A busy machine has 600 ms for both round trips.
    let store = Store::builder(link.url()).deadline(Duration::from_secs(3));
    let store = store.connect_timeout(Duration::from_secs(3)).check_idle_after(IDLE);
    let store = store.build().expect("a store");
    let gate = per_day(&store, 100);
    block_on(async {
        assert!(gate.check("k").await.expect("an answer").is_ok());
        link.delay(Duration::from_millis(1_200));
        for _ in 0..2 {
            tokio::time::sleep(IDLE).await;
            assert!(gate.check("k").await.expect("an answer").is_ok());
        }
    });
    assert_eq!((store.stats().connections_renewed, link.accepted()), (0, 1));
}

/// Granted: nothing more. The connection dies without notice between two requests in quick
/// succession. One request ends at the deadline, the next one is decided, and the circuit stays
/// closed.
#[test]
fn a_connection_that_did_not_answer_is_checked_before_it_is_used_again() {
    let Some(server) = Server::start() else { return };
    let link = Proxy::to(server.port());
    // One request of each round takes as long as the deadline, which a busy machine has to meet.
    let store = Store::builder(link.url()).deadline(Duration::from_secs(4));
    let store = store.connect_timeout(Duration::from_secs(4));
    let store = store.check_idle_after(Duration::from_secs(60)).build().expect("a store");
    let gate = per_day(&store, 10);
    for round in 1..=2 {
        assert!(block_on(gate.check("k")).expect("an answer").is_ok());
        link.let_die();
        assert_eq!(block_on(gate.check("k")).expect_err("no answer"), Unavailable::TimedOut);
        let decision = block_on(gate.check("k")).expect("an answer");
        assert_eq!(decision.expect("granted").remaining(), 10 - 2 * round);
    }
    assert_eq!(store.stats().circuit_opened, 0);
}

/// Granted: what is due. The connection dies without notice, and each caller gives up before a check of
/// the connection ends. The checks end all the same, so a new connection is made.
#[test]
fn a_dead_connection_is_replaced_although_every_caller_gives_up() {
    const IDLE: Duration = Duration::from_millis(10);
    let Some(server) = Server::start() else { return };
    let link = Proxy::to(server.port());
    // A check takes a second at most.
    let store = Store::builder(link.url()).deadline(Duration::from_secs(2));
    let store = store.connect_timeout(Duration::from_secs(2)).check_idle_after(IDLE);
    let store = store.build().expect("a store");
    let gate = per_day(&store, 10);
    block_on(async {
        assert!(gate.check("k").await.expect("an answer").is_ok());
        link.let_die();
        let began = Instant::now();
        loop {
            tokio::time::sleep(IDLE).await;
            let asking = tokio::time::timeout(Duration::from_millis(200), gate.peek_n("k", 1));
            if let Ok(Ok(decision)) = asking.await {
                break assert_eq!(decision.expect("room").remaining(), 8);
            }
            assert!(began.elapsed() < PATIENCE, "{:?}", store.stats());
        }
    });
    assert!(store.stats().connections_renewed >= 1, "{:?}", store.stats());
}
