//! The bodies of the fuzz targets, on random bytes and on the corpus in the repository.

mod bodies;
#[path = "../../../fuzz/seeds.rs"]
mod seeds;

use std::panic::catch_unwind;

use bodies::fields::fields;
use bodies::forwarded::forwarded;
use bodies::mistake::{Mistake, plant};
use bodies::structured::{Item, Value, list, numbers};
use proptest::prelude::*;
use seeds::seeds_of;

/// Bytes among which the significant ones are frequent.
fn bytes(significant: &'static [u8], max: usize) -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![3 => prop::sample::select(significant), 1 => any::<u8>()];
    prop::collection::vec(byte, 0..max)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn the_forwarded_body_holds_for_random_bytes(
        head in prop::collection::vec(any::<u8>(), 12),
        rest in bytes(b"\",;=\\[]: \nfor_0123456789.ab", 200),
    ) {
        forwarded(&[head, rest].concat());
    }

    #[test]
    fn the_forwarded_body_holds_for_whole_entries(
        head in prop::collection::vec(any::<u8>(), 12),
        entries in prop::collection::vec(
            "10\\.0\\.0\\.[0-9]|192\\.0\\.2\\.7(:80)?|unknown|_a|\\[2001:db8::1\\](:_p)?|::ffff:10\\.0\\.0\\.1|for=\"?10\\.0\\.0\\.1\"?|\\PC{0,4}|\n",
            0..12,
        ),
    ) {
        forwarded(&[head, entries.join(",").into_bytes()].concat());
    }

    #[test]
    fn the_fields_body_holds_for_random_bytes(data in bytes(b"\x01\x02\x03\x04\x06\x07\x08\x10\x11\x14\"\\;,= a", 160)) {
        fields(&data);
    }
}

type Body = fn(&[u8]);

#[test]
fn the_kept_corpus_passes() {
    let bodies: [(&str, Body); 2] = [("forwarded", forwarded), ("fields", fields)];
    for (target, body) in bodies {
        let seeds = seeds_of(target);
        seeds.iter().for_each(|data| body(data));
        assert!(seeds.len() >= 8, "{} for {target}", seeds.len());
    }
}

/// A body that finds no mistake would pass on any input.
#[test]
fn every_planted_mistake_is_found() {
    let planted: [(Mistake, &str, Body); 12] = [
        (Mistake::AllTrusted, "forwarded", forwarded),
        (Mistake::StrangerBelieved, "forwarded", forwarded),
        (Mistake::EntryLost, "forwarded", forwarded),
        (Mistake::PrefixLeftOut, "forwarded", forwarded),
        (Mistake::PeerLost, "forwarded", forwarded),
        (Mistake::EmptyCounted, "forwarded", forwarded),
        (Mistake::ReadingLost, "fields", fields),
        (Mistake::LimitOff, "fields", fields),
        (Mistake::RemainingOff, "fields", fields),
        (Mistake::ResetOff, "fields", fields),
        (Mistake::PatienceOff, "fields", fields),
        (Mistake::QuoteLost, "fields", fields),
    ];
    for (mistake, target, body) in planted {
        plant(Some(mistake));
        let passes = |data: &Vec<u8>| catch_unwind(|| body(data)).is_ok();
        let found = seeds_of(target).iter().any(|data| !passes(data));
        plant(None);
        assert!(found, "{mistake:?} was not found");
    }
}

#[test]
fn the_parser_of_the_checks_accepts_valid_lists_and_no_others() {
    let items = list(br#" "a";q=1;w=60 ,	"b \"\\";qu="x";r=-5"#).expect("right");
    let integer = |name: &str, value| (name.to_owned(), Value::Integer(value));
    let first = Item { text: "a".into(), parameters: vec![integer("q", 1), integer("w", 60)] };
    assert_eq!(items[0], first);
    assert_eq!((items[1].text.as_str(), items[1].integer("r")), ("b \"\\", Some(-5)));
    assert_eq!(list(b""), Ok(vec![]));
    let limits = numbers(b"10;w=1, 50;w=60;comment=\"a\"").expect("right");
    assert_eq!((limits[1].text.as_str(), limits[1].integer("w")), ("50", Some(60)));
    assert!(numbers(b"\"a\"").is_err() && list(b"10").is_err());
    assert!(list(b"\"a\";q=999999999999999").is_ok());
    for wrong in [
        &b"\"a\";q=1000000000000000"[..],
        b"\"a\";q=",
        b"\"a\";q=1.5",
        b"\"a\";Q=1",
        b"\"a\",",
        b"\"a\" \"b\"",
        b"\"a",
        b"\"a\\b\"",
        b"\"\x7f\"",
        b"\"\xc3\xa9\"",
        b"token;q=1",
    ] {
        assert!(list(wrong).is_err(), "{}", wrong.escape_ascii());
    }
}
