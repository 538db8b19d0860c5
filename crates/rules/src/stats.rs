//! What rules at work have counted.

use tollgate::Clock;
use tollgate::stats::{Occupancy, Stats};

use crate::gate::{Active, Gate};
use crate::rule::{Limit, Rule};

/// What a rule has counted: see [`Gate::stats`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RuleStats<'g> {
    /// The rule.
    pub rule: &'g Rule,
    /// Requests that were charged to all limits of the rule. It goes on when rules are exchanged, as
    /// long as there is a rule of that name. A rule in shadow counts those that it would have admitted.
    /// It is 0 where a [store](crate::Store) keeps the limits.
    pub admitted: u64,
    /// One for each limit, in the order of the rule; none where a store keeps them.
    pub limits: Vec<LimitStats<'g>>,
}

/// What a limit has counted, and how full its table is.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LimitStats<'g> {
    /// The limit.
    pub limit: &'g Limit,
    /// Counts since its table was built. They start afresh with the table when rules are exchanged.
    pub stats: Stats,
    /// How many keys are live, and how many there is room for.
    pub occupancy: Occupancy,
}

impl<C: Clock> Gate<C> {
    /// What each rule has counted, in the order of the file. It looks at up to 4,096 buckets of each
    /// limit, so it is for a page of figures or a timer.
    ///
    /// **Not guaranteed.** While requests are decided, the counts may be of slightly different moments.
    ///
    /// ```
    /// # use tollgate_rules::{Gate, Request, Rules};
    /// let text = r#"rule = [{ name = "a", key = "none", limits = "1/min" }]"#;
    /// let gate = Gate::new(Rules::parse("rules.toml", text)?)?;
    /// assert!(gate.decide(&Request::default()).is_admitted());
    /// assert!(!gate.decide(&Request::default()).is_admitted());
    /// let stats = gate.stats().next().expect("there is a rule");
    /// assert_eq!((stats.rule.name(), stats.admitted), ("a", 1));
    /// assert_eq!((stats.limits[0].occupancy.live, stats.limits[0].stats.evicted), (1, 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stats(&self) -> impl Iterator<Item = RuleStats<'_>> {
        let limit = |(limit, stats, occupancy)| LimitStats { limit, stats, occupancy };
        self.active.iter().map(move |Active { rule, buckets, admitted, .. }| {
            let limits = rule.limits.iter().zip(buckets);
            let limits = limits.map(|(its, bucket)| (its, bucket.stats(), bucket.occupancy()));
            RuleStats { rule, admitted: admitted.admitted(), limits: limits.map(limit).collect() }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tollgate::ManualClock;

    use super::*;
    use crate::{Request, Rules};

    #[test]
    fn a_rule_counts_what_all_its_limits_admitted() {
        let text = r#"rule = [
            { name = "two", key = "none", limits = ["9/s", "2/min"] },
            { name = "trial", key = "none", limits = "1/min", shadow = true },
            { name = "other", match = { path = "/other" }, key = "none", limits = "1/min" },
        ]"#;
        let rules = Rules::parse("r.toml", text).expect("rules");
        let gate = Gate::with_clock(rules, Arc::new(ManualClock::new())).expect("memory");
        for _ in 0..5 {
            let _ = gate.decide(&Request::default());
        }
        let counts = gate.stats().map(|its| (its.rule.name(), its.admitted, its.limits.len()));
        assert!(counts.eq([("two", 2, 2), ("trial", 1, 1), ("other", 0, 1)]));
    }

    #[test]
    fn keys_that_are_forgotten_are_counted() {
        let text = r#"rule = [{ name = "a", key = "header:k", capacity = 16, limits = "1/h" }]"#;
        let rules = Rules::parse("r.toml", text).expect("rules");
        let gate = Gate::with_clock(rules, Arc::new(ManualClock::new())).expect("memory");
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
