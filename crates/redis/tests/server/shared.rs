//! Shares on a real server: what the parts of all nodes sum to while nodes come, go and die.

use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::time::sleep;
use tollgate::Quota;
use tollgate_redis::{Membership, Origin, RedisMembership, Share, Store, Unavailable};

use crate::harness::{Server, block_on};
use crate::workers::runtime;

/// A node whose heartbeat is later than this has no part, so a busy machine must not take so long.
const INTERVAL: Duration = Duration::from_secs(1);
/// The delay that a busy machine may add to timers and calls.
const SLACK: Duration = Duration::from_secs(5);

fn quota() -> Quota {
    Quota::per_day(300)
}

/// One process: a store and connections of its own.
fn node(store: &Store) -> Share<RedisMembership> {
    let membership = RedisMembership::new(store, "shared").expect("a name");
    Share::builder(membership, quota()).interval(INTERVAL).build().expect("a node")
}

fn store(server: &Server) -> Store {
    server.store().deadline(INTERVAL).probe_every(INTERVAL).build().expect("a store")
}

/// The parts of the quota in use now, in sixtieths. `None` if the look took too long.
fn parts(nodes: &[&Share<RedisMembership>]) -> Option<u64> {
    let began = Instant::now();
    let sum = nodes.iter().filter_map(|node| node.stats().live).map(|live| 60 / live).sum();
    (began.elapsed() < Duration::from_millis(1)).then_some(sum)
}

/// Checks the nodes until the awaited state, for at most `max`. At no check is more than the whole
/// in use.
async fn until(
    nodes: &[&Share<RedisMembership>],
    max: Duration,
    awaited: impl Fn(&[Option<u64>]) -> bool,
) -> Duration {
    let began = Instant::now();
    loop {
        if let Some(parts) = parts(nodes) {
            assert!(parts <= 60, "{parts} sixtieths of the quota are in use");
        }
        let live: Vec<_> = nodes.iter().map(|node| node.stats().live).collect();
        if awaited(&live) {
            return began.elapsed();
        }
        assert!(began.elapsed() < max, "after {max:?}: {live:?}");
        sleep(Duration::from_millis(1)).await;
    }
}

fn all(live: u64) -> impl Fn(&[Option<u64>]) -> bool {
    move |nodes| nodes.iter().all(|node| *node == Some(live))
}

/// Granted to a key that no request has asked for before.
fn granted(nodes: &[&Share<RedisMembership>], key: &[u8]) -> Vec<u32> {
    let of = |node: &&Share<RedisMembership>| {
        (0..400).map(|_| u32::from(node.check(key).decision.is_ok())).sum::<u32>()
    };
    nodes.iter().map(of).collect()
}

/// Granted: the parts in use are the whole at most, at any moment. A newcomer has a part after two
/// intervals and two calls. The part of a node that left belongs to the others after two intervals.
#[test]
fn nodes_that_come_and_leave_never_use_more_than_the_whole() {
    let Some(server) = Server::start() else { return };
    let stores = [(); 3].map(|()| store(&server));
    runtime(2).block_on(async {
        let first = node(&stores[0]);
        assert_eq!(granted(&[&first], b"before"), [0], "no node has counted it yet");
        until(&[&first], 3 * INTERVAL + SLACK, all(1)).await;
        assert_eq!(granted(&[&first], b"alone"), [300]);
        let second = node(&stores[1]);
        let third = node(&stores[2]);
        until(&[&first, &second, &third], 4 * INTERVAL + SLACK, all(3)).await;
        assert_eq!(granted(&[&first, &second, &third], b"three"), [100, 100, 100]);
        drop(second);
        until(&[&first, &third], 2 * INTERVAL + SLACK, all(2)).await;
        assert_eq!(granted(&[&first, &third], b"two"), [150, 150]);
        let stats = first.stats();
        assert_eq!((stats.failed, stats.heartbeats > 5), (0, true));
    });
}

/// Granted: the whole at most, including what a node with a dead task still uses. Its part belongs
/// to the others after four intervals and a call.
#[test]
fn a_dead_nodes_part_comes_back_in_four_intervals() {
    let Some(server) = Server::start() else { return };
    let stores = [(); 3].map(|()| store(&server));
    let doomed: Runtime = runtime(1);
    runtime(2).block_on(async {
        let (first, second) = (node(&stores[0]), node(&stores[1]));
        let its = stores[2].clone();
        let dead = doomed.spawn(async move { node(&its) }).await.expect("a node");
        until(&[&first, &second, &dead], 5 * INTERVAL + SLACK, all(3)).await;
        // Its heartbeats end without notice. Its requests continue.
        doomed.shutdown_background();
        let nodes = [&first, &second, &dead];
        let back = |live: &[Option<u64>]| live[..2] == [Some(2), Some(2)];
        let took = until(&nodes, 4 * INTERVAL + SLACK, back).await;
        assert!(took >= INTERVAL, "the others knew too early: {took:?}");
        assert_eq!(dead.stats().live, None, "its part had expired before");
        assert_eq!(granted(&nodes, b"two"), [150, 150, 0]);
        assert_eq!(dead.check(b"k").origin, Origin::Fallback);
    });
}

