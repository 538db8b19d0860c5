//! Runs the bodies of the fuzz targets on random bytes, on the seeds that are committed with the
//! sources, and on generated operations.

use std::panic::catch_unwind;

use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng};

use crate::bodies;
use crate::bodies::mistake::{Mistake, plant};
use crate::choice::cases;
use crate::seeds::seeds_of;

proptest! {
    #![proptest_config(cases(60_000))]

    #[test]
    fn words_pass_on_random_bytes(data in prop::collection::vec(any::<u8>(), 0..64)) {
        bodies::words(&data);
    }
}

/// Bytes that choose an algorithm with a ring.
fn for_a_ring(max: usize) -> impl Strategy<Value = Vec<u8>> {
    let choice = bodies::FIRST_RING..=bodies::LAST_RING;
    (choice, prop::collection::vec(any::<u8>(), 0..max)).prop_map(|(choice, mut data)| {
        data.insert(0, choice);
        data
    })
}

proptest! {
    #![proptest_config(cases(40_000))]

    #[test]
    fn words_pass_on_random_bytes_that_choose_rings(data in for_a_ring(256)) {
        bodies::words(&data);
    }
}

proptest! {
    #![proptest_config(cases(6_000))]

    #[test]
    fn operations_pass_on_random_bytes_that_choose_rings(data in for_a_ring(1_500)) {
        bodies::operations(&data);
    }
}

proptest! {
    #![proptest_config(cases(10_000))]

    #[test]
    fn operations_pass_on_random_bytes(data in prop::collection::vec(any::<u8>(), 0..1_500)) {
        bodies::operations(&data);
    }
}

proptest! {
    #![proptest_config(cases(6_000))]

    #[test]
    fn accounts_pass_on_random_bytes(data in prop::collection::vec(any::<u8>(), 0..1_000)) {
        bodies::accounts(&data);
    }

    #[test]
    fn changes_pass_on_random_bytes(data in prop::collection::vec(any::<u8>(), 0..1_000)) {
        bodies::changes(&data);
    }
}

proptest! {
    #![proptest_config(cases(8_000))]

    #[test]
    fn snapshots_pass_with_random_changes(data in prop::collection::vec(any::<u8>(), 0..40)) {
        bodies::snapshot::snapshot(&data);
    }
}

/// Replays the committed seeds of a target, and returns how many there are.
fn replay(target: &str, body: fn(&[u8])) -> usize {
    let seeds = seeds_of(target);
    seeds.iter().for_each(|data| body(data));
    seeds.len()
}

#[test]
fn every_body_passes_on_the_kept_corpus() {
    assert!(replay("words", bodies::words) >= 16);
    assert!(replay("operations", bodies::operations) >= 17);
    assert!(replay("accounts", bodies::accounts) >= 60);
    assert!(replay("changes", bodies::changes) >= 30);
    assert!(replay("snapshot", bodies::snapshot::snapshot) >= 100);
}

type Body = fn(&[u8]);

/// A body that finds no mistake would pass on any input.
#[test]
fn every_planted_mistake_is_found() {
    let planted: [(Mistake, Body); 8] = [
        (Mistake::ChargeLost, bodies::words),
        (Mistake::WaitTooShort, bodies::words),
        (Mistake::CostCut, bodies::operations),
        (Mistake::ResetLeftOut, bodies::operations),
        (Mistake::RefundedTwice, bodies::accounts),
        (Mistake::RowLost, bodies::accounts),
        (Mistake::ChangeMissed, bodies::changes),
        (Mistake::RowLost, bodies::snapshot::snapshot),
    ];
    for (mistake, body) in planted {
        let mut chance = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
        let found = (0..2_000).any(|case| {
            // Some bodies need few bytes, and some many.
            let mut data = vec![0; 8 + case * 37 % 600];
            chance.fill_bytes(&mut data);
            body(&data);
            plant(Some(mistake));
            let passes = catch_unwind(|| body(&data)).is_ok();
            plant(None);
            !passes
        });
        assert!(found, "{mistake:?} was not found");
    }
}
