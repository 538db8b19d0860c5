//! The body of the fuzz target, on random bytes and on the corpus in the repository.

mod bodies;
#[path = "../../../fuzz/seeds.rs"]
mod seeds;

use std::panic::catch_unwind;

use bodies::replies::{plant, replies};
use proptest::prelude::*;
use seeds::seeds_of;

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(100_000)
    })]

    #[test]
    fn replies_of_random_bytes_do_not_panic(data in prop::collection::vec(any::<u8>(), 0..120)) {
        replies(&data);
    }
}

#[test]
fn the_kept_corpus_passes() {
    let seeds = seeds_of("replies");
    seeds.iter().for_each(|data| replies(data));
    assert!(seeds.len() >= 8, "{}", seeds.len());
}

/// A body that finds no mistake would pass any input.
#[test]
fn a_planted_mistake_is_found() {
    let found = seeds_of("replies").into_iter().filter(|data| {
        plant(true);
        let passes = catch_unwind(|| replies(data)).is_ok();
        plant(false);
        !passes
    });
    assert!(found.count() >= 3);
}
