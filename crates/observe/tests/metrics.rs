//! The metrics that a recorder receives.

use std::collections::BTreeMap;

use metrics::with_local_recorder;
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use tollgate::stats::DecisionCount;
use tollgate::top::TopKeys;
use tollgate::{Direct, Limiter, ManualClock, OnFull, Quota};
use tollgate_observe::{TopKeysRecorder, describe, record, record_count};

/// The metrics of the limiter `api`: `name outcome-or-key`, and the value.
fn recorded(body: impl FnOnce()) -> BTreeMap<String, f64> {
    let recorder = DebuggingRecorder::new();
    with_local_recorder(&recorder, body);
    let mut metrics = BTreeMap::new();
    for (key, _, _, value) in recorder.snapshotter().snapshot().into_vec() {
        let (name, labels) = key.key().clone().into_parts();
        let mut name = name.as_str().to_owned();
        for label in labels {
            match label.key() {
                "limiter" => assert_eq!(label.value(), "api"),
                _ => name = format!("{name} {}", label.value()),
            }
        }
        let value = match value {
            DebugValue::Counter(count) => count as f64,
            DebugValue::Gauge(level) => level.into_inner(),
            DebugValue::Histogram(_) => panic!("{name} is no histogram"),
        };
        assert!(metrics.insert(name, value).is_none());
    }
    metrics
}

fn gate(on_full: OnFull) -> Limiter<u64, tollgate::Gcra, ManualClock> {
    Limiter::builder(Quota::per_hour(2))
        .clock(ManualClock::new())
        .capacity(1)
        .on_full(on_full)
        .count_decisions()
        .build()
        .expect("in range")
}

#[test]
fn record_records_all_counts_of_a_limiter() {
    // 16 slots, and 20 keys with three requests each.
    let gate = gate(OnFull::Deny);
    for key in (0..20).cycle().take(60) {
        let _ = gate.check(&key);
    }
    let metrics = recorded(|| record(&gate, "api"));
    let expected = [
        ("tollgate_capacity_keys", 8.0),
        ("tollgate_claims_total", 16.0),
        ("tollgate_limiter_decisions_total admitted", 32.0),
        ("tollgate_limiter_decisions_total denied", 28.0),
        ("tollgate_evictions_total", 0.0),
        ("tollgate_live_keys", 16.0),
        ("tollgate_load_ratio", 1.0),
        ("tollgate_memory_bytes", 256.0),
        ("tollgate_table_full_total admitted", 0.0),
        ("tollgate_table_full_total denied", 12.0),
        ("tollgate_table_full_total shared", 0.0),
        ("tollgate_leases_total", 0.0),
    ];
    assert_eq!(metrics, expected.map(|(name, value)| (name.to_owned(), value)).into());
}

#[test]
fn decisions_that_are_not_counted_are_not_recorded() {
    let gate: Limiter<u64> = Limiter::builder(Quota::per_hour(2)).build().expect("in range");
    let metrics = recorded(|| record(&gate, "api"));
    assert!(!metrics.keys().any(|name| name.starts_with("tollgate_limiter_decisions_total")));
}

#[test]
fn recording_twice_counts_nothing_twice() {
    let (gate, count) = (Direct::new(Quota::per_hour(2)).expect("in range"), DecisionCount::new());
    let metrics = recorded(|| {
        for _ in 0..3 {
            let _ = count.watch(gate.check());
            record_count(&count, "api");
            record_count(&count, "api");
        }
    });
    assert_eq!(metrics["tollgate_limiter_decisions_total admitted"], 2.0);
    assert_eq!(metrics["tollgate_limiter_decisions_total denied"], 1.0);
}

#[test]
fn every_metric_is_described() {
    let gate = gate(OnFull::EvictNearestIdle);
    let recorder = DebuggingRecorder::new();
    let top = TopKeys::new(1);
    with_local_recorder(&recorder, || {
        describe();
        record(&gate, "api");
        TopKeysRecorder::new("api", 1).record::<u64>(&top);
    });
    for (key, unit, text, _) in recorder.snapshotter().snapshot().into_vec() {
        assert!(unit.is_some() && text.is_some(), "{key:?}");
    }
}

