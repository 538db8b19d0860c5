//! The table of algorithms, and every algorithm as a contender beside its model.

use std::time::Duration;

use tollgate::{AnyAlgorithm, OnFull};

use super::*;
use crate::contender::Options;

const ORIGIN: u64 = 807_256_800_000_000_000;
const SECOND: u64 = 1_000_000_000;

fn setup(rule: &str, capacity: impl Into<Option<u64>>) -> Setup {
    let options = Options {
        capacity: capacity.into(),
        on_full: OnFull::EvictNearestIdle,
        utc_offset_secs: 0,
        sub_windows: 6,
        immediate_cells: 1,
        verify: true,
    };
    Setup { quota: rule.parse().unwrap(), options, origin_unix_nanos: ORIGIN }
}

fn named(name: &str) -> Algorithm {
    name.parse().unwrap()
}

#[test]
fn every_algorithm_agrees_with_its_model() {
    for algorithm in ALGORITHMS {
        let mut contender = algorithm.build(&setup("2 per 10 s", 100)).unwrap();
        for step in 0..200_u64 {
            let key = ["a", "b", ""][usize::try_from(step % 3).unwrap()];
            let at = ORIGIN + step * step * 7_000_001;
            let _ = contender.decide(key, step % 4, at);
        }
        let differences = contender.differences().unwrap();
        assert_eq!(differences.count, 0, "{}: {:?}", algorithm.name, differences.first);
        assert_eq!(contender.times_full(), 0);
    }
}

#[test]
fn aligned_windows_begin_at_the_wall_clocks_edges() {
    let quarter_past = ORIGIN + 900 * SECOND;
    let setup = Setup { origin_unix_nanos: quarter_past, ..setup("1/h", 10) };
    let mut contender = named("fixed-window-aligned").build(&setup).unwrap();
    assert!(contender.decide("a", 1, quarter_past).admitted);
    let denied = contender.decide("a", 1, quarter_past + SECOND);
    assert_eq!(denied.retry_after, Some(Duration::from_secs(45 * 60 - 1)));
}

#[test]
fn a_full_table_is_reported_and_seen_by_the_model() {
    let mut contender = ALGORITHMS[0].build(&setup("1/h", 1)).unwrap();
    for _ in 0..2 {
        for key in 0..1_000 {
            let _ = contender.decide(&key.to_string(), 1, ORIGIN);
        }
    }
    assert!(contender.times_full() > 0);
    let differences = contender.differences().unwrap();
    assert!(differences.count > 0);
    assert_eq!(differences.first.len(), 5);
}

#[test]
fn by_default_a_limiter_has_room_for_the_keys_that_fit_in_a_gibibyte() {
    let capacity = |rule, name: &str| named(name).build(&setup(rule, None)).unwrap().capacity();
    for (rule, name, keys) in [
        ("65536/d", "gcra", 1_000_000),
        ("1/s", "sliding-log", 1_000_000),
        ("10/min", "sub-windows", 1_000_000),
        ("100/min", "sliding-log", 709_805),
        ("65536/d", "sliding-log", 1_126),
    ] {
        assert_eq!(capacity(rule, name), keys, "{rule} {name}");
    }
}

#[test]
fn an_allocation_failure_says_what_to_do() {
    let setup = setup("60000/min", 1_000_000_000);
    let error = named("sliding-log").build(&setup).err().unwrap();
    let error = format!("{error:#}");
    let advice = "there is no memory for 1,000,000,000 keys of 872,785 bytes each: \
                  lower --capacity";
    assert!(error.ends_with(advice), "{error}");
}

#[test]
fn a_build_error_names_rule_and_algorithm() {
    let setup = setup("2000000000 per 10 s", 10);
    let error = named("fixed-window").build(&setup).err().unwrap();
    let start = "rule \"2000000000/10s\" with fixed-window: a fixed window counts at most";
    assert!(format!("{error:#}").starts_with(start), "{error:#}");
}

#[test]
fn a_list_keeps_its_order() {
    let list = str::parse::<Selection>;
    let named = list("fixed-window, gcra").unwrap();
    let names: Vec<_> = named.algorithms().iter().map(|algorithm| algorithm.name).collect();
    assert_eq!(names, ["fixed-window", "gcra"]);
    assert_eq!(list("all"), Ok(Selection::All));
    assert!(list("gcra,magic").unwrap_err().contains("`magic`"));
    assert!(list("").is_err());
}

#[test]
fn the_algorithms_have_the_names_of_the_library() {
    let names: Vec<_> = ALGORITHMS.iter().map(|algorithm| algorithm.name).collect();
    assert_eq!(names, AnyAlgorithm::NAMES);
}

#[test]
fn descriptions_of_worst_windows_fit_a_narrow_terminal() {
    for algorithm in ALGORITHMS {
        assert!(algorithm.worst_window.len() <= 58, "{}", algorithm.worst_window);
    }
}
