//! The bucket that `lease-model/` takes for the server, compared with a server.

#[path = "../bodies/bucket.rs"]
mod bucket;

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tollgate::Quota;
use tollgate_redis::Central;

use crate::harness::{Server, block_on};
use bucket::Bucket;

const BEGINNING_MICROS: u64 = 1_700_000_000_000_000;

/// Granted: what the model says, cell by cell, at any times.
#[test]
fn the_models_bucket_is_the_servers() {
    let Some(server) = Server::start() else { return };
    let store = server.store().build().expect("a store");
    let quotas = (1_u64..40, 1_u64..40, 1_u64..60, 0_u64..3_000);
    let asked = prop::collection::vec((0_u64..5_000, 1_u64..8, 0_u64..8), 1..40);
    let keys = std::cell::Cell::new(0_u64);
    let mut runner = TestRunner::new(ProptestConfig::with_cases(300));
    let outcome = runner.run(&(quotas, asked), |((limit, period_millis, burst, lease), asked)| {
        keys.set(keys.get() + 1);
        let period = Duration::from_millis(period_millis);
        let central =
            Central::builder(&store, "transcript", Quota::new(limit, period).burst(burst));
        // One cell has no room for leases; none at all are no leases.
        let Ok(central) = central.leases(Duration::from_micros(lease)).build() else {
            return Ok(());
        };
        let period_nanos = period_millis * 1_000_000;
        let bucket = Bucket::new(limit, period_nanos, burst, lease);
        let (mut now, mut full_at) = (BEGINNING_MICROS, 0);
        for (gap, least, more) in asked {
            now += gap;
            let central = central.at_micros(now);
            let taken = central.take(keys.get().to_be_bytes(), least, least + more);
            let taken = block_on(taken).expect("an answer");
            let at = u128::from(now) * bucket.parts;
            let (cells, owed) = bucket.take(full_at.max(at) - at, least, least + more);
            full_at = at + owed;
            prop_assert_eq!(taken.cells, cells);
            let remaining = (bucket.capacity - owed) / bucket.cell;
            prop_assert_eq!(u128::from(taken.stated.remaining), remaining);
            prop_assert_eq!(taken.stated.reset_after.as_micros(), owed.div_ceil(bucket.parts));
        }
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
    assert!(keys.get() >= 300, "{}", keys.get());
}
