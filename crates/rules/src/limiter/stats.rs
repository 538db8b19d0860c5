//! The counts of the limiters of rules.

use tollgate::Clock;
use tollgate::stats::{Occupancy, Stats};

use super::RulesLimiter;
use crate::active_rule::ActiveRule;
use crate::rule::{Rule, RuleLimit};

/// The counts of a rule: see [`RulesLimiter::stats`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RuleStats<'g> {
    /// The rule.
    pub rule: &'g Rule,
    /// Requests that were charged to all limits of the rule. A reload keeps the count of a rule whose
    /// name stays. A rule in shadow counts the requests that it would have admitted. The count is 0 if
    /// a [store](crate::Store) keeps the limits.
    pub admitted: u64,
    /// One for each limit, in the order of the rule; empty if a store keeps them. A rule with plans has one, with
    /// the limit of its default.
    pub limits: Vec<LimitStats<'g>>,
    /// The requests in flight; `None` if the rule does not limit them.
    pub in_flight: Option<InFlightStats>,
}

/// The requests in flight of a rule with `concurrency`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct InFlightStats {
    /// How many keys have requests in flight, about.
    pub keys: usize,
    /// Counts since its table was built. A reload that builds a new table resets them.
    pub stats: Stats,
}

/// The counts of a limit, and how full its table is.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LimitStats<'g> {
    /// The limit.
    pub limit: &'g RuleLimit,
    /// Counts since its table was built. A reload that builds a new table resets them.
    pub stats: Stats,
    /// How many keys are live, and how many fit.
    pub occupancy: Occupancy,
}

impl<C: Clock> RulesLimiter<C> {
    /// The counts of each rule, in the order of the file. It reads up to 32,768 slots of each limit, so
    /// call it for a page of metrics or from a timer.
    ///
    /// **Not guaranteed.** While threads decide requests, the counts may be of slightly different
    /// moments.
    ///
    /// ```
    /// # use tollgate_rules::{RulesLimiter, Request, Rules};
    /// let text = r#"rule = [{ name = "a", key = "none", limits = "1/min" }]"#;
    /// let gate = RulesLimiter::new(Rules::parse("rules.toml", text)?)?;
    /// assert!(gate.decide(&Request::default()).is_admitted());
    /// assert!(!gate.decide(&Request::default()).is_admitted());
    /// let stats = gate.stats().next().expect("there is a rule");
    /// assert_eq!((stats.rule.name(), stats.admitted), ("a", 1));
    /// assert_eq!((stats.limits[0].occupancy.live, stats.limits[0].stats.evicted), (1, 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stats(&self) -> impl Iterator<Item = RuleStats<'_>> {
        let limit = |(limit, stats, occupancy)| LimitStats { limit, stats, occupancy };
        self.active.iter().map(move |active| {
            let ActiveRule { rule, buckets, admitted, .. } = active;
            let first = if rule.plan.is_some() { rule.limits.len() - 1 } else { 0 };
            let limits = rule.limits[first..].iter().zip(buckets);
            let limits = limits.map(|(its, bucket)| (its, bucket.stats(), bucket.occupancy()));
            let in_flight = active.in_flight.as_ref();
            let in_flight =
                in_flight.map(|its| InFlightStats { keys: its.keys(), stats: its.stats() });
            let limits = limits.map(limit).collect();
            RuleStats { rule, admitted: admitted.admitted(), limits, in_flight }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tollgate::ManualClock;

    use super::*;
    use crate::request::Request;
    use crate::rule::Rules;

    #[test]
    fn a_rule_counts_requests_that_all_its_limits_admitted() {
        let text = r#"rule = [
            { name = "two", key = "none", limits = ["9/s", "2/min"] },
            { name = "trial", key = "none", limits = "1/min", shadow = true },
            { name = "other", match = { path = "/other" }, key = "none", limits = "1/min" },
        ]"#;
        let rules = Rules::parse("r.toml", text).expect("rules");
        let gate = RulesLimiter::with_clock(rules, Arc::new(ManualClock::new())).expect("memory");
        for _ in 0..5 {
            let _ = gate.decide(&Request::default());
        }
        let counts = gate.stats().map(|its| (its.rule.name(), its.admitted, its.limits.len()));
        assert!(counts.eq([("two", 2, 2), ("trial", 1, 1), ("other", 0, 1)]));
    }

    #[test]
    fn evicted_keys_are_counted() {
        let text = r#"rule = [{ name = "a", key = "header:k", capacity = 16, limits = "1/h" }]"#;
        let rules = Rules::parse("r.toml", text).expect("rules");
        let gate = RulesLimiter::with_clock(rules, Arc::new(ManualClock::new())).expect("memory");
        for key in 0..1_000 {
            let key = key.to_string();
            let headers = [("k", key.as_str())];
            assert!(
                gate.decide(&Request { headers: &headers, ..Request::default() }).is_admitted()
            );
        }
        let stats = gate.stats().next().expect("there is a rule");
        let its = &stats.limits[0];
        assert_eq!(stats.admitted, 1_000);
        assert_eq!(its.stats.evicted + its.occupancy.live as u64, 1_000);
        assert!(its.stats.evicted > 0 && its.occupancy.live >= 16, "{its:?}");
    }
}
