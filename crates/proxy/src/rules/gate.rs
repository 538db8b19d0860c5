//! Decides requests by the rules of a file, or by built-in ones.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use arc_swap::ArcSwap;
use http::request::Parts;
use http::{HeaderValue, response};
use tollgate_http::{
    Charge, GatePermit, KeyError, PendingVerdict, Reading, Reason, Report, Verdict,
};
use tollgate_rules::{
    BytePace, Deferred, DenyReason, Held, LiveRules, Outcome, ReloadError, ReloadSummary,
    RuleDenial, RuleInFlight, RulePermit, Rules, RulesDecision, RulesFile, RulesLimiter,
};

use super::mistakes::first_mistakes;
use super::pace::PaceSlot;
use super::request_view::HeadView;
use crate::demo;
use crate::log;
use crate::metrics::{Decision, Metrics};
use crate::rule_counters::RuleCounters;
use crate::stores::{LocalDecision, PendingDecision, PendingRule, ShadowDenial, StoreLimits};

/// The largest number of warnings about unreachable rules that are logged.
const WARNINGS_LOGGED: usize = 5;

/// The gate of the proxy for the layer of `tollgate-http`.
#[derive(Debug)]
pub(crate) struct RulesGate {
    source: RulesSource,
    counters: ArcSwap<RuleCounters>,
    store_limits: ArcSwap<StoreLimits>,
    metrics: Arc<Metrics>,
    /// Whether the upstream receives the host of the client.
    preserves_host: bool,
    last_reload_failed: AtomicBool,
}

#[derive(Debug)]
enum RulesSource {
    BuiltIn(Box<RulesLimiter>),
    File(Arc<LiveRules>),
}

impl RulesGate {
    /// Opens the rules of a file, which [`follow`](super::follow()) then keeps up to date, or the built-in
    /// rules.
    pub(crate) fn open(
        file: Option<&Path>,
        preserves_host: bool,
        metrics: Arc<Metrics>,
    ) -> Result<(Self, Option<RulesFile>)> {
        // Before a limiter is built, which may change a quota that other processes share.
        let mut store_limits = StoreLimits::default();
        let fits = |rules: &Rules| {
            store_limits = StoreLimits::new(rules.rules().iter(), &store_limits)?;
            Ok(())
        };
        let file = file.map(|file| RulesFile::open_if(file, fits)).transpose();
        let file = file.map_err(|error| anyhow!(first_mistakes(&error)))?;
        let source = match &file {
            Some(file) => RulesSource::File(file.live()),
            None => {
                let rules = Rules::parse("built-in rules", demo::RULES)?;
                RulesSource::BuiltIn(Box::new(
                    RulesLimiter::new(rules).context("the built-in rules")?,
                ))
            }
        };
        let (counters, store_limits) = (ArcSwap::default(), ArcSwap::from_pointee(store_limits));
        let last_reload_failed = AtomicBool::new(false);
        let gate =
            Self { source, counters, store_limits, metrics, preserves_host, last_reload_failed };
        gate.renew_counters();
        gate.warn_about_rules();
        Ok((gate, file))
    }

    /// Warns about rules that no request reaches, and about rules that a client can evade by sending another
    /// host, which the upstream does not see.
    pub(super) fn warn_about_rules(&self) {
        self.read(|gate| {
            let warnings = gate.warnings();
            for warning in warnings.iter().take(WARNINGS_LOGGED) {
                log::warn(warning.message());
            }
            if let Some(more) = warnings.len().checked_sub(WARNINGS_LOGGED + 1) {
                log::warn(format_args!(
                    "{} more rules are never reached: `tollgate check` shows them",
                    more + 1
                ));
            }
        });
        if self.preserves_host {
            return;
        }
        self.read(|gate| {
            for rule in gate.rules().filter(|rule| rule.uses_host()) {
                log::warn(format_args!(
                    "rule \"{}\" matches the host, but the upstream does not receive it: a client that sends \
                     another host evades the rule; see --preserve-host",
                    rule.name()
                ));
            }
        });
    }

    fn renew_counters(&self) {
        let counters = self.read(|gate| RuleCounters::new(gate, &self.counters.load()));
        self.counters.store(Arc::new(counters));
    }

    /// Reloads the file if it changed or `is_forced`, and if all its limits can be kept.
    pub(super) fn renew(
        &self,
        file: &mut RulesFile,
        is_forced: bool,
    ) -> Result<Option<ReloadSummary>, ReloadError> {
        let before = self.store_limits.load_full();
        let mut undo =
            RestoreOnDrop { store_limits: &self.store_limits, before: Some(Arc::clone(&before)) };
        // The store limits of the new rules are in place before the rules are in force, and those of the old
        // rules stay a while after.
        let fits = |rules: &Rules| {
            self.store_limits.store(Arc::new(StoreLimits::new(rules.rules().iter(), &before)?));
            Ok(())
        };
        let outcome = match is_forced {
            true => file.reload_if(fits).map(Some),
            false => file.poll_if(fits),
        };
        if let Ok(Some(_)) = outcome {
            undo.before = None;
            self.renew_counters();
        }
        outcome
    }

