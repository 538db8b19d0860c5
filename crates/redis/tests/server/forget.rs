//! Quotas when the server loses data, or holds foreign values.

use std::thread::sleep;
use std::time::{Duration, Instant};

use tollgate::Quota;
use tollgate_redis::{Algorithm, RedisLimiter, Store, Unavailable};

use crate::harness::{PATIENCE, Server, block_on, with_long_deadline};
use crate::proxy::Proxy;

const HOUR_MILLIS: i64 = 3_600_000;

/// No test lasts an hour, so what is granted is the burst.
fn hourly(limit: u64) -> Quota {
    Quota::per_hour(limit)
}

async fn granted(gate: &RedisLimiter, key: &str, attempts: u32) -> u32 {
    let mut granted = 0;
    for _ in 0..attempts {
        granted += u32::from(gate.check(key).await.expect("an answer").is_ok());
    }
    granted
}

/// Granted: one burst. A flush of scripts touches no state.
#[test]
fn a_script_that_was_flushed_is_sent_again() {
    let Some(server) = Server::start() else { return };
    let store = server.store().build().expect("a store");
    for algorithm in Algorithm::NAMES {
        let gate = RedisLimiter::builder(&store, *algorithm, hourly(10));
        let gate = gate.algorithm(algorithm.parse().expect("a name")).build().expect("a limiter");
        block_on(async {
            let before = store.stats().scripts_sent;
            let flush = || {
                let mut flush = redis::cmd("SCRIPT");
                let _: () = flush.arg("FLUSH").query(&mut server.admin()).expect("it");
            };
            flush();
            assert_eq!(granted(&gate, "k", 4).await, 4);
            flush();
            assert_eq!(granted(&gate, "k", 20).await, 6);
            assert_eq!(store.stats().scripts_sent - before, 2, "once at first, once again");
        });
    }
    assert_eq!(store.stats().failed, 0);
}

/// Granted: one fresh burst for each `FLUSHALL`.
#[test]
fn flushed_keys_begin_anew() {
    let Some(server) = Server::start() else { return };
    let store = server.store().build().expect("a store");
    let gate = RedisLimiter::builder(&store, "flush", hourly(10)).build().expect("a limiter");
    block_on(async {
        assert_eq!(granted(&gate, "k", 15).await, 10);
        for _ in 0..2 {
            let _: () = redis::cmd("FLUSHALL").query(&mut server.admin()).expect("it");
            assert_eq!(granted(&gate, "k", 15).await, 10);
        }
    });
}