#[test]
fn the_number_of_series_is_bounded_however_many_keys_are_denied() {
    let top: TopKeys<u64> = TopKeys::new(50);
    let mut recorder = TopKeysRecorder::new("api", 3).max_series(5);
    let metrics = recorded(|| {
        for round in 0..20_u64 {
            top.reset();
            for rank in 0..10_u64 {
                (rank..10).for_each(|_| top.note(&(round * 2 + rank)));
            }
            recorder.record(&top);
        }
    });
    // The entries were 0 1 2, 2 3 4, 4 5 6, 6 7 8, ...: five keys get a series, later ones do not.
    let expected = [
        ("tollgate_top_dropped", 0.0),
        ("tollgate_top_denied (others)", 27.0),
        ("tollgate_top_denied 0", 0.0),
        ("tollgate_top_denied 1", 0.0),
        ("tollgate_top_denied 2", 0.0),
        ("tollgate_top_denied 3", 0.0),
        ("tollgate_top_denied 4", 0.0),
    ];
    assert_eq!(metrics, expected.map(|(name, value)| (name.to_owned(), value)).into());
}

#[test]
fn the_most_denied_keys_have_series_of_their_own() {
    let top: TopKeys<String> = TopKeys::new(50);
    ["a", "b", "b", "c", "c", "c"].iter().for_each(|key| top.note(*key));
    let metrics = recorded(|| TopKeysRecorder::new("api", 2).record(&top));
    assert_eq!(metrics["tollgate_top_denied c"], 3.0);
    assert_eq!(metrics["tollgate_top_denied b"], 2.0);
    assert_eq!(metrics["tollgate_top_denied (others)"], 0.0);
    assert!(!metrics.contains_key("tollgate_top_denied a"));
}

#[test]
fn a_key_that_reads_as_the_label_of_the_others_is_counted_among_them() {
    let top: TopKeys<String> = TopKeys::new(50);
    ["(others)", "(others)", "(others)", "a", "a", "b"].iter().for_each(|key| top.note(*key));
    let mut recorder = TopKeysRecorder::new("api", 3).max_series(1);
    let metrics = recorded(|| (0..2).for_each(|_| recorder.record(&top)));
    let expected = [
        ("tollgate_top_dropped", 0.0),
        ("tollgate_top_denied (others)", 4.0),
        ("tollgate_top_denied a", 2.0),
    ];
    assert_eq!(metrics, expected.map(|(name, value)| (name.to_owned(), value)).into());
}

#[test]
fn a_key_of_more_than_200_bytes_is_counted_among_the_others() {
    let top: TopKeys<String> = TopKeys::new(50);
    let keys = ["k".repeat(200), "l".repeat(201)];
    keys.iter().for_each(|key| top.note(key));
    let metrics = recorded(|| TopKeysRecorder::new("api", 3).record(&top));
    assert_eq!(metrics[&format!("tollgate_top_denied {}", keys[0])], 1.0);
    assert_eq!(metrics["tollgate_top_denied (others)"], 1.0);
    assert_eq!(metrics.len(), 3);
}

/// A user of a tenant, of which only the tenant is shown.
#[derive(Clone, PartialEq, Eq, Hash)]
struct User(&'static str, u64);

impl std::fmt::Display for User {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

#[test]
fn keys_that_read_alike_share_a_series_with_the_sum_of_their_denials() {
    let top: TopKeys<User> = TopKeys::new(50);
    for (user, denials) in [(User("a", 1), 5), (User("b", 2), 4), (User("a", 3), 2)] {
        (0..denials).for_each(|_| top.note(&user));
    }
    let metrics = recorded(|| TopKeysRecorder::new("api", 3).max_series(1).record(&top));
    let expected = [
        ("tollgate_top_dropped", 0.0),
        ("tollgate_top_denied (others)", 4.0),
        ("tollgate_top_denied a", 7.0),
    ];
    assert_eq!(metrics, expected.map(|(name, value)| (name.to_owned(), value)).into());
}