    /// Reads the rules in force.
    pub(crate) fn read<R>(&self, read: impl FnOnce(&RulesLimiter) -> R) -> R {
        match &self.source {
            RulesSource::BuiltIn(gate) => read(gate),
            RulesSource::File(live) => read(&live.load()),
        }
    }

    /// The counters of each rule.
    pub(super) fn counters(&self) -> Arc<RuleCounters> {
        self.counters.load_full()
    }

    /// The limits in stores.
    pub(crate) fn store_limits(&self) -> Arc<StoreLimits> {
        self.store_limits.load_full()
    }

    /// The number of reloads, and the number of failed ones.
    pub(super) fn reloads(&self) -> (u64, u64) {
        match &self.source {
            RulesSource::BuiltIn(_) => (0, 0),
            RulesSource::File(live) => (live.reloads(), live.failures()),
        }
    }

    /// Notes the outcome of the last reload.
    pub(super) fn note_reload(&self, is_successful: bool) {
        self.last_reload_failed.store(!is_successful, Ordering::Relaxed);
    }

    /// Whether the last reload succeeded.
    pub(super) fn is_last_reload_successful(&self) -> bool {
        !self.last_reload_failed.load(Ordering::Relaxed)
    }

    fn translate(
        &self,
        request: &Parts,
        mut verdict: RulesDecision<'_>,
        report: &mut Report,
    ) -> Verdict {
        let counters = self.counters.load();
        let held = verdict.take_held();
        let paces = verdict.take_paces();
        let is_paced = !paces.is_empty();
        let slot = request.extensions.get::<PaceSlot>().filter(|_| is_paced);
        let response = HeldForResponse { held, pace: slot.cloned().map(|slot| (slot, paces)) };
        let shadow_denials = verdict.shadow_denials().iter().map(|denied| ShadowDenial {
            entry: counters.entry(denied.rule()),
            reading: denial(&counters, denied),
        });
        let permit = match verdict.outcome() {
            Outcome::NoRule => None,
            Outcome::Admitted(permit) => Some(permit),
            Outcome::Denied(denied) => return self.deny(&counters, denied, report),
        };
        let admission = admission(permit, response);
        let is_limited = permit.is_some() || is_paced || !verdict.in_flight().is_empty();
        let reading = permit.map(|permit| admitted(&counters, permit));
        let in_flight = verdict.in_flight().iter().map(|entry| entered(&counters, entry));
        let readings = reading.into_iter().chain(in_flight);
        if !verdict.deferred().is_empty() {
            let decided = LocalDecision {
                admission,
                readings: readings.collect(),
                shadow_denials: shadow_denials.collect(),
            };
            return self.ask_stores(&counters, verdict.deferred(), decided, report);
        }
        shadow_denials.for_each(|denial| denial.count(report));
        let decision = if is_limited { Decision::Admitted } else { Decision::NoRule };
        self.metrics.count_decision(decision);
        readings.for_each(|reading| report.note(reading));
        Verdict::Admit(admission)
    }

    fn deny(
        &self,
        counters: &RuleCounters,
        denied: &RuleDenial<'_>,
        report: &mut Report,
    ) -> Verdict {
        self.metrics.count_decision(Decision::Denied);
        counters.count(denied.rule(), |counts| &counts.denied);
        let bad_request = match denied.reason() {
            DenyReason::NoKey => Some(KeyError::Missing),
            DenyReason::UnclearPath => Some(KeyError::Malformed),
            _ => None,
        };
        if let Some(error) = bad_request {
            report.note_no_key(error);
            return Verdict::NoKey(error);
        }
        let Some(reading) = denial(counters, denied) else { return Verdict::Forbidden };
        report.note(reading);
        if denied.comes_too_late() { Verdict::QueueFull } else { Verdict::Deny }
    }

    /// Asks the limits in stores, after the limits of this process have admitted the request.
    fn ask_stores(
        &self,
        counters: &RuleCounters,
        deferred: &[Deferred<'_>],
        decided: LocalDecision,
        report: &mut Report,
    ) -> Verdict {
        let store_limits = self.store_limits.load();
        let pending_rule = |deferred: &Deferred<'_>| {
            let limits = Arc::clone(store_limits.find(deferred.rule())?);
            Some(PendingRule::new(deferred, limits, counters.entry(deferred.rule())))
        };
        let rules: Option<Vec<_>> = deferred.iter().map(pending_rule).collect();
        let found = rules.is_some();
        let metrics = Arc::clone(&self.metrics);
        let mut pending = PendingDecision::new(rules.unwrap_or_default(), decided, metrics);
        // The limits are missing if the rules were replaced twice meanwhile. Then the decision is unknown.
        let ruling = if found { pending.try_decide() } else { Some(Err(Reason::Unavailable)) };
        let (ruling, answers) = match ruling {
            None => return Verdict::Pending(PendingVerdict::new(pending.decide())),
            Some(ruling) => pending.finish(ruling),
        };
        match ruling {
            Err(Reason::OverLimit) => {
                extend_report(report, &answers);
                Verdict::Deny
            }
            Ok(admission) => {
                extend_report(report, &answers);
                Verdict::Admit(admission)
            }
            Err(_) => Verdict::Pending(PendingVerdict::new(std::future::ready((ruling, answers)))),
        }
    }
}

