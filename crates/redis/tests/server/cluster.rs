//! A cluster of three nodes, with a slot that moves.

use std::thread::sleep;
use std::time::{Duration, Instant};

use redis::{Connection, Value};
use tollgate::Quota;
use tollgate_redis::{Algorithm, Batched, Charge, CounterStore, RedisLimiter, Store, Windows};

use crate::harness::{PATIENCE, Server, block_on, free_port, with_long_deadline};

const SLOTS: [(u16, u16); 3] = [(0, 5_460), (5_461, 10_922), (10_923, 16_383)];

struct Cluster {
    nodes: Vec<Server>,
}

fn ask(node: &mut Connection, words: &[&str]) -> Value {
    let mut cmd = redis::cmd(words[0]);
    cmd.arg(&words[1..]).query(node).unwrap_or_else(|error| panic!("{words:?}: {error}"))
}

fn text(value: &Value) -> String {
    redis::from_redis_value_ref(value).expect("a text")
}

impl Cluster {
    fn start() -> Option<Self> {
        let start = |(first, last): &(u16, u16)| {
            let bus = free_port();
            let options = ["--cluster-enabled", "yes", "--cluster-port", &bus.to_string()];
            let server = Server::start_with(&options)?;
            let (first, last) = (first.to_string(), last.to_string());
            ask(&mut server.admin(), &["CLUSTER", "ADDSLOTSRANGE", &first, &last]);
            Some((server, bus))
        };
        let nodes: Option<Vec<(Server, u16)>> = SLOTS.iter().map(start).collect();
        let nodes = nodes?;
        for (server, bus) in &nodes[1..] {
            let (port, bus) = (server.port().to_string(), bus.to_string());
            ask(&mut nodes[0].0.admin(), &["CLUSTER", "MEET", "127.0.0.1", &port, &bus]);
        }
        let cluster = Self { nodes: nodes.into_iter().map(|(server, _)| server).collect() };
        let began = Instant::now();
        while !cluster.is_whole() {
            assert!(began.elapsed() < Duration::from_secs(30), "the nodes do not meet");
            sleep(Duration::from_millis(50));
        }
        Some(cluster)
    }

    fn is_whole(&self) -> bool {
        self.nodes.iter().all(|node| {
            let info = text(&ask(&mut node.admin(), &["CLUSTER", "INFO"]));
            info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3")
        })
    }

    fn store(&self) -> Store {
        with_long_deadline(Store::cluster(self.nodes.iter().map(Server::url)))
            .build()
            .expect("a store")
    }

    fn id(&self, node: usize) -> String {
        text(&ask(&mut self.nodes[node].admin(), &["CLUSTER", "MYID"]))
    }

    fn slot(&self, key: &[u8]) -> u16 {
        let mut cmd = redis::cmd("CLUSTER");
        cmd.arg("KEYSLOT").arg(key).query(&mut self.nodes[0].admin()).expect("a slot")
    }
}

