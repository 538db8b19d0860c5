//! The body of the fuzz target `advice`, on random bytes and on the corpus in the repository.

mod bodies;
#[path = "../../../fuzz/seeds.rs"]
mod seeds;

use std::panic::catch_unwind;

use bodies::{Mistake, advice, plant};
use proptest::prelude::*;
use seeds::seeds_of;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn the_advice_body_holds_for_random_bytes(
        data in prop::collection::vec(
            prop_oneof![3 => prop::sample::select(&b"\"\\;,= \nqwrtu0123456789.-"[..]), 1 => any::<u8>()],
            0..200,
        ),
    ) {
        advice(&data);
    }

    #[test]
    fn the_advice_body_holds_for_fields_that_are_almost_right(
        lines in prop::collection::vec(
            "\x00([0-9]{1,22}|Sun, 06 Nov [0-9]{4} 08:49:37 GMT)|[\x01\x02](\"a\";[rqtw]=[0-9]{1,16}(;[tw]=[0-9]{1,3})?,? ?){0,4}|[\x03\x04][0-9]{0,20}|\x05Sun, 06 Nov 1994 08:49:37 GMT",
            0..8,
        ),
    ) {
        advice(lines.join("\n").as_bytes());
    }
}

#[test]
fn the_kept_corpus_passes() {
    let seeds = seeds_of("advice");
    seeds.iter().for_each(|data| advice(data));
    assert!(seeds.len() >= 8, "{}", seeds.len());
}

/// A body that finds no mistake would pass on any input.
#[test]
fn every_planted_mistake_is_found() {
    for mistake in [Mistake::ByteLost, Mistake::SpanOff, Mistake::RateOff] {
        plant(Some(mistake));
        let found = seeds_of("advice").iter().any(|data| catch_unwind(|| advice(data)).is_err());
        plant(None);
        assert!(found, "{mistake:?} was not found");
    }
}
