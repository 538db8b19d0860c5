//! A server that is slow, silent or gone: when decisions come, what they are, and how clients
//! recover.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::pin::pin;
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tollgate::Quota;
use tollgate_redis::{
    Answer, Fallback, Health, Origin, RedisLimiter, Store, StoreBuilder, Unavailable, WithFallback,
};

use crate::harness::{Server, block_on, free_port, with_long_deadline};
use crate::proxy::Proxy;

/// A call that a busy machine holds up for so long is lost, so this is far more than it takes.
const DEADLINE: Duration = Duration::from_secs(2);
/// A busy machine adds no more than this to a timer. Without a deadline, a request to a stopped server
/// would wait much longer.
const SLACK: Duration = Duration::from_secs(8);
/// Longer than the deadline.
const TOO_SLOW: Duration = Duration::from_secs(4);
const RECOVERY_MAX: Duration = Duration::from_secs(60);
/// Few, because each may take as long as the deadline.
const FAILURES: u32 = 3;

fn with_short_deadline(url: String) -> StoreBuilder {
    let store = Store::builder(url).deadline(DEADLINE).connect_timeout(DEADLINE);
    store.open_after(FAILURES).probe_every(Duration::from_millis(200))
}

/// Ten an hour, so what is granted is the burst.
fn ten(store: &Store) -> RedisLimiter {
    RedisLimiter::builder(store, "faults", Quota::per_hour(10)).build().expect("a limiter")
}