/// Granted: exactly the burst, before a slot moves, during the move and after it, by each
/// algorithm.
#[test]
fn a_slot_that_moves_takes_its_keys_along() {
    let Some(cluster) = Cluster::start() else { return };
    let store = cluster.store();
    for algorithm in Algorithm::NAMES {
        let gate = RedisLimiter::builder(&store, *algorithm, Quota::per_day(20));
        let gate = gate.algorithm(algorithm.parse().expect("a name")).build().expect("a limiter");
        let granted = |attempts: u32| {
            block_on(async {
                let mut granted = 0;
                for _ in 0..attempts {
                    let decision = gate.check("k").await;
                    granted += u32::from(decision.expect("an answer").is_ok());
                }
                granted
            })
        };
        assert_eq!(granted(5), 5, "{algorithm}");

        let place = gate.redis_key("k");
        let slot = cluster.slot(&place);
        let from = SLOTS.iter().position(|(_, last)| slot <= *last).expect("a node has it");
        let to = (from + 1) % SLOTS.len();
        let (mut source, mut target) = (cluster.nodes[from].admin(), cluster.nodes[to].admin());
        let number = slot.to_string();
        let setslot = ["CLUSTER", "SETSLOT", &number];
        ask(&mut target, &[&setslot[..], &["IMPORTING", &cluster.id(from)]].concat());
        ask(&mut source, &[&setslot[..], &["MIGRATING", &cluster.id(to)]].concat());
        assert_eq!(granted(5), 5, "{algorithm}: the slot moves, the key is still there");

        let mut migrate = redis::cmd("MIGRATE");
        migrate.arg("127.0.0.1").arg(cluster.nodes[to].port()).arg(&place).arg(0).arg(5_000);
        let moved: String = migrate.query(&mut source).expect("an answer");
        assert_eq!(moved, "OK");
        assert_eq!(granted(5), 5, "{algorithm}: the key has moved, the slot has not");

        let owner = ["NODE", &cluster.id(to)];
        ask(&mut target, &[&setslot[..], &owner[..]].concat());
        ask(&mut source, &[&setslot[..], &owner[..]].concat());
        assert_eq!(granted(20), 5, "{algorithm}: the slot has moved");
    }
}

/// Granted: exactly the burst of each key, whichever node has it. Some keys try to choose their
/// slot.
#[test]
fn keys_spread_over_the_nodes() {
    let Some(cluster) = Cluster::start() else { return };
    let store = cluster.store();
    let gate =
        RedisLimiter::builder(&store, "spread", Quota::per_day(2)).build().expect("a limiter");
    let keys = (0..60_u32).map(|key| [b"}{" as &[u8], &key.to_be_bytes()].concat());
    let mut per_node = [0; 3];
    block_on(async {
        for key in keys {
            let mut granted = 0;
            for _ in 0..3 {
                granted += u32::from(gate.check(&key).await.expect("an answer").is_ok());
            }
            assert_eq!(granted, 2);
            let slot = cluster.slot(&gate.redis_key(&key));
            let node = SLOTS.iter().position(|(_, last)| slot <= *last).expect("a node has it");
            per_node[node] += 1;
        }
    });
    assert!(per_node.iter().all(|keys| *keys > 5), "{per_node:?}");
    let there =
        |node: &Server| -> u32 { redis::cmd("DBSIZE").query(&mut node.admin()).expect("it") };
    assert_eq!(cluster.nodes.iter().map(there).collect::<Vec<_>>(), per_node);
}

/// Granted: 2 of "2 per day", although all nodes close all connections between two requests. The
/// circuit stays closed.
#[test]
fn nodes_close_their_connections_and_still_decide() {
    let Some(cluster) = Cluster::start() else { return };
    let store = cluster.store();
    let gate =
        RedisLimiter::builder(&store, "killed", Quota::per_day(2)).build().expect("a limiter");
    let mut granted = 0;
    for _ in 0..7 {
        granted += u32::from(block_on(gate.check("k")).expect("an answer").is_ok());
        cluster.nodes.iter().for_each(Server::kill_clients);
    }
    assert_eq!((granted, store.stats().circuit_opened), (2, 0));
}

