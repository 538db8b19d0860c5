//! A server's user that has the documented rights and no others.

use std::time::{Duration, Instant};

use tollgate::Quota;
use tollgate_redis::{
    Algorithm, Batched, Leased, RedisLimiter, RedisMembership, Share, Store, Windows,
};

use crate::harness::{PATIENCE, Server, block_on, skipped, with_long_deadline};

/// The text of the documents.
const RIGHTS: &str = include_str!("../../../../docs/distributed.md");

/// The rules that the document names, for the prefix "tollgate".
fn rules() -> Vec<&'static str> {
    let line = RIGHTS.lines().find_map(|line| line.strip_prefix("ACL SETUSER limits on >secret "));
    line.expect("the document has it").split_whitespace().collect()
}

#[test]
fn each_command_of_a_script_is_documented() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/lua");
    for file in std::fs::read_dir(folder).expect("the scripts") {
        let script = std::fs::read_to_string(file.expect("a file").path()).expect("text");
        for call in script.split("call('").skip(1) {
            let (command, _) = call.split_once('\'').expect("a name");
            let right = format!("+{}", command.to_lowercase());
            assert!(rules().contains(&right.as_str()), "{right}");
        }
    }
}

/// Granted: the quota, by every strategy, to a user that may do no more than the document says, by both versions
/// of the protocol, and in a database of another number than 0.
#[test]
fn the_documented_rights_are_enough() {
    let Some(server) = Server::start() else { return };
    let mut set = redis::cmd("ACL");
    set.arg("SETUSER").arg("limits").arg("on").arg(">secret").arg(rules());
    if set.query::<()>(&mut server.admin()).is_err() {
        skipped("the server has no users");
        return;
    }
    for (path, database) in [("", 0), ("/?protocol=resp3", 0), ("/3", 3)] {
        let url = format!("redis://limits:secret@127.0.0.1:{}{path}", server.port());
        let store = with_long_deadline(Store::builder(url)).build().expect("a store");
        every_strategy_decides(&server, &store, database);
        assert_eq!((store.stats().failed, store.stats().disconnected), (0, 0));
        let _: () = redis::cmd("FLUSHALL").query(&mut server.admin()).expect("it");
    }
}

fn every_strategy_decides(server: &Server, store: &Store, database: u32) {
    let mut admin = server.admin();
    let _: () = redis::cmd("SELECT").arg(database).query(&mut admin).expect("it");
    block_on(async {
        store.ping().await.expect("an answer");
        for algorithm in Algorithm::NAMES {
            let gate = RedisLimiter::builder(store, *algorithm, Quota::per_hour(3));
            let gate =
                gate.algorithm(algorithm.parse().expect("a name")).build().expect("a limiter");
            for nth in 0..5 {
                assert_eq!(gate.check("k").await.expect("an answer").is_ok(), nth < 3);
                // A denial gives an end to a state without one.
                let place = gate.redis_key("k");
                let _: () = redis::cmd("PERSIST").arg(place).query(&mut admin).expect("it");
            }
            // Before and behind the time of the state.
            for now in [1, 1 << 50] {
                let _ = gate.at_micros(now).check("k").await.expect("an answer");
            }
            gate.reset("k").await.expect("an answer");
            assert!(gate.check("k").await.expect("an answer").is_ok());
        }
        let bucket = RedisLimiter::builder(store, "leased", Quota::per_second(100));
        let leased = Leased::builder(bucket.leases(Duration::from_millis(50)).build().expect("it"));
        let leased = leased.build().expect("a limiter");
        assert!(leased.check(b"k").await.expect("an answer").decision.is_ok());
        let windows = Windows::first_hit(store, "batched", Duration::from_secs(60)).expect("it");
        let batched = Batched::builder(windows, 100).build().expect("a limiter");
        assert!(batched.check(b"k").await.expect("an answer").decision.is_ok());
        let nodes = RedisMembership::new(store, "share").expect("a name");
        let share = Share::builder(nodes, Quota::per_second(100));
        let share = share.interval(Duration::from_millis(20)).build().expect("a limiter");
        let began = Instant::now();
        while share.stats().live.is_none() || batched.stats().cells < 1 {
            assert!(began.elapsed() < PATIENCE, "{:?}, {:?}", share.stats(), batched.stats());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        drop(share);
        tokio::time::sleep(Duration::from_millis(100)).await;
    });
}
