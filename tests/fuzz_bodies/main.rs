//! The fuzz targets' bodies on random bytes, on the corpus that is kept with the sources, and on
//! operations that are drawn.

#[path = "../bodies/mod.rs"]
mod bodies;
#[path = "../../fuzz/kept.rs"]
mod kept;
mod model;

use std::panic::catch_unwind;

use bodies::mistake::{Mistake, plant};
use kept::kept;
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng};

/// A number of cases, unless `PROPTEST_CASES` asks for another.
fn config(cases: u32) -> ProptestConfig {
    let default = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    if std::env::var_os("PROPTEST_CASES").is_some() {
        return default;
    }
    ProptestConfig { cases, ..default }
}

proptest! {
    #![proptest_config(config(60_000))]

    #[test]
    fn words_of_random_bytes(data in prop::collection::vec(any::<u8>(), 0..64)) {
        bodies::words(&data);
    }
}

/// Bytes that choose an algorithm with a ring.
fn for_a_ring(most: usize) -> impl Strategy<Value = Vec<u8>> {
    let choice = bodies::FIRST_RING..=bodies::LAST_RING;
    (choice, prop::collection::vec(any::<u8>(), 0..most)).prop_map(|(choice, mut data)| {
        data.insert(0, choice);
        data
    })
}

proptest! {
    #![proptest_config(config(40_000))]

    #[test]
    fn words_of_random_bytes_with_rings(data in for_a_ring(256)) {
        bodies::words(&data);
    }
}

proptest! {
    #![proptest_config(config(6_000))]

    #[test]
    fn operations_of_random_bytes_with_rings(data in for_a_ring(1_500)) {
        bodies::operations(&data);
    }
}

proptest! {
    #![proptest_config(config(10_000))]

    #[test]
    fn operations_of_random_bytes(data in prop::collection::vec(any::<u8>(), 0..1_500)) {
        bodies::operations(&data);
    }
}

proptest! {
    #![proptest_config(config(6_000))]

    #[test]
    fn accounts_of_random_bytes(data in prop::collection::vec(any::<u8>(), 0..1_000)) {
        bodies::accounts(&data);
    }

    #[test]
    fn changes_of_random_bytes(data in prop::collection::vec(any::<u8>(), 0..1_000)) {
        bodies::changes(&data);
    }
}

proptest! {
    #![proptest_config(config(8_000))]

    #[test]
    fn snapshots_changed_by_random_bytes(data in prop::collection::vec(any::<u8>(), 0..40)) {
        bodies::snapshot::snapshot(&data);
    }
}

/// Replays what is kept, and says how many files that was.
fn replay(target: &str, body: fn(&[u8])) -> usize {
    let kept = kept(target);
    kept.iter().for_each(|data| body(data));
    kept.len()
}

#[test]
fn the_kept_corpus_passes() {
    assert!(replay("words", bodies::words) >= 16);
    assert!(replay("operations", bodies::operations) >= 17);
    assert!(replay("accounts", bodies::accounts) >= 60);
    assert!(replay("changes", bodies::changes) >= 30);
    assert!(replay("snapshot", bodies::snapshot::snapshot) >= 100);
}

type Body = fn(&[u8]);

/// A body that finds no mistake would pass whatever it is given.
#[test]
fn every_planted_mistake_is_found() {
    let planted: [(Mistake, Body); 8] = [
        (Mistake::ChargeLost, bodies::words),
        (Mistake::WaitTooShort, bodies::words),
        (Mistake::CostCut, bodies::operations),
        (Mistake::ResetLeftOut, bodies::operations),
        (Mistake::GivenBackTwice, bodies::accounts),
        (Mistake::RowLost, bodies::accounts),
        (Mistake::ChangeMissed, bodies::changes),
        (Mistake::RowLost, bodies::snapshot::snapshot),
    ];
    for (mistake, body) in planted {
        let mut chance = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
        let found = (0..2_000).any(|case| {
            // Some bodies want few bytes, and some many.
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