/// Granted: exactly the burst of each key of the nodes that are left. Requests for other keys fail
/// by the deadline.
#[test]
fn a_node_that_is_gone_takes_only_its_keys() {
    const DEADLINE: Duration = Duration::from_secs(2);
    /// A busy machine adds no more than this to a timer.
    const SLACK: Duration = Duration::from_secs(8);
    let Some(mut cluster) = Cluster::start() else { return };
    let store = Store::cluster(cluster.nodes.iter().map(Server::url)).deadline(DEADLINE);
    let store = store.build().expect("a store");
    let gate = RedisLimiter::builder(&store, "gone", Quota::per_day(5)).build().expect("a limiter");
    let of_node = |cluster: &Cluster, node: usize| {
        let (first, last) = SLOTS[node];
        let mut keys = (0_u32..).map(|key| key.to_string());
        let on_it = |key: &String| (first..=last).contains(&cluster.slot(&gate.redis_key(key)));
        keys.find(on_it).expect("keys spread")
    };
    let [here, gone] = [0, 2].map(|node| of_node(&cluster, node));
    block_on(async {
        // Makes the connections.
        let began = Instant::now();
        while gate.peek_n(&here, 0).await.is_err() || gate.peek_n(&gone, 0).await.is_err() {
            assert!(began.elapsed() < PATIENCE, "the cluster does not answer");
        }
        cluster.nodes[2].kill();
        let mut granted = 0;
        for _ in 0..6 {
            for key in [&gone, &here] {
                let asked = Instant::now();
                let answer = gate.check(key).await;
                assert!(asked.elapsed() < DEADLINE + SLACK, "{:?}", asked.elapsed());
                if key == &here {
                    granted += u32::from(answer.expect("a node has it").is_ok());
                } else {
                    answer.expect_err("no node has it");
                }
            }
        }
        assert_eq!(granted, 5);
    });
}

/// A node that hangs fails no ping, unless it is the one that is asked.
#[test]
fn a_node_that_hangs_fails_no_ping_that_another_answers() {
    let Some(cluster) = Cluster::start() else { return };
    let store = cluster.store();
    let asked = cluster.slot(b"{tollgate:ping}");
    let other = SLOTS.iter().position(|(first, last)| !(*first..=*last).contains(&asked));
    block_on(async {
        // Makes the connections.
        let began = Instant::now();
        while store.ping().await.is_err() {
            assert!(began.elapsed() < PATIENCE, "the cluster does not answer");
        }
        cluster.nodes[other.expect("three nodes")].signal("STOP");
        for _ in 0..7 {
            store.ping().await.expect("another node answers");
        }
    });
    assert!(!store.is_circuit_open());
}

/// Granted: each cell of the keys of the nodes that are left is counted once, while a key between them
/// fails because its node is gone.
#[test]
fn a_batch_counts_the_keys_of_the_nodes_that_are_left() {
    let Some(mut cluster) = Cluster::start() else { return };
    let store = Store::cluster(cluster.nodes.iter().map(Server::url));
    let store = store.deadline(Duration::from_secs(2)).open_after(1_000).build().expect("a store");
    let hour = Duration::from_secs(3_600);
    let windows = Windows::first_hit(&store, "batch", hour).expect("a window");
    let keys = [0, 2, 1].map(|node| {
        let (first, last) = SLOTS[node];
        let place = |key: &u32| format!("{{tollgate:batch:counts3600000000+first:{key}}}");
        let on_it = |key: &u32| (first..=last).contains(&cluster.slot(place(key).as_bytes()));
        (0..).find(on_it).expect("keys spread").to_string()
    });
    let nothing = keys.clone().map(|key| Charge { key: key.into_bytes().into(), cells: 0 });
    block_on(async {
        // Makes the connections.
        let began = Instant::now();
        while windows.add(&nothing).await.iter().any(Result::is_err) {
            assert!(began.elapsed() < PATIENCE, "the cluster does not answer");
        }
        cluster.nodes[2].kill();
        let batched = Batched::builder(windows.clone(), 1_000).build().expect("a limiter");
        for key in &keys {
            assert!(batched.check(key.as_bytes()).await.is_ok());
        }
        while batched.stats().failed < 2 {
            assert!(began.elapsed() < PATIENCE, "{:?}", batched.stats());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let used = windows.add(&nothing).await.into_iter();
        let used: Vec<_> = used.map(|reply| reply.ok().map(|window| window.used)).collect();
        assert_eq!(used, [Some(1), None, Some(1)], "{:?}", batched.stats());
    });
}