/// Granted: one fresh burst for each restart of a server that keeps nothing.
#[test]
fn after_kill_and_restart_keys_begin_anew() {
    let Some(mut server) = Server::start() else { return };
    let store = server.store().build().expect("a store");
    let gate = RedisLimiter::builder(&store, "kill", hourly(10)).build().expect("a limiter");
    block_on(async {
        assert_eq!(granted(&gate, "k", 15).await, 10);
        server.kill();
        for _ in 0..10 {
            gate.check("k").await.expect_err("there is no server");
        }
        server.restart();
        let mut answered = 0;
        let mut admitted = 0;
        let began = Instant::now();
        while answered < 15 {
            assert!(began.elapsed() < PATIENCE, "the server is not asked");
            match gate.check("k").await {
                Ok(decision) => {
                    answered += 1;
                    admitted += u32::from(decision.is_ok());
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
        assert_eq!((answered, admitted), (15, 10));
        assert!(store.stats().scripts_sent >= 2, "the new server did not have the script");
    });
}

/// Granted: one burst for each key. A state without an expiry would stay for ever, so the next
/// request sets one, even if it is denied and would otherwise write nothing.
#[test]
fn a_key_without_an_end_is_given_one() {
    let Some(server) = Server::start() else { return };
    let mut admin = server.admin();
    let store = server.store().build().expect("a store");
    for algorithm in Algorithm::NAMES {
        let gate = RedisLimiter::builder(&store, *algorithm, hourly(3));
        let gate = gate.algorithm(algorithm.parse().expect("a name")).build().expect("a limiter");
        let place = gate.redis_key("k");
        let mut ends_in =
            || -> i64 { redis::cmd("PTTL").arg(&place).query(&mut admin).expect("a number") };
        block_on(async { while granted(&gate, "k", 1).await == 1 {} });
        assert!((1..=2 * HOUR_MILLIS + 100).contains(&ends_in()), "{algorithm}");
        let mut other = server.admin();
        let _: () = redis::cmd("PERSIST").arg(&place).query(&mut other).expect("it");
        assert_eq!(ends_in(), -1);
        let decision = block_on(gate.check_n("k", 3)).expect("an answer");
        assert!(decision.is_err(), "it is in debt");
        assert!((1..=2 * HOUR_MILLIS + 100).contains(&ends_in()), "{algorithm}: a denial repairs");
    }
}

/// Granted: nothing for a key that holds another type. The error names the problem.
#[test]
fn a_foreign_value_is_an_error() {
    let Some(server) = Server::start() else { return };
    let mut admin = server.admin();
    let store = server.store().build().expect("a store");
    for algorithm in Algorithm::NAMES {
        let gate = RedisLimiter::builder(&store, *algorithm, hourly(3));
        let gate = gate.algorithm(algorithm.parse().expect("a name")).build().expect("a limiter");
        let mut failed_with = |command: &str, values: &[&str]| {
            let place = gate.redis_key("k");
            let _: () = redis::cmd("DEL").arg(&place).query(&mut admin).expect("it");
            let _: redis::Value =
                redis::cmd(command).arg(&place).arg(values).query(&mut admin).expect("it");
            match block_on(gate.check("k")) {
                Err(Unavailable::Failed(text)) => text,
                other => panic!("{algorithm}, {command} {values:?}: {other:?}"),
            }
        };
        assert!(failed_with("RPUSH", &["a"]).contains("WRONGTYPE"));
        if *algorithm == "sliding-log" {
            assert!(failed_with("ZADD", &["1", "a"]).contains("ALIEN"));
            assert!(failed_with("ZADD", &["1.5", "1:1"]).contains("ALIEN"));
        } else {
            for value in [
                "",
                "x",
                "1",
                "-1 -1 -1",
                "99999999999999999999 1 1",
                "1 2 3 4 5 6",
                "1 2+0 3+0/0",
                "1 2+0 0+0/1",
                "1 2+0 3+0/1 ",
                "1 2+0 3+0/1 1+0",
                "1 2+0 3+0/1 99999999999999999999+0 1+0",
            ] {
                assert!(failed_with("SET", &[value]).contains("ALIEN"), "{algorithm}: {value}");
            }
        }
        assert_eq!(store.stats().circuit_opened, 0, "the server is well");
        block_on(async {
            gate.reset("k").await.expect("an answer");
            assert_eq!(granted(&gate, "k", 5).await, 3);
        });
    }
}

/// Granted: nothing while there is no memory. Earlier counts stay.
#[test]
fn without_memory_there_is_no_decision() {
    let Some(server) = Server::start_with(&["--maxmemory-policy", "noeviction"]) else { return };
    let mut admin = server.admin();
    let store = server.store().build().expect("a store");
    let gate = RedisLimiter::builder(&store, "memory", hourly(10)).build().expect("a limiter");
    let mut maxmemory = |bytes: u32| {
        let mut set = redis::cmd("CONFIG");
        let _: () = set.arg("SET").arg("maxmemory").arg(bytes).query(&mut admin).expect("it");
    };
    block_on(async {
        assert_eq!(granted(&gate, "k", 4).await, 4);
        maxmemory(1);
        let Err(Unavailable::Failed(text)) = gate.check("k").await else { panic!("no memory") };
        assert!(text.contains("OOM"), "{text}");
        maxmemory(0);
        assert_eq!(granted(&gate, "k", 20).await, 6);
    });
}

/// Granted: one fresh burst for each eviction of a key.
#[test]
fn an_evicted_key_begins_anew() {
    let options = ["--maxmemory-policy", "allkeys-lru", "--maxmemory-samples", "64"];
    let Some(server) = Server::start_with(&options) else { return };
    let mut admin = server.admin();
    let store = server.store().build().expect("a store");
    let gate = RedisLimiter::builder(&store, "lru", hourly(10)).build().expect("a limiter");
    block_on(async {
        assert_eq!(granted(&gate, "k", 12).await, 10);
        let info: String = redis::cmd("INFO").arg("memory").query(&mut admin).expect("it");
        let used = info.lines().find_map(|line| line.strip_prefix("used_memory:"));
        let used: u64 = used.expect("a figure").trim().parse().expect("a number");
        let mut set = redis::cmd("CONFIG");
        set.arg("SET").arg("maxmemory").arg(used + 2_000_000);
        let _: () = set.query(&mut admin).expect("it");
        let place = gate.redis_key("k");
        let mut evictions = 0;
        for filler in 0..200_000_u32 {
            let mut put = redis::cmd("SET");
            let _: () =
                put.arg(filler).arg([b'x'; 1_000].as_slice()).query(&mut admin).expect("it");
            let there: bool = redis::cmd("EXISTS").arg(&place).query(&mut admin).expect("it");
            if !there {
                evictions += 1;
                break;
            }
        }
        assert_eq!(evictions, 1, "the unused key is evicted");
        assert_eq!(granted(&gate, "k", 30).await, 10, "one burst for one eviction");
    });
}

/// Lets one server follow another, or none, and waits until it has what that one has.
fn follow(follower: &Server, leader: Option<&Server>) {
    let mut admin = follower.admin();
    let mut replicate = redis::cmd("REPLICAOF");
    match leader {
        Some(leader) => replicate.arg("127.0.0.1").arg(leader.port()),
        None => replicate.arg("NO").arg("ONE"),
    };
    let _: () = replicate.query(&mut admin).expect("it");
    let began = Instant::now();
    while leader.is_some() {
        let info: String = redis::cmd("INFO").arg("replication").query(&mut admin).expect("it");
        if info.contains("master_link_status:up") {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "it does not follow");
        sleep(Duration::from_millis(20));
    }
}

/// Granted: the burst, plus what was charged and had not reached the replica that takes over: at
/// most a fresh burst for each failover. A connection that still leads to the old server is
/// replaced after its first answer.
#[test]
fn a_failover_forgets_what_was_not_replicated() {
    let options = ["--repl-diskless-sync-delay", "0"];
    let Some(old) = Server::start_with(&options) else { return };
    let Some(new) = Server::start_with(&options) else { return };
    let address = Proxy::to(old.port());
    let store = with_long_deadline(Store::builder(address.url())).build().expect("a store");
    let gate = RedisLimiter::builder(&store, "failover", hourly(10)).build().expect("a limiter");
    follow(&new, Some(&old));
    block_on(async {
        assert_eq!(granted(&gate, "k", 4).await, 4);
        let place = gate.redis_key("k");
        let state = |server: &Server| -> Option<String> {
            redis::cmd("GET").arg(&place).query(&mut server.admin()).expect("it")
        };
        let began = Instant::now();
        while state(&new) != state(&old) {
            assert!(began.elapsed() < Duration::from_secs(10), "it is not replicated");
            sleep(Duration::from_millis(5));
        }
        // Cut off, then charged for 3 more, then promoted.
        follow(&new, None);
        let lost = granted(&gate, "k", 3).await;
        assert_eq!(lost, 3);
        follow(&old, Some(&new));
        address.lead_to(new.port());
        let Err(Unavailable::Failed(text)) = gate.check("k").await else { panic!("not writable") };
        assert!(text.contains("read only replica"), "{text}");
        assert_eq!(granted(&gate, "k", 20).await, 6, "of 10, the new server knows of 4");
        assert_eq!(store.stats().scripts_sent, 2, "the new server did not have it");
    });
}

/// Granted: nothing while the address leads to a replica. Its connections are kept, apart from a look
/// every 100 ms whether the address leads to another server.
#[test]
fn an_address_that_leads_to_a_replica_keeps_its_connections() {
    let Some(server) = Server::start() else { return };
    let store = server.store().build().expect("a store");
    let gate = RedisLimiter::builder(&store, "replica", hourly(10)).build().expect("a limiter");
    let mut admin = server.admin();
    let mut replicate = |host: &str, port: &str| {
        let _: () = redis::cmd("REPLICAOF").arg(host).arg(port).query(&mut admin).expect("it");
    };
    // Nothing listens at this port, so it stays a replica without a leader.
    replicate("127.0.0.1", "1");
    block_on(async {
        let began = Instant::now();
        for _ in 0..500 {
            let Err(Unavailable::Failed(text)) = gate.check("k").await else { panic!("writable") };
            assert!(text.contains("read only replica"), "{text}");
        }
        let max = u64::try_from(began.elapsed().as_millis()).expect("short") / 100 + 1;
        let renewed = store.stats().connections_renewed;
        assert!((1..=max).contains(&renewed), "{renewed} times of at most {max}");
        replicate("NO", "ONE");
        assert_eq!(granted(&gate, "k", 20).await, 10);
    });
}
