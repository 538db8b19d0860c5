//! Metrics of the rules in force.

use std::sync::atomic::{AtomicU64, Ordering};

use super::gate::RulesGate;
use crate::metrics::PrometheusText;
use crate::rule_counters::Counters;

/// Writes the metrics of the rules in force.
pub(crate) fn write(page: &mut PrometheusText, gate: &RulesGate) {
    let counters = gate.counters();
    let counts = counters.counts();
    write_limits(page, gate, &counts);
    write_denials(page, &counts);
    write_store_decisions(page, gate, &counts);
    page.single("tollgate_rules", "gauge", "Rules in force.", counts.len());
    let name = "tollgate_rules_memory_bytes";
    let help = "Memory reserved for the tables of the rules.";
    page.single(name, "gauge", help, gate.read(|gate| gate.memory_bytes()));
    write_reloads(page, gate);
}

/// Writes the admissions of each rule, and the figures of its limits.
fn write_limits(page: &mut PrometheusText, gate: &RulesGate, counts: &[(&str, &Counters)]) {
    let (mut evictions, mut live, mut capacity) = (Vec::new(), Vec::new(), Vec::new());
    let mut in_flight = Vec::new();
    let name = "tollgate_rule_admissions_total";
    page.family(name, "counter", "Requests that were charged to all limits of a rule.");
    gate.read(|gate| {
        for rule in gate.stats() {
            let name = rule.rule.name();
            let counts = counts.iter().find(|(its, _)| *its == name);
            let in_store = counts.map_or(0, |(_, counts)| load(&counts.store_admitted));
            page.labelled("rule", name, rule.admitted + in_store);
            in_flight.extend(rule.in_flight.map(|its| (name.to_owned(), its.keys)));
            for its in rule.limits {
                let of = |figure: u64| (name.to_owned(), its.limit.name().to_owned(), figure);
                evictions.push(of(its.stats.evicted));
                live.push(of(its.occupancy.live as u64));
                capacity.push(of(its.occupancy.capacity as u64));
            }
        }
    });
    for (name, kind, help, figures) in [
        (
            "tollgate_rule_evictions_total",
            "counter",
            "How often a limit evicted a live key to make room for another.",
            evictions,
        ),
        ("tollgate_rule_live_keys", "gauge", "Live keys of a limit, approximately.", live),
        ("tollgate_rule_capacity_keys", "gauge", "Keys that a limit has room for.", capacity),
    ] {
        page.family(name, kind, help);
        for (rule, limit, figure) in figures {
            page.labelled_twice(("rule", &rule), ("limit", &limit), figure);
        }
    }
    let name = "tollgate_rule_in_flight_keys";
    page.family(name, "gauge", "Keys with requests in flight, approximately.");
    for (rule, keys) in in_flight {
        page.labelled("rule", &rule, keys);
    }
}

fn write_denials(page: &mut PrometheusText, counts: &[(&str, &Counters)]) {
    let name = "tollgate_rule_denials_total";
    page.family(name, "counter", "Denials, counted for the rule that denies for longest.");
    for (rule, counts) in counts {
        page.labelled("rule", rule, load(&counts.denied));
    }
    let name = "tollgate_rule_shadow_denials_total";
    page.family(name, "counter", "Denials of rules in shadow, which are not enforced.");
    for (rule, counts) in counts {
        page.labelled("rule", rule, load(&counts.shadow_denied));
    }
}

fn write_store_decisions(
    page: &mut PrometheusText,
    gate: &RulesGate,
    counts: &[(&str, &Counters)],
) {
    let name = "tollgate_rule_store_decisions_total";
    page.family(name, "counter", "Decisions on limits in a store, by origin.");
    let has_store: Vec<String> = gate.read(|gate| {
        let rules = gate.rules().filter(|rule| rule.store().is_some());
        rules.map(|rule| rule.name().to_owned()).collect()
    });
    for (rule, counts) in counts.iter().filter(|(rule, _)| has_store.iter().any(|its| its == rule))
    {
        for (origin, count) in counts.origins() {
            page.labelled_twice(("rule", rule), ("origin", origin), count);
        }
    }
}

fn write_reloads(page: &mut PrometheusText, gate: &RulesGate) {
    let (reloads, failures) = gate.reloads();
    let name = "tollgate_rules_reloads_total";
    page.single(name, "counter", "Successful reloads of the rules file.", reloads);
    let name = "tollgate_rules_reload_failures_total";
    page.single(name, "counter", "Failed reloads of the rules file.", failures);
    let is_right = gate.is_last_reload_successful();
    let name = "tollgate_rules_last_reload_successful";
    page.single(name, "gauge", "1 if the last reload succeeded, else 0.", u8::from(is_right));
}

fn load(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}
