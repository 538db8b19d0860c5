//! The store limits of one request.

use std::sync::Arc;

use tollgate_http::{Charge, GateDecision, GatePermit, Reading, Reason, Report};
use tollgate_redis::{Answer, Origin};
use tollgate_rules::Deferred;

use super::limits::RuleLimits;
use crate::metrics::{Decision, Metrics};
use crate::rule_counters::RuleEntry;

/// One rule of a request: its limits are asked one after another, until one denies.
#[derive(Debug)]
pub(crate) struct PendingRule {
    limits: Arc<RuleLimits>,
    entry: Arc<RuleEntry>,
    key: Box<[u8]>,
    cells: u64,
    is_shadow: bool,
    /// The number of limits that have answered.
    answered: usize,
}

impl PendingRule {
    pub(crate) fn new(
        asked: &Deferred<'_>,
        limits: Arc<RuleLimits>,
        entry: Arc<RuleEntry>,
    ) -> Self {
        let (key, cells) = (asked.key().into(), asked.cells());
        Self { limits, entry, key, cells, is_shadow: asked.rule().is_shadow(), answered: 0 }
    }

    /// The answer of the next limit, if it is available without waiting.
    fn try_next(&self) -> Option<Answer> {
        self.limits.store_limits[self.answered].try_check_n(&self.key, self.cells)
    }

    async fn next(&self) -> Answer {
        self.limits.store_limits[self.answered].check_n(&self.key, self.cells).await
    }

    fn is_settled(&self) -> bool {
        self.answered == self.limits.store_limits.len()
    }
}

/// All rules of a request with limits in a store, and the answers so far. It owns its data, so that it
/// can outlive the borrow of the request.
#[derive(Debug)]
pub(crate) struct PendingDecision {
    rules: Vec<PendingRule>,
    /// The index of the rule that is asked.
    current: usize,
    admission: GatePermit,
    readings: Vec<Reading>,
    shadow_denials: Vec<ShadowDenial>,
    metrics: Arc<Metrics>,
}

/// A denial by a rule in shadow. It counts only if all other rules admit the request.
#[derive(Debug)]
pub(crate) struct ShadowDenial {
    pub(crate) entry: Arc<RuleEntry>,
    /// A rule with `action = "deny"` has none.
    pub(crate) reading: Option<Reading>,
}

impl ShadowDenial {
    /// Counts it, and notes it for the response.
    pub(crate) fn count(self, report: &mut Report) {
        self.entry.counts.count_shadow_denial();
        self.reading.into_iter().for_each(|reading| report.note_shadow(reading));
    }
}

/// The decision of the limits of this process, which have admitted a request, before stores are asked.
pub(crate) struct LocalDecision {
    pub(crate) admission: GatePermit,
    pub(crate) readings: Vec<Reading>,
    pub(crate) shadow_denials: Vec<ShadowDenial>,
}

impl PendingDecision {
    /// For a request that the limits of this process have admitted.
    ///
    /// Rules in shadow are asked last, so that they are charged only for requests that the others admit.
    pub(crate) fn new(
        mut rules: Vec<PendingRule>,
        decided: LocalDecision,
        metrics: Arc<Metrics>,
    ) -> Self {
        rules.sort_by_key(|rule| rule.is_shadow);
        let LocalDecision { admission, readings, shadow_denials } = decided;
        Self { rules, current: 0, admission, readings, shadow_denials, metrics }
    }

    /// Asks as far as answers are available without waiting. Returns the ruling if it is complete.
    pub(crate) fn try_decide(&mut self) -> Option<Result<(), Reason>> {
        while let Some(rule) = self.rules.get(self.current) {
            if let Err(reason) = self.record(rule.try_next()?) {
                return Some(Err(reason));
            }
        }
        Some(Ok(()))
    }

    /// Asks the remaining limits.
    pub(crate) async fn decide(mut self) -> (GateDecision, Report) {
        while let Some(rule) = self.rules.get(self.current) {
            let answer = rule.next().await;
            if let Err(reason) = self.record(answer) {
                return self.finish(Err(reason));
            }
        }
        self.finish(Ok(()))
    }

    /// Counts the ruling, and returns it with the report for the response. A denial refunds what the request has
    /// reserved.
    pub(crate) fn finish(self, ruling: Result<(), Reason>) -> (GateDecision, Report) {
        self.metrics.count_decision(match ruling {
            Ok(()) => Decision::Admitted,
            Err(Reason::Unavailable) => Decision::Unavailable,
            Err(_) => Decision::Denied,
        });
        let mut report = Report::default();
        self.readings.into_iter().for_each(|reading| report.note(reading));
        if ruling.is_ok() {
            self.shadow_denials.into_iter().for_each(|denial| denial.count(&mut report));
        }
        match ruling {
            Ok(()) => (Ok(self.admission), report),
            Err(reason) => {
                // The request is not served.
                self.admission.charge.into_iter().for_each(Charge::refund);
                (Err(reason), report)
            }
        }
    }

    /// Records an answer, and advances to the next limit or rule.
    fn record(&mut self, answer: Answer) -> Result<(), Reason> {
        let rule = &mut self.rules[self.current];
        let counts = &rule.entry.counts;
        counts.count_origin(answer.origin);
        let policy = rule.entry.policies[rule.answered].clone();
        let reading = Reading::of(policy, &answer.decision);
        rule.answered += 1;
        let is_denied = answer.decision.is_err();
        if rule.is_settled() && !is_denied {
            counts.count_store_admission();
        }
        if rule.is_settled() || is_denied {
            self.current += 1;
        }
        match (is_denied, rule.is_shadow) {
            (false, true) => {}
            (false, false) => self.readings.push(reading),
            (true, true) => {
                let (entry, reading) = (Arc::clone(&rule.entry), Some(reading));
                self.shadow_denials.push(ShadowDenial { entry, reading });
            }
            (true, false) => {
                counts.count_denial();
                self.readings.clear();
                if answer.origin == Origin::Fallback && rule.limits.denies_without_store() {
                    return Err(Reason::Unavailable);
                }
                self.readings.push(reading);
                return Err(Reason::OverLimit);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http::response;

    use super::*;

    /// Counts how often it was refunded.
    #[derive(Debug)]
    struct Refunded(Arc<AtomicUsize>);

    impl Charge for Refunded {
        fn refund(self: Box<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }

        fn answered(self: Box<Self>, _: &response::Parts) -> Option<Box<dyn Charge>> {
            None
        }

        fn sent(self: Box<Self>, _: u64) {}
    }

    #[test]
    fn a_request_that_a_store_denies_is_refunded_what_it_reserved() {
        let refunded = Arc::new(AtomicUsize::new(0));
        let finish = |ruling| {
            let charge: Box<dyn Charge> = Box::new(Refunded(Arc::clone(&refunded)));
            let admission = GatePermit { charge: Some(charge), ..GatePermit::default() };
            let (readings, shadow_denials) = (Vec::new(), Vec::new());
            let decided = LocalDecision { admission, readings, shadow_denials };
            PendingDecision::new(Vec::new(), decided, Arc::new(Metrics::new(1))).finish(ruling).0
        };
        let admitted = finish(Ok(()));
        assert!(admitted.is_ok_and(|permit| permit.charge.is_some()));
        assert_eq!(refunded.load(Ordering::Relaxed), 0);
        for (denied, reason) in [Reason::OverLimit, Reason::Unavailable].into_iter().enumerate() {
            assert!(finish(Err(reason)).is_err());
            assert_eq!(refunded.load(Ordering::Relaxed), denied + 1, "{reason:?}");
        }
    }
}
