//! Replays a log through a rules file, with the limiter of the proxy and the time of the log.

mod tally;

use std::sync::Arc;

use anyhow::Result;
use tollgate::{ManualClock, Tick};
use tollgate_rules::{DenyReason, OnNoKey, Outcome, Rule, Rules, RulesLimiter};

use crate::contender::HASH_SEED;
use crate::log::charge::{JOINT, LogEntry, shorten};
use crate::log::logged_request::LoggedRequestView;
pub(crate) use tally::{RuleCounts, RulesTally};

/// The key of requests without a key, if they share a bucket.
const NO_KEY: &str = "(no key)";

/// The limiter of a rules file, and the counts of its rules.
#[derive(Debug)]
pub(crate) struct RulesReplay {
    limiter: RulesLimiter<ManualClock>,
    clock: Arc<ManualClock>,
    origin_unix_nanos: u64,
    /// The headers that the rules need.
    headers: Vec<String>,
    tally: RulesTally,
    /// Requests whose client the log gives by name.
    named_clients: u64,
    applied: Vec<AppliedRule>,
}

/// A rule that applies to the current request, and the key that it counts.
#[derive(Debug)]
struct AppliedRule {
    rule: usize,
    is_shadow: bool,
    key: String,
    /// The request has no key, and the rule skips such requests. It still denies a path that is unclear.
    is_skipped: bool,
}

impl RulesReplay {
    /// Builds the limiter. Time starts at the origin.
    pub(crate) fn new(rules: &Rules, origin_unix_nanos: u64, offset_secs: i32) -> Result<Self> {
        let clock = Arc::new(ManualClock::starting_at_unix_nanos(origin_unix_nanos));
        Ok(Self {
            headers: rules.required_headers().into_iter().map(str::to_owned).collect(),
            tally: RulesTally::new(rules.rules().len(), offset_secs),
            limiter: RulesLimiter::repeatable(rules.clone(), Arc::clone(&clock), HASH_SEED)?,
            clock,
            origin_unix_nanos,
            named_clients: 0,
            applied: Vec::new(),
        })
    }

    /// Decides a request, unless it is none of HTTP: a proxy answers that before its rules. Time never goes back.
    pub(crate) fn decide(&mut self, request: &LogEntry, unix_nanos: u64) {
        if !request.is_http {
            return self.tally.count_not_http(unix_nanos);
        }
        self.clock.set(Tick::from_nanos(unix_nanos.saturating_sub(self.origin_unix_nanos)));
        self.named_clients += u64::from(request.logged.has_client_name());
        self.applied.clear();
        let view = LoggedRequestView::new(&request.logged, &self.headers);
        let (applied, tally) = (&mut self.applied, &mut self.tally);
        let (limiter, max_waiting) = (&self.limiter, RulesLimiter::MAX_WAITING_PER_KEY);
        let verdict =
            limiter.decide_queued_among(&view, request.cost, max_waiting, |index, rule| {
                // Discard what earlier rules missed: from here on, the view notes the missing parts of this rule.
                let _ = view.take_missing();
                let one = applied_rule(index, rule, &view);
                if rule.matches_ip() {
                    view.need_address();
                }
                let missing = view.take_missing();
                if !missing.is_empty() {
                    tally.leave_out(index, &missing);
                    return false;
                }
                let applies = one.is_some();
                applied.extend(one);
                applies
            });
        tally.request(&request.key, unix_nanos, !verdict.is_admitted());
        for one in &self.applied {
            let is_it = |denied: &&tollgate_rules::RuleDenial<'_>| {
                self.limiter
                    .rules()
                    .nth(one.rule)
                    .is_some_and(|rule| rule.name() == denied.rule().name())
            };
            let denied = match verdict.outcome() {
                Outcome::Denied(denied) if !one.is_shadow => Some(denied).filter(is_it),
                _ => verdict.shadow_denials().iter().find(is_it),
            };
            let outcome = match denied.map(|denied| denied.reason()) {
                Some(DenyReason::Banned(_)) => RuleOutcome::Banned,
                Some(DenyReason::NoKey) => RuleOutcome::WithoutKey,
                Some(DenyReason::UnclearPath) => RuleOutcome::UnclearPath,
                Some(_) => RuleOutcome::Denied,
                None if one.is_skipped => continue,
                None if verdict.is_admitted() => RuleOutcome::Admitted,
                None => RuleOutcome::DeniedByOthers,
            };
            tally.count(one.rule, &one.key, outcome);
        }
    }

    /// The rules, in the order of the file.
    pub(crate) fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.limiter.rules()
    }

    pub(crate) fn tally(&self) -> &RulesTally {
        &self.tally
    }

    /// Requests whose client the log gives by name instead of by address.
    pub(crate) fn named_clients(&self) -> u64 {
        self.named_clients
    }
}

/// The outcome of a request to which a rule applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RuleOutcome {
    Admitted,
    /// Denied by a limit of the rule.
    Denied,
    /// Denied by a ban of the rule.
    Banned,
    /// Denied by the rule because the request has no key.
    WithoutKey,
    /// Denied by the rule because it applies by one reading of the path and not by another.
    UnclearPath,
    /// Another rule denied the request, so this rule did not charge it.
    DeniedByOthers,
}

/// The rule and the key that it counts, if the rule applies. The result is meaningless if the rule needs data that the
/// log does not record; the view has then noted them.
fn applied_rule(index: usize, rule: &Rule, view: &LoggedRequestView<'_>) -> Option<AppliedRule> {
    if !rule.matches(view) {
        return None;
    }
    // These calls read the headers that choose the plan and the cost. The view notes each header that the log lacks.
    let _ = (rule.limits_of(view), rule.cost_of(view));
    let values = rule.key().values(view, |address| view.address(address));
    let is_skipped = values.is_none() && rule.on_no_key() == OnNoKey::Skip;
    let mut key =
        values.map_or_else(|| NO_KEY.to_owned(), |values| values.join(&JOINT.to_string()));
    shorten(&mut key);
    Some(AppliedRule { rule: index, is_shadow: rule.is_shadow(), key, is_skipped })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::charge::Charge;
    use crate::log::format::{Format, Reader};

    #[test]
    fn a_line_that_is_no_request_of_http_charges_and_bans_no_client() {
        let rules = "[[rule]]\nname = \"all\"\nlimits = \"2/d\"\npenalty = \"1 h\"\n";
        let rules = Rules::parse("rules.toml", rules).unwrap();
        let mut rules_replay = RulesReplay::new(&rules, 0, 0).unwrap();
        let (key, cost) = ("ip".parse().unwrap(), "1".parse().unwrap());
        let charge = Charge { key, cost, headers: Some(Vec::new()) };
        let mut reader = Reader::new(Format::Clf, None).unwrap();
        let mut entry = LogEntry::default();
        for request in ["-", "\\x16\\x03", "GET / HTTP/1.1", "", "GET x HTTP/1.1", "GET / HTTP/1.1"]
        {
            let line = format!("192.0.2.1 - - [01/Jan/1970:00:00:00 +0000] \"{request}\" 400 -");
            reader.read(&line, &charge, &mut entry).unwrap().unwrap();
            rules_replay.decide(&entry, 0);
        }
        let counts = rules_replay.tally().rules().next().unwrap();
        assert_eq!((counts.requests, counts.admitted, counts.denied), (2, 2, 0));
        assert_eq!(rules_replay.tally().all_rules().requests, 2);
        assert_eq!(rules_replay.tally().lines_not_http(), 4);
    }
}