/// Asks until the server answers once, for [`RECOVERY_MAX`] at most. Returns what was admitted by then.
async fn recovered(gate: &WithFallback) -> u32 {
    let began = Instant::now();
    while began.elapsed() < RECOVERY_MAX {
        let Answer { decision, origin, .. } = gate.check("k").await;
        if origin == Origin::Server {
            return u32::from(decision.is_ok());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the server is back, but is not asked");
}

/// Asks several times, each by the deadline. Returns how many the server and the fallback admitted.
async fn admitted(gate: &WithFallback, attempts: u32) -> [u32; 2] {
    let mut admitted = [0; 2];
    for _ in 0..attempts {
        let asked = Instant::now();
        let Answer { decision, origin, .. } = gate.check("k").await;
        assert!(asked.elapsed() <= DEADLINE + SLACK, "{:?}", asked.elapsed());
        admitted[usize::from(origin == Origin::Fallback)] += u32::from(decision.is_ok());
    }
    admitted
}

/// Granted: the burst of 10 by the server, and by the fallback what is left of a share of 5 that
/// was charged all along. Requests charged twice are at most the calls that timed out, which are
/// those that opened the circuit.
#[test]
fn decisions_continue_while_the_server_is_stopped() {
    let Some(server) = Server::start() else { return };
    let store = with_short_deadline(server.url()).build().expect("a store");
    let gate = ten(&store);
    let gate = WithFallback::new(gate.clone(), Fallback::local(&gate, 2, 100).expect("a share"));
    block_on(async {
        assert_eq!(admitted(&gate, 4).await, [4, 0]);
        server.signal("STOP");
        assert_eq!(admitted(&gate, 200).await, [0, 1], "of its share of 5, 4 are spent");
        let stopped = store.stats();
        assert_eq!(stopped.timed_out, u64::from(FAILURES));
        assert_eq!((stopped.circuit_opened, store.is_circuit_open()), (1, true));
        assert_eq!(stopped.skipped, 200 - u64::from(FAILURES));
        // A process that was never connected is not delayed either.
        let cold = WithFallback::new(
            ten(&with_short_deadline(server.url()).build().expect("a store")),
            Fallback::Deny,
        );
        assert_eq!(admitted(&cold, 20).await, [0, 0]);

        server.signal("CONT");
        let first = recovered(&gate).await;
        let [later, by_fallback] = admitted(&gate, 30).await;
        let by_server = 4 + first + later;
        assert!(by_server <= 10);
        let charged_late = store.stats().timed_out;
        assert!(u64::from(by_server) + charged_late >= 10, "{by_server} and {charged_late}");
        assert_eq!(by_fallback, 0);
        assert!(!store.is_circuit_open());
    });
}

/// Granted: nothing more, by a fallback that denies. The calls fail long before the deadline.
#[test]
fn decisions_continue_after_the_server_is_killed() {
    let Some(mut server) = Server::start() else { return };
    let store = with_short_deadline(server.url()).build().expect("a store");
    let gate = WithFallback::new(ten(&store), Fallback::Deny);
    block_on(async {
        assert_eq!(admitted(&gate, 4).await, [4, 0]);
        server.kill();
        assert_eq!(admitted(&gate, 500).await, [0, 0]);
        let killed = store.stats();
        assert_eq!(killed.calls - killed.answered, u64::from(FAILURES));
        assert!(killed.disconnected >= 1);
        assert_eq!(gate.stats().fallback_denied, 500);

        // The server has lost its data: a fresh burst.
        server.restart();
        let first = recovered(&gate).await;
        let [later, _] = admitted(&gate, 30).await;
        assert_eq!(first + later, 10);
    });
}

/// Granted: the burst of 10, however late the answers are. Calls whose answers come too late are
/// charged, and are at most the calls that timed out.
#[test]
fn a_slow_link_delays_no_decision() {
    let Some(server) = Server::start() else { return };
    let link = Proxy::to(server.port());
    let store = with_short_deadline(link.url()).build().expect("a store");
    let gate = WithFallback::new(ten(&store), Fallback::Admit);
    block_on(async {
        assert_eq!(admitted(&gate, 3).await, [3, 0]);
        link.delay(Duration::from_millis(5));
        assert_eq!(admitted(&gate, 2).await, [2, 0], "slow, but in time");
        link.delay(TOO_SLOW);
        let [by_server, by_fallback] = admitted(&gate, 100).await;
        assert_eq!((by_server, by_fallback), (0, 100));
        link.delay(Duration::ZERO);
        let first = recovered(&gate).await;
        let [later, _] = admitted(&gate, 30).await;
        let by_server = 5 + first + later;
        assert!(by_server <= 10);
        assert!(u64::from(by_server) + store.stats().timed_out >= 10);
    });
}

/// Granted: the burst of 10, on new connections after the old ones died without notice.
#[test]
fn a_dead_connection_is_replaced() {
    let Some(server) = Server::start() else { return };
    let link = Proxy::to(server.port());
    let store = with_short_deadline(link.url()).connections(2).build().expect("a store");
    let gate = WithFallback::new(ten(&store), Fallback::Deny);
    block_on(async {
        assert_eq!(admitted(&gate, 4).await, [4, 0]);
        assert_eq!(link.accepted(), 2);
        link.let_die();
        let first = recovered(&gate).await;
        let [later, _] = admitted(&gate, 30).await;
        // Requests that were sent into dead connections never arrived.
        assert_eq!(4 + first + later, 10);
        assert!(store.stats().connections_renewed >= 1);
    });
}

/// Granted: nothing. While the circuit is open there are probes, one at a time and ever less often,
/// and no calls. A server that comes back therefore receives one call of each process.
#[test]
fn an_open_circuit_probes_and_does_not_call() {
    let store =
        with_short_deadline(format!("redis://127.0.0.1:{}", free_port())).build().expect("a store");
    let gate = ten(&store);
    block_on(async {
        let began = Instant::now();
        let mut seen = Vec::new();
        let is_over = || began.elapsed() > Duration::from_secs(1) && store.stats().probes >= 2;
        while !is_over() {
            assert!(began.elapsed() < RECOVERY_MAX, "{:?}", store.stats());
            seen.push(gate.check("k").await.expect_err("there is no server"));
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let stats = store.stats();
        assert_eq!(stats.calls, u64::from(FAILURES));
        // The first after 50 to 100 ms, all others 100 to 200 ms apart.
        let max = u64::try_from(began.elapsed().as_millis()).expect("short") / 100 + 1;
        assert!((2..=max).contains(&stats.probes), "{} probes of at most {max}", stats.probes);
        assert_eq!(stats.skipped + stats.calls, seen.len() as u64);
        let open = seen.iter().filter(|error| **error == Unavailable::CircuitOpen).count();
        assert_eq!(open as u64, stats.skipped);
    });
}

/// Granted: nothing. A stopped server sees one probe at a time, also if a probe may take longer than ten of the
/// pauses between them.
#[test]
fn a_slow_probe_is_the_only_one() {
    let Some(server) = Server::start() else { return };
    let store = Store::builder(server.url()).connect_timeout(Duration::from_secs(20)).open_after(1);
    let store = store.deadline(Duration::from_millis(10)).probe_every(Duration::from_millis(100));
    let store = store.build().expect("a store");
    let gate = ten(&store);
    block_on(async {
        server.signal("STOP");
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(4) {
            gate.check("k").await.expect_err("it is stopped");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(store.stats().probes, 1);
    });
}

/// A store that is reached over a link, with this time for each step of a probe.
fn probed(link: &Proxy, connections: usize, span: Duration) -> Store {
    let store = Store::builder(link.url()).connections(connections).open_after(FAILURES);
    let store = store.deadline(span).connect_timeout(span).probe_every(Duration::from_millis(100));
    store.build().expect("a store")
}

/// Stops the server until the circuit has opened.
async fn stop_until_open(server: &Server, store: &Store, gate: &RedisLimiter) {
    server.signal("STOP");
    while !store.is_circuit_open() {
        gate.check("k").await.expect_err("it is stopped");
    }
    server.signal("CONT");
}

/// Granted: nothing. One slow round trip for each connection, one after the other, would take longer than a probe
/// may, and the circuit would never close.
#[test]
fn a_probe_of_many_connections_over_a_slow_link_closes_the_circuit() {
    let Some(server) = Server::start() else { return };
    let link = Proxy::to(server.port());
    let store = probed(&link, 64, Duration::from_millis(200));
    let gate = ten(&store);
    block_on(async {
        link.delay(Duration::from_millis(10));
        stop_until_open(&server, &store, &gate).await;
        let began = Instant::now();
        while gate.peek_n("k", 1).await.is_err() {
            assert!(began.elapsed() < RECOVERY_MAX, "{:?}", store.stats());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
}

/// Granted: as if nothing had been. The probe connects and asks twice, which takes longer than two timeouts.
#[test]
fn a_probe_of_two_connections_may_take_the_timeouts_of_both() {
    let Some(server) = Server::start() else { return };
    let link = Proxy::to(server.port());
    let store = probed(&link, 2, Duration::from_millis(400));
    let gate = ten(&store);
    block_on(async {
        stop_until_open(&server, &store, &gate).await;
        link.delay(Duration::from_millis(220));
        let began = Instant::now();
        while store.is_circuit_open() {
            assert!(began.elapsed() < RECOVERY_MAX, "{:?}", store.stats());
            let _ = gate.peek_n("k", 1).await;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
}

/// Granted: nothing. There is an error instead of a panic.
#[test]
fn a_call_outside_a_runtime_is_an_error() {
    let store =
        with_short_deadline(format!("redis://127.0.0.1:{}", free_port())).build().expect("a store");
    let gate = ten(&store);
    let asking = pin!(gate.check("k"));
    let answer = asking.poll(&mut Context::from_waker(Waker::noop()));
    let Poll::Ready(Err(Unavailable::Failed(text))) = answer else { panic!("{answer:?}") };
    assert!(text.contains("runtime"));
}

/// Granted: nothing by a server that requires a password. The error says so.
#[test]
fn a_wrong_password_is_named() {
    let Some(server) = Server::start_with(&["--requirepass", "right"]) else { return };
    let store = |password: &str| {
        let url = format!("redis://:{password}@127.0.0.1:{}", server.port());
        let store = with_long_deadline(Store::builder(url)).open_after(FAILURES);
        store.build().expect("a store")
    };
    let (right, wrong) = (store("right"), store("wrong"));
    assert!(!format!("{wrong:?}").contains("wrong"), "no password is shown");
    block_on(async {
        assert!(ten(&right).check("k").await.is_ok());
        let Err(Unavailable::Failed(text)) = ten(&wrong).check("k").await else { panic!("let in") };
        assert!(text.to_lowercase().contains("auth") || text.contains("WRONGPASS"), "{text}");
        for _ in 1..FAILURES {
            assert!(!wrong.is_circuit_open());
            assert!(ten(&wrong).check("k").await.is_err());
        }
        assert!(wrong.is_circuit_open(), "the password is not tried for each request");
    });
}

/// Granted: nothing. An error that concerns every call opens the circuit, so that not every request makes a
/// connection. The error says so, unless the server's close overtakes its answer.
#[test]
fn a_server_that_refuses_connections_opens_the_circuit() {
    let options = ["--requirepass", "right", "--databases", "1"];
    let Some(server) = Server::start_with(&options) else { return };
    let url = |user: &str, rest: &str| format!("redis://{user}127.0.0.1:{}{rest}", server.port());
    let cases = [
        ("NOAUTH the URL needs", url("", "")),
        ("WRONGPASS", url(":wrong@", "/?protocol=resp3")),
        ("DB index is out of range", url(":right@", "/7")),
    ];
    for (text, url) in cases {
        let store = with_long_deadline(Store::builder(url)).open_after(FAILURES);
        let store = store.build().expect("a store");
        block_on(async {
            for _ in 0..FAILURES {
                assert!(!store.is_circuit_open(), "{text}");
                let Err(why) = ten(&store).check("k").await else { panic!("let in: {text}") };
                let is_cut_off = text.starts_with("NOAUTH") && why == Unavailable::Disconnected;
                assert!(is_cut_off || why.to_string().contains(text), "{why}");
            }
            assert!(store.is_circuit_open(), "{text}");
        });
    }
}

/// Granted: nothing by a port that speaks another protocol, or by a server that lacks the one of the URL. Not every
/// request makes a connection.
#[test]
fn a_port_that_does_not_speak_redis_opens_the_circuit() {
    let cases = [
        ("HTTP/1.1 400 Bad Request\r\n\r\n", ""),
        ("-ERR unknown command `HELLO`, with args beginning with: `3`, \r\n", "/?protocol=resp3"),
    ];
    for (line, rest) in cases {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("redis://{}{rest}", listener.local_addr().expect("it is bound"));
        // It ends with the test's process.
        std::thread::spawn(move || {
            for mut peer in listener.incoming().flatten() {
                let _ = peer.read(&mut [0; 1_024]);
                let _ = peer.write_all(line.as_bytes());
            }
        });
        block_on(async {
            let store = with_long_deadline(Store::builder(url)).open_after(FAILURES);
            let store = store.build().expect("a store");
            for _ in 0..FAILURES {
                assert!(!store.is_circuit_open(), "{line}");
                ten(&store).check("k").await.expect_err("no server");
            }
            assert!(store.is_circuit_open(), "{line}");
            assert_ne!(store.health(), Health::Up);
        });
    }
}

/// Granted: nothing. Nobody listens first; then a server does that does not know the password. The health and the
/// callback name the reason of the last probe, each reason once.
#[test]
fn a_store_that_is_down_names_the_reason_of_its_last_probe() {
    let port = free_port();
    let (told, changes) = mpsc::channel();
    let store = with_long_deadline(Store::builder(format!("redis://:wrong@127.0.0.1:{port}")))
        .open_after(FAILURES)
        .probe_every(Duration::from_millis(100))
        .on_change(move |health| told.send(health.clone()).expect("the test waits for it"));
    let store = store.build().expect("a store");
    let asked_until = async |is_over: &dyn Fn() -> bool| {
        let began = Instant::now();
        while !is_over() {
            assert!(began.elapsed() < RECOVERY_MAX, "{:?}", store.health());
            store.ping().await.expect_err("it has no server that lets it in");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let names = |text: &str| store.health().to_string().contains(text);
    block_on(async {
        asked_until(&|| store.stats().probes >= 2).await;
        assert!(names("the server cannot be reached"), "{}", store.health());
        refuse_passwords(port);
        asked_until(&|| names("authentication failed")).await;
        let probes = store.stats().probes;
        asked_until(&|| store.stats().probes >= probes + 2).await;
    });
    drop(store);
    // A probe that is still in flight keeps the store, and so the sender.
    let changes: Vec<_> = changes.try_iter().map(|health| health.to_string()).collect();
    assert_eq!(changes.len(), 2, "{changes:?}");
    assert!(changes[1].contains("authentication failed"), "{changes:?}");
}

/// Answers everything on this port with the error that the password is wrong. It ends with the test's process.
fn refuse_passwords(port: u16) {
    let listener = TcpListener::bind(("127.0.0.1", port)).expect("the port is free");
    let refuse = |mut peer: TcpStream| {
        let mut bytes = [0; 1_024];
        while let Ok(length @ 1..) = peer.read(&mut bytes) {
            let commands = bytes[..length].iter().filter(|byte| **byte == b'*').count();
            let line = "-WRONGPASS invalid username-password pair\r\n";
            let _ = peer.write_all(line.repeat(commands).as_bytes());
        }
    };
    std::thread::spawn(move || {
        for peer in listener.incoming().flatten() {
            std::thread::spawn(move || refuse(peer));
        }
    });
}