/// Granted: the whole at most. When the server loses its data, parts remain for two intervals and
/// are back after four. A flush of scripts changes nothing.
#[test]
fn a_server_that_forgets_adds_no_part() {
    let Some(server) = Server::start() else { return };
    let stores = [(); 2].map(|()| store(&server));
    runtime(2).block_on(async {
        let nodes = stores.each_ref().map(node);
        let nodes = nodes.each_ref();
        until(&nodes, 4 * INTERVAL + SLACK, all(2)).await;
        let mut flush = redis::cmd("SCRIPT");
        let _: () = flush.arg("FLUSH").query(&mut server.admin()).expect("it");
        for _ in 0..10 {
            sleep(INTERVAL / 4).await;
            until(&nodes, Duration::ZERO, all(2)).await;
        }
        let _: () = redis::cmd("FLUSHALL").query(&mut server.admin()).expect("it");
        let began = Instant::now();
        until(&nodes, 3 * INTERVAL + SLACK, |live| live.contains(&None)).await;
        until(&nodes, 5 * INTERVAL + SLACK, all(2)).await;
        assert!(began.elapsed() >= INTERVAL, "{:?}", began.elapsed());
        assert_eq!(nodes.map(|node| node.stats().failed), [0, 0]);
        let sent: u64 = stores.iter().map(|store| store.stats().scripts_sent).sum();
        assert!(sent >= 2, "once at first, once again: {sent}");
    });
}

/// Granted: nothing after two intervals, by nodes whose heartbeats fail. No decision calls the
/// server.
#[test]
fn without_a_server_parts_expire() {
    let Some(server) = Server::start() else { return };
    let stores = [(); 2].map(|()| store(&server));
    runtime(2).block_on(async {
        let nodes = stores.each_ref().map(node);
        let nodes = nodes.each_ref();
        until(&nodes, 4 * INTERVAL + SLACK, all(2)).await;
        let calls = stores[0].stats().calls;
        assert_eq!(granted(&nodes, b"k"), [150, 150]);
        assert!(stores[0].stats().calls <= calls + 2, "only heartbeats are calls");
        server.signal("STOP");
        until(&nodes, 2 * INTERVAL + SLACK, |live| *live == [None, None]).await;
        assert_eq!(granted(&nodes, b"later"), [0, 0]);
        server.signal("CONT");
        until(&nodes, 6 * INTERVAL + 4 * SLACK, all(2)).await;
    });
}

/// Granted: nothing more. If a server's clock is set back by an hour, no node loses its part, no
/// dead node is counted for an hour more, and no new node waits that long.
#[test]
fn a_clock_that_is_set_back_makes_no_node_wait() {
    const SECOND: u64 = 1_000_000;
    let Some(server) = Server::start() else { return };
    let mut admin = server.admin();
    let script =
        concat!(include_str!("../../src/lua/now.lua"), include_str!("../../src/lua/heartbeat.lua"));
    let script = redis::Script::new(script);
    let mut heartbeat = |node: &str, at: u64| -> (u64, u64) {
        let mut call = script.key("{set back}:heard");
        let call = call.key("{set back}:came").arg(node).arg(3 * SECOND).arg(at * SECOND);
        let (live, member_for): (u64, u64) = call.invoke(&mut admin).expect("an answer");
        (live, member_for / SECOND)
    };
    assert_eq!(heartbeat("old", 10_000), (1, 0));
    assert_eq!(heartbeat("dead", 10_001), (2, 0));
    assert_eq!(heartbeat("new", 10_002), (3, 0));
    assert_eq!(heartbeat("old", 10_002), (3, 2));
    assert_eq!(heartbeat("old", 6_402), (3, 2), "as if the clock had stood still");
    assert_eq!(heartbeat("new", 6_404), (3, 2));
    assert_eq!(heartbeat("old", 6_404), (3, 4));
    assert_eq!(heartbeat("old", 6_405), (2, 5), "the dead one is counted no longer");
}

/// Granted: no part by a list that holds another type. The errors of heartbeats and of leaving say
/// so.
#[test]
fn a_foreign_value_is_an_error() {
    let Some(server) = Server::start() else { return };
    let mut admin = server.admin();
    let store = server.store().build().expect("a store");
    let membership = RedisMembership::new(&store, "alien").expect("a name");
    let second = Duration::from_secs(1);
    assert_eq!(block_on(membership.heartbeat("a", second)).expect("an answer").live, 1);
    assert_eq!(block_on(membership.heartbeat("b", second)).expect("an answer").live, 2);
    block_on(membership.leave("b")).expect("an answer");
    assert_eq!(block_on(membership.heartbeat("a", second)).expect("an answer").live, 1);
    for part in ["heard", "came"] {
        let place = format!("{{tollgate:alien:nodes}}:{part}");
        let ends_in: i64 = redis::cmd("PTTL").arg(&place).query(&mut admin).expect("a number");
        assert!((1..=1_001).contains(&ends_in), "{place} ends: {ends_in}");
        let _: () = redis::cmd("SET").arg(&place).arg("x").query(&mut admin).expect("it");
        let Err(Unavailable::Failed(text)) = block_on(membership.heartbeat("a", second)) else {
            panic!("a heartbeat")
        };
        assert!(text.contains("WRONGTYPE"), "{text}");
        let Err(Unavailable::Failed(text)) = block_on(membership.leave("a")) else {
            panic!("it left")
        };
        assert!(text.contains("WRONGTYPE"), "{text}");
        let _: () = redis::cmd("DEL").arg(&place).query(&mut admin).expect("it");
        block_on(membership.heartbeat("a", second)).expect("an answer");
    }
    assert_eq!(store.stats().circuit_opened, 0, "the server is well");
}
