//! Limits whose prefixes, names and keys contain the separators.

use std::collections::HashSet;
use std::time::Duration;

use tollgate::Quota;
use tollgate_redis::{Algorithm, Membership as _, RedisLimiter, RedisMembership, Store};

use crate::harness::{Server, block_on};

fn login(store: &Store, name: &str) -> RedisLimiter {
    RedisLimiter::builder(store, name, Quota::per_hour(1)).build().expect("a limiter")
}

/// Granted: one cell to each limit and key. All of them are different.
#[test]
fn a_client_does_not_reach_another_limit_by_the_key_it_chooses() {
    let Some(server) = Server::start() else { return };
    let prefixed = |prefix: &str| server.store().prefix(prefix).build().expect("a store");
    let (shop, shop_eu) = (prefixed("shop"), prefixed("shop:eu"));
    let limits = [
        (login(&shop, "eu:login"), "admin"),
        (login(&shop_eu, "login"), "admin"),
        (login(&shop_eu, "login"), "bucket:admin"),
        (login(&shop_eu, "login:bucket"), "admin"),
        (login(&shop_eu, "login%3Abucket"), "admin"),
        (login(&shop, "eu:login:bucket"), "admin"),
        (login(&shop, "eu"), "login:bucket:admin"),
        (login(&shop, "eu"), "admin}"),
        (login(&shop, "eu"), "{admin}"),
    ];
    let places: HashSet<_> = limits.iter().map(|(gate, key)| gate.redis_key(key)).collect();
    assert_eq!(places.len(), limits.len());
    for (gate, key) in &limits {
        assert!(block_on(gate.check(key)).expect("an answer").is_ok(), "{key}");
    }
    for (gate, key) in &limits {
        assert!(block_on(gate.check(key)).expect("an answer").is_err(), "{key}");
    }
    let mut admin = server.admin();
    let keys: HashSet<Vec<u8>> = redis::cmd("KEYS").arg("*").query(&mut admin).expect("keys");
    assert_eq!(keys, places, "what stands on the server");
}

/// Every algorithm and the membership list keep names apart that would be equal without an escape.
#[test]
fn every_algorithm_keeps_names_apart() {
    let Some(server) = Server::start() else { return };
    let prefixed = |prefix: &str| server.store().prefix(prefix).build().expect("a store");
    let (one, other) = (prefixed("a"), prefixed("a:b"));
    for algorithm in Algorithm::NAMES {
        let gate = |store, name| {
            let builder = RedisLimiter::builder(store, name, Quota::per_hour(1));
            builder.algorithm(algorithm.parse().expect("a name")).build().expect("a limiter")
        };
        assert!(block_on(gate(&one, "b:c").check("k")).expect("an answer").is_ok());
        assert!(block_on(gate(&other, "c").check("k")).expect("an answer").is_ok(), "{algorithm}");
    }
    block_on(async {
        let heartbeat = async |store, name, id| {
            let membership = RedisMembership::new(store, name).expect("a name");
            membership.heartbeat(id, Duration::from_secs(60)).await.expect("an answer").live
        };
        assert_eq!(heartbeat(&one, "b:c", "x").await, 1);
        assert_eq!(heartbeat(&other, "c", "y").await, 1, "not a node of the other list");
        assert_eq!(heartbeat(&one, "b:c", "z").await, 2);
    });
}
