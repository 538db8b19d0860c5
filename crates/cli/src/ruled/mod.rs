//! A log before a rules file: the gate that the proxy has, by the log's time.

mod tally;

use std::sync::Arc;

use anyhow::Result;
use tollgate::{ManualClock, Tick};
use tollgate_rules::{DenyReason, OnNoKey, Outcome, Rule, Rules, RulesLimiter};

use crate::charge::{JOINT, Request};
use crate::head::Asked;
pub(crate) use tally::{RuleCounts, RuledTally};

/// What requests without a key are told by, where they share a bucket.
const NO_KEY: &str = "(no key)";

/// The rules at work.
#[derive(Debug)]
pub(crate) struct Ruled {
    gate: RulesLimiter<ManualClock>,
    clock: Arc<ManualClock>,
    origin_unix_nanos: u64,
    /// The headers that the rules ask for.
    headers: Vec<String>,
    tally: RuledTally,
    /// Requests whose client was told by name.
    named_clients: u64,
    hits: Vec<Hit>,
}

/// A rule that applies to the request at hand, and the key it is counted by.
#[derive(Debug)]
struct Hit {
    rule: usize,
    is_shadow: bool,
    key: String,
}

impl Ruled {
    /// Nothing decided yet, with time beginning at the origin.
    pub(crate) fn new(rules: &Rules, origin_unix_nanos: u64, offset_secs: i32) -> Result<Self> {
        let clock = Arc::new(ManualClock::starting_at_unix_nanos(origin_unix_nanos));
        Ok(Self {
            headers: rules.required_headers().into_iter().map(str::to_owned).collect(),
            tally: RuledTally::new(rules.rules().len(), offset_secs),
            gate: RulesLimiter::with_clock(rules.clone(), Arc::clone(&clock))?,
            clock,
            origin_unix_nanos,
            named_clients: 0,
            hits: Vec::new(),
        })
    }

    /// Lets the rules decide about a request. Time never goes back.
    pub(crate) fn decide(&mut self, request: &Request, unix_nanos: u64) {
        self.clock.set(Tick::from_nanos(unix_nanos.saturating_sub(self.origin_unix_nanos)));
        self.named_clients += u64::from(request.head.has_client_name());
        self.hits.clear();
        let asked = Asked::new(&request.head, &self.headers);
        let (hits, tally) = (&mut self.hits, &mut self.tally);
        let verdict = self.gate.decide_among(&asked, request.cost, |index, rule| {
            // The gate has looked at the request for all rules; this is about one.
            let _ = asked.take_missing();
            let hit = hit(index, rule, &asked);
            let missing = asked.take_missing();
            if !missing.is_empty() {
                tally.leave_out(index, &missing);
                return false;
            }
            let applies = hit.is_some();
            hits.extend(hit);
            applies
        });
        tally.request(&request.key, unix_nanos, !verdict.is_admitted());
        for hit in &self.hits {
            let is_it = |denied: &&tollgate_rules::RuleDenial<'_>| {
                self.gate
                    .rules()
                    .nth(hit.rule)
                    .is_some_and(|its| its.name() == denied.rule().name())
            };
            let denied = match verdict.outcome() {
                Outcome::Denied(denied) if !hit.is_shadow => Some(denied).filter(is_it),
                _ => verdict.shadow_denials().iter().find(is_it),
            };
            let treated = match denied.map(|denied| denied.reason()) {
                Some(DenyReason::Banned(_)) => Treated::Banned,
                Some(DenyReason::NoKey | DenyReason::UnclearPath) => Treated::WithoutKey,
                Some(_) => Treated::Denied,
                None if verdict.is_admitted() => Treated::Admitted,
                None => Treated::ByOthers,
            };
            tally.count(hit.rule, &hit.key, treated);
        }
    }

    /// The rules, in the order of the file.
    pub(crate) fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.gate.rules()
    }

    pub(crate) fn tally(&self) -> &RuledTally {
        &self.tally
    }

    /// Requests whose client the log tells by a name in an address' place.
    pub(crate) fn named_clients(&self) -> u64 {
        self.named_clients
    }
}

/// What became of a request to which a rule applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Treated {
    Admitted,
    /// By a limit of the rule.
    Denied,
    /// By a ban of the rule.
    Banned,
    /// By the rule, since it has no key, or its path can be read in several ways.
    WithoutKey,
    /// Another rule denied it, so that this one did not count it.
    ByOthers,
}

/// The rule and its key, if it applies. Where it asks for what the log does not have, this means
/// nothing.
fn hit(index: usize, rule: &Rule, asked: &Asked<'_>) -> Option<Hit> {
    if !rule.matches(asked) {
        return None;
    }
    let values = rule.key().values(asked, |address| asked.address(address));
    let key = match (values, rule.on_no_key()) {
        (Some(values), _) => values.join(&JOINT.to_string()),
        (None, OnNoKey::Skip) => return None,
        (None, _) => NO_KEY.to_owned(),
    };
    Some(Hit { rule: index, is_shadow: rule.is_shadow(), key })
}