impl tollgate_http::Gate for RulesGate {
    fn decide(&self, request: &Parts, report: &mut Report) -> Verdict {
        self.read(|gate| self.translate(request, gate.decide(&HeadView(request)), report))
    }

    fn decide_queued(&self, request: &Parts, max_waiting: u64, report: &mut Report) -> Verdict {
        self.read(|gate| {
            self.translate(request, gate.decide_queued(&HeadView(request), max_waiting), report)
        })
    }
}

/// Restores the previous store limits on drop, also after a panic, unless `before` was taken.
struct RestoreOnDrop<'a> {
    store_limits: &'a ArcSwap<StoreLimits>,
    before: Option<Arc<StoreLimits>>,
}

impl Drop for RestoreOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(before) = self.before.take() {
            self.store_limits.store(before);
        }
    }
}

/// An admission with the delay of the permit, if there is one, and what is held for the response.
fn admission(permit: Option<&RulePermit<'_>>, response: HeldForResponse) -> GatePermit {
    let delay = permit.map_or(Duration::ZERO, RulePermit::delay);
    let charge: Option<Box<dyn Charge>> = match response.held.is_empty() && response.pace.is_none()
    {
        true => None,
        false => Some(Box::new(response)),
    };
    GatePermit { delay, charge }
}

/// The guards, the charges and the pace that an admitted request keeps for its response.
#[derive(Debug)]
struct HeldForResponse {
    /// The guards and charges, until the body of the response has ended, failed, or was dropped.
    held: Held,
    /// The pace of the body, and where the server looks for it.
    pace: Option<(PaceSlot, Vec<BytePace>)>,
}

impl Charge for HeldForResponse {
    fn refund(self: Box<Self>) {
        self.held.refund();
    }

    /// The pace is left here, since a denial by a store or after a wait is not paced.
    fn answered(mut self: Box<Self>, response: &response::Parts) -> Option<Box<dyn Charge>> {
        if let Some((slot, paces)) = self.pace.take() {
            slot.set(paces);
        }
        self.held.answered(|name| response.headers.get(name).map(HeaderValue::as_bytes));
        // After an upgrade there is no body to count, and the estimate stays charged.
        (!response.status.is_informational()).then_some(self as Box<dyn Charge>)
    }

    fn sent(mut self: Box<Self>, body_bytes: u64) {
        self.held.sent(body_bytes);
    }

    fn cut_short(mut self: Box<Self>, body_bytes: u64) {
        self.held.cut_short(body_bytes);
    }
}

/// Adds the readings of another report.
fn extend_report(report: &mut Report, answers: &Report) {
    answers.readings().for_each(|reading| report.note(reading.clone()));
    answers.shadow_denials().for_each(|reading| report.note_shadow(reading.clone()));
}

/// The reading of an admitted request, for the headers of the response.
fn admitted(counters: &RuleCounters, permit: &RulePermit<'_>) -> Reading {
    let policy = counters.policy(permit.rule(), permit.limit());
    let mut reading = Reading::new(policy, permit.limit().at_once(), permit.remaining());
    (reading.reset_after, reading.delay) = (permit.reset_after(), permit.delay());
    reading
}

/// The reading of a request in flight, for the headers of the response.
fn entered(counters: &RuleCounters, entry: &RuleInFlight<'_>) -> Reading {
    let rule = entry.rule();
    let policy = rule.concurrency().map(|its| counters.in_flight_policy(rule, its));
    Reading::new(policy.expect("the rule has it"), entry.limit(), entry.remaining())
}

/// The reading of a denial, for the headers of the response. A ban names the limit of the request's plan or else the
/// rule's first, and a missing key the first; or the requests in flight if the rule has no limit. A rule with
/// `action = "deny"` has neither.
fn denial(counters: &RuleCounters, denied: &RuleDenial<'_>) -> Option<Reading> {
    let rule = denied.rule();
    let banned = matches!(denied.reason(), DenyReason::Banned(_));
    if let Some(concurrency) = rule.concurrency()
        && (matches!(denied.reason(), DenyReason::InFlight(_)) || rule.limits().is_empty())
    {
        let policy = counters.in_flight_policy(rule, concurrency);
        let mut reading = Reading::new(policy, concurrency.limit(), 0);
        (reading.denied, reading.banned) = (true, banned);
        reading.retry_after = denied.retry_after();
        return Some(reading);
    }
    let limit = denied.reported_limit()?;
    let policy = counters.policy(denied.rule(), limit);
    let mut reading = Reading::new(policy, limit.at_once(), denied.remaining());
    reading.reset_after = denied.reset_after();
    reading.retry_after = denied.retry_after();
    (reading.denied, reading.banned) = (true, banned);
    Some(reading)
}
