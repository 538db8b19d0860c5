//! What became of the calls to stores.

use std::collections::BTreeMap;

use tollgate_redis::{Health, StoreStats, Unavailable};

use super::registry::StoreLimits;
use crate::metrics::PrometheusText;

/// The columns of `tollgate_store_calls_total`: how calls ended, and those that were not made.
type Column = (&'static str, fn(&StoreStats) -> u64);
const OUTCOMES: [Column; 5] = [
    ("answered", |stats| stats.answered),
    ("timed_out", |stats| stats.timed_out),
    ("disconnected", |stats| stats.disconnected),
    ("failed", |stats| stats.failed),
    ("skipped", |stats| stats.skipped),
];

/// Why a store is down, as metrics call it.
const REASONS: [&str; 3] = ["timed_out", "disconnected", "failed"];

/// Of what is known under one URL, where users, passwords, deadlines and prefixes are left out.
#[derive(Debug, Default)]
struct Figures {
    open: u64,
    reasons: [u64; REASONS.len()],
    opened: u64,
    outcomes: [u64; OUTCOMES.len()],
}

/// Of all stores of the rules in force.
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
    page.family(name, "gauge", "1, if a store fails and is only probed; else 0.");
    for (store, figures) in &stores {
        page.labelled("store", store, figures.open.min(1));
    }
    let name = "tollgate_store_down";
    page.family(name, "gauge", "1 for the reason why a store is only probed; else 0.");
    for (store, figures) in &stores {
        for (reason, is_so) in REASONS.iter().zip(figures.reasons) {
            page.labelled_twice(("store", store), ("reason", reason), is_so);
        }
    }
    let name = "tollgate_store_circuit_opened_total";
    page.family(name, "counter", "How often that began.");
    for (store, figures) in &stores {
        page.labelled("store", store, figures.opened);
    }
    let name = "tollgate_store_calls_total";
    page.family(name, "counter", "Calls to a store by their outcome; skipped ones were not made.");
    for (store, figures) in &stores {
        for ((outcome, _), count) in OUTCOMES.iter().zip(figures.outcomes) {
            page.labelled_twice(("store", store), ("outcome", outcome), count);
        }
    }
}

/// The number of the reason, of a store that is down.
fn reason(health: &Health) -> Option<usize> {
    match health {
        Health::Down { reason: Unavailable::TimedOut, .. } => Some(0),
        Health::Down { reason: Unavailable::Disconnected, .. } => Some(1),
        Health::Down { .. } => Some(2),
        _ => None,
    }
}
