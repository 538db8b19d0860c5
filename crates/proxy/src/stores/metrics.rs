//! Metrics of the stores.

use std::collections::BTreeMap;

use tollgate_redis::{Health, StoreStats, Unavailable};

use super::registry::StoreLimits;
use crate::metrics::PrometheusText;

/// A label of `tollgate_store_calls_total`, and its counter.
type Column = (&'static str, fn(&StoreStats) -> u64);
const OUTCOMES: [Column; 5] = [
    ("answered", |stats| stats.answered),
    ("timed_out", |stats| stats.timed_out),
    ("disconnected", |stats| stats.disconnected),
    ("failed", |stats| stats.failed),
    ("skipped", |stats| stats.skipped),
];

/// The reasons why a store is down, as labels.
const REASONS: [&str; 3] = ["timed_out", "disconnected", "failed"];

/// The figures of all stores with the same URL, without users, passwords, deadlines and prefixes.
#[derive(Debug, Default)]
struct Figures {
    open: u64,
    reasons: [u64; REASONS.len()],
    opened: u64,
    outcomes: [u64; OUTCOMES.len()],
}

/// Writes the metrics of the stores of the rules in force.
pub(crate) fn write(page: &mut PrometheusText, shared: &StoreLimits) {
    let mut stores = BTreeMap::<String, Figures>::new();
    for (at, store) in &shared.stores {
        let (stats, figures) = (store.stats(), stores.entry(at.to_string()).or_default());
        figures.open += u64::from(store.is_circuit_open());
        if let Some(reason) = reason(&store.health()) {
            figures.reasons[reason] = 1;
        }
        figures.opened += stats.circuit_opened;
        for (sum, (_, read)) in figures.outcomes.iter_mut().zip(OUTCOMES) {
            *sum += read(&stats);
        }
    }
    let name = "tollgate_store_circuit_open";
    page.family(name, "gauge", "1 if a store fails and is only probed, else 0.");
    for (store, figures) in &stores {
        page.labelled("store", store, figures.open.min(1));
    }
    let name = "tollgate_store_down";
    page.family(name, "gauge", "1 for the reason why a store is only probed, else 0.");
    for (store, figures) in &stores {
        for (reason, is_so) in REASONS.iter().zip(figures.reasons) {
            page.labelled_twice(("store", store), ("reason", reason), is_so);
        }
    }
    let name = "tollgate_store_circuit_opened_total";
    page.family(name, "counter", "How often the circuit of a store opened.");
    for (store, figures) in &stores {
        page.labelled("store", store, figures.opened);
    }
    let name = "tollgate_store_calls_total";
    page.family(name, "counter", "Calls to a store by outcome; skipped calls were not made.");
    for (store, figures) in &stores {
        for ((outcome, _), count) in OUTCOMES.iter().zip(figures.outcomes) {
            page.labelled_twice(("store", store), ("outcome", outcome), count);
        }
    }
}

/// The index in [`REASONS`], for a store that is down.
fn reason(health: &Health) -> Option<usize> {
    match health {
        Health::Down { reason: Unavailable::TimedOut, .. } => Some(0),
        Health::Down { reason: Unavailable::Disconnected, .. } => Some(1),
        Health::Down { .. } => Some(2),
        _ => None,
    }
}
