//! The bucket and the membership list that `verify/states/` uses in place of a server, compared
//! with one.

#[path = "../bodies/bucket.rs"]
mod bucket;
#[path = "../bodies/membership.rs"]
mod membership;

use std::time::Duration;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use tollgate::Quota;
use tollgate_redis::RedisLimiter;

use crate::harness::{Server, block_on};
use bucket::Bucket;

const BEGINNING_MICROS: u64 = 1_700_000_000_000_000;

/// Granted: what the model says, cell by cell, at any times.
#[test]
fn the_models_bucket_equals_the_servers() {
    let Some(server) = Server::start() else { return };
    let store = server.store().build().expect("a store");
    let quotas = (1_u64..40, 1_u64..40, 1_u64..60, 0_u64..3_000);
    let asked = prop::collection::vec((0_u64..5_000, 1_u64..8, 0_u64..8), 1..40);
    let keys = std::cell::Cell::new(0_u64);
    let mut runner = TestRunner::new(ProptestConfig::with_cases(300));
    let outcome = runner.run(&(quotas, asked), |((limit, period_millis, burst, lease), asked)| {
        keys.set(keys.get() + 1);
        let period = Duration::from_millis(period_millis);
        let redis_limiter =
            RedisLimiter::builder(&store, "transcript", Quota::new(limit, period).burst(burst));
        // A burst of one cell has no room for leases, and a lifetime of zero means none.
        let Ok(redis_limiter) = redis_limiter.leases(Duration::from_micros(lease)).build() else {
            return Ok(());
        };
        let period_nanos = period_millis * 1_000_000;
        let bucket = Bucket::new(limit, period_nanos, burst, lease);
        let (mut now, mut full_at) = (BEGINNING_MICROS, 0);
        for (gap, min, more) in asked {
            now += gap;
            let redis_limiter = redis_limiter.at_micros(now);
            let taken = redis_limiter.take(keys.get().to_be_bytes(), min, min + more);
            let taken = block_on(taken).expect("an answer");
            let at = u128::from(now) * bucket.parts;
            let (cells, owed) = bucket.take(full_at.max(at) - at, min, min + more);
            full_at = at + owed;
            prop_assert_eq!(taken.cells, cells);
            let remaining = (bucket.capacity - owed) / bucket.cell;
            prop_assert_eq!(u128::from(taken.parts.remaining), remaining);
            prop_assert_eq!(taken.parts.reset_after.as_micros(), owed.div_ceil(bucket.parts));
        }
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
    assert!(keys.get() >= 300, "{}", keys.get());
}

/// An action of a node.
#[derive(Clone, Copy, Debug)]
enum Doing {
    Heartbeat(usize),
    Leave(usize),
}

/// Granted: nothing. Every heartbeat is answered as the model says, by clocks that advance, jump
/// ahead and are set back.
#[test]
fn the_models_membership_equals_the_servers() {
    const NODES: usize = 4;
    /// In microseconds, and long, because the server expires keys by its own clock.
    const LIFETIME: u64 = 300_000_000;
    const MICROS: i64 = 1_000_000;
    let Some(server) = Server::start() else { return };
    let mut admin = server.admin();
    let heartbeats =
        concat!(include_str!("../../src/lua/now.lua"), include_str!("../../src/lua/heartbeat.lua"));
    let (heartbeats, leaves) = (
        redis::Script::new(heartbeats),
        redis::Script::new(include_str!("../../src/lua/leave.lua")),
    );
    let doing = prop_oneof![9 => (0..NODES).prop_map(Doing::Heartbeat), 1 => (0..NODES).prop_map(Doing::Leave)];
    let passes = prop_oneof![6 => 0_i64..200, 1 => -400_i64..400];
    let script = prop::collection::vec((doing, passes), 1..60);
    let (mut gone, mut set_back) = (0_u64, 0_u64);
    let mut runner = TestRunner::new(ProptestConfig::with_cases(200));
    let scripts = (0..200).map(|_| script.new_tree(&mut runner).expect("it draws").current());
    for (lists, script) in scripts.enumerate() {
        let keys = ["heard", "came"].map(|of| format!("{{list {lists}}}:{of}"));
        let (mut places, mut now) = ([None; NODES], BEGINNING_MICROS);
        for (doing, by) in script {
            now = now.saturating_add_signed(by * MICROS);
            set_back += u64::from(by < 0);
            match doing {
                Doing::Heartbeat(node) => {
                    let mut call = heartbeats.key(&keys[0]);
                    let call = call.key(&keys[1]).arg(node).arg(LIFETIME).arg(now);
                    let answer: (u64, u64) = call.invoke(&mut admin).expect("an answer");
                    let before = places.iter().flatten().count();
                    assert_eq!(answer, membership::heartbeat(&mut places, node, now, LIFETIME));
                    gone += u64::from(places.iter().flatten().count() < before);
                }
                Doing::Leave(node) => {
                    let mut call = leaves.key(&keys[0]);
                    let call = call.key(&keys[1]).arg(node);
                    let there: (u64,) = call.invoke(&mut admin).expect("an answer");
                    assert_eq!(there.0 == 1, places[node].is_some());
                    membership::leave(&mut places, node);
                }
            }
        }
    }
    assert!(gone > 200 && set_back > 200, "{gone} dropped, set back {set_back} times");
}
