//! Metrics of the stores.

use std::collections::BTreeMap;

use tollgate_redis::{Health, Unavailable};

use super::counters::{Counters, OUTCOMES};
use super::registry::StoreLimits;
use crate::metrics::PrometheusText;

/// The reasons why a store is down, as labels.
const REASONS: [&str; 3] = ["timed_out", "disconnected", "failed"];

/// The figures of all stores with the same URL, without users, passwords, deadlines and prefixes.
#[derive(Debug, Default)]
struct Figures {
    open: u64,
    reasons: [u64; REASONS.len()],
    counters: Counters,
}

/// Writes the metrics of the stores of the rules in force.
pub(crate) fn write(page: &mut PrometheusText, shared: &StoreLimits) {
    let mut stores = BTreeMap::<String, Figures>::new();
    for (at, store) in &shared.stores {
        let figures = stores.entry(at.to_string()).or_default();
        figures.open += u64::from(store.is_circuit_open());
        if let Some(reason) = reason(&store.health()) {
            figures.reasons[reason] = 1;
        }
        figures.counters.add(&Counters::of(&store.stats()));
    }
    for (url, counters) in shared.retired().iter() {
        if let Some(figures) = stores.get_mut(url) {
            figures.counters.add(counters);
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
        page.labelled("store", store, figures.counters.opened);
    }
    let name = "tollgate_store_calls_total";
    page.family(name, "counter", "Calls to a store by outcome; skipped calls were not made.");
    for (store, figures) in &stores {
        for ((outcome, _), count) in OUTCOMES.iter().zip(figures.counters.outcomes) {
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

#[cfg(test)]
mod tests {
    use tollgate_rules::Rules;

    use super::*;

    /// The limits of rules with these stores, after a reload if there are limits before.
    fn limits(stores: &[&str], before: &StoreLimits) -> StoreLimits {
        let rule = |(name, store): (char, &&str)| {
            format!("[[rule]]\nname = \"{name}\"\nlimits = \"9/min\"\nstore = {{ {store} }}\n")
        };
        let text: String = ('a'..).zip(stores).map(rule).collect();
        let rules = Rules::parse("rules.toml", &text).expect("rules");
        StoreLimits::new(rules.rules().iter(), before).expect("they can be kept")
    }

    /// Calls the first store, which does not listen, until its circuit is open.
    async fn call(limits: &StoreLimits) {
        for _ in 0..9 {
            limits.stores[0].1.ping().await.expect_err("no server");
        }
        let asked = limits.rules["a"].store_limits[0].check_n(b"k", 1).await;
        assert!(asked.decision.is_ok(), "the fallback decides");
    }

    /// The values of the counters that are not 0.
    fn counters(limits: &StoreLimits) -> Vec<(String, u64)> {
        let mut page = PrometheusText::default();
        write(&mut page, limits);
        let page = page.into_text();
        let samples = page.lines().filter_map(|line| line.rsplit_once(' '));
        let counters = samples.filter(|(name, _)| name.contains("_total{"));
        let counters = counters.map(|(name, value)| (name.to_owned(), value.parse().expect("it")));
        counters.filter(|(_, value)| *value > 0).collect()
    }

    #[tokio::test]
    async fn no_reload_lowers_a_counter() {
        let [url, other] = [1, 2].map(|port| format!("url = \"redis://127.0.0.1:{port}\""));
        let slower = format!("{url}, deadline = \"1 s\"");
        let prefixed = format!("{url}, prefix = \"b\"");
        let first = limits(&[&url, &slower], &StoreLimits::default());
        call(&first).await;
        let before = counters(&first);
        assert_eq!(before.len(), 3, "opened, disconnected and skipped: {before:?}");
        let second = limits(&[&slower], &first);
        assert_eq!(counters(&second), before, "one of the two rules has left");
        let third = limits(&[&prefixed], &second);
        assert_eq!(counters(&third), before, "another prefix");
        // A request in flight may still call a store that has left.
        call(&first).await;
        assert!(counters(&second) > before);
        let away = limits(&[&other], &third);
        assert_eq!(counters(&away), []);
        let back = limits(&[&url], &limits(&[&other], &away));
        assert_eq!(counters(&back), before, "the store is back");
    }
}
