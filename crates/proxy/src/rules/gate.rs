//! The rules at the proxy's gate: those of a file, which are followed, or built-in ones.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use arc_swap::ArcSwap;
use http::request::Parts;
use tollgate_http::{Admission, Asking, KeyError, Reading, Reason, Report, Verdict};
use tollgate_rules::{
    Deferred, Denial, DenyReason, Gate, LiveRules, Outcome, ReloadError, ReloadSummary, Rules,
    RulesFile, Standing,
};

use crate::demo;
use crate::log;
use crate::metrics::{Decision, Metrics};
use crate::rule_counters::RuleCounters;
use super::request_view::HeadView;
use crate::stores::{PendingDecision, PendingRule, StoreLimits};

/// Decides requests by rules.
#[derive(Debug)]
pub(crate) struct RulesGate {
    source: Source,
    counters: ArcSwap<RuleCounters>,
    shared: ArcSwap<StoreLimits>,
    metrics: Arc<Metrics>,
    /// Whether the upstream is sent the host that a client asks for.
    preserves_host: bool,
    last_reload_failed: AtomicBool,
}

#[derive(Debug)]
enum Source {
    BuiltIn(Box<Gate>),
    File(Arc<LiveRules>),
}

impl RulesGate {
    /// The rules of a file, which [`follow`] then keeps up to date; or the built-in ones.
    pub(crate) fn open(
        file: Option<&Path>,
        preserves_host: bool,
        metrics: Arc<Metrics>,
    ) -> Result<(Self, Option<RulesFile>)> {
        let file = file.map(RulesFile::open).transpose().map_err(|error| anyhow!(all_mistakes(&error)))?;
        let source = match &file {
            Some(file) => Source::File(file.live()),
            None => {
                let rules = Rules::parse("built-in rules", demo::RULES)?;
                Source::BuiltIn(Box::new(Gate::new(rules).context("the built-in rules")?))
            }
        };
        let (counters, shared) = (ArcSwap::default(), ArcSwap::default());
        let last_reload_failed = AtomicBool::new(false);
        let gate = Self { source, counters, shared, metrics, preserves_host, last_reload_failed };
        let shared = gate.read(|gate| StoreLimits::new(gate.rules(), &StoreLimits::default()));
        gate.shared.store(Arc::new(shared.map_err(|why| anyhow!(why))?));
        gate.renew_counters();
        gate.warn_of_hosts();
        Ok((gate, file))
    }

    /// Says which rules a client evades by asking for another host, since the upstream does not see it.
    pub(super) fn warn_of_hosts(&self) {
        if self.preserves_host {
            return;
        }
        self.read(|gate| {
            for rule in gate.rules().filter(|rule| rule.asks_for_host()) {
                log::warn(format_args!(
                    "rule \"{}\" asks for the host, which the upstream is not sent: under any other \
                     name a client reaches it uncounted; see --preserve-host",
                    rule.name()
                ));
            }
        });
    }

    fn renew_counters(&self) {
        let counters = self.read(|gate| RuleCounters::new(gate, &self.counters.load()));
        self.counters.store(Arc::new(counters));
    }

    /// Looks at the file; takes it over, if it changed or `is_told`, and all its limits can be kept.
    pub(super) fn renew(
        &self,
        file: &mut RulesFile,
        is_told: bool,
    ) -> Result<Option<ReloadSummary>, ReloadError> {
        let before = self.shared.load_full();
        let mut undo = RestoreOnDrop { shared: &self.shared, before: Some(Arc::clone(&before)) };
        // Those of the new rules are there before these are in force, and those of the old ones
        // still after.
        let fits = |rules: &Rules| {
            self.shared.store(Arc::new(StoreLimits::new(rules.rules().iter(), &before)?));
            Ok(())
        };
        let outcome = match is_told {
            true => file.reload_if(fits).map(Some),
            false => file.poll_if(fits),
        };
        if let Ok(Some(_)) = outcome {
            undo.before = None;
            self.renew_counters();
        }
        outcome
    }

    /// What there is to say of the rules in force.
    pub(crate) fn read<R>(&self, ask: impl FnOnce(&Gate) -> R) -> R {
        match &self.source {
            Source::BuiltIn(gate) => ask(gate),
            Source::File(live) => ask(&live.load()),
        }
    }

    /// What is kept of each rule.
    pub(crate) fn counters(&self) -> Arc<RuleCounters> {
        self.counters.load_full()
    }

    /// The limits in stores.
    pub(crate) fn shared(&self) -> Arc<StoreLimits> {
        self.shared.load_full()
    }

    /// How often the file was taken over, and how often it was wrong.
    pub(crate) fn reloads(&self) -> (u64, u64) {
        match &self.source {
            Source::BuiltIn(_) => (0, 0),
            Source::File(live) => (live.reloads(), live.failures()),
        }
    }

    /// Notes how the last look at a changed file ended.
    pub(super) fn note_reload(&self, is_successful: bool) {
        self.last_reload_failed.store(!is_successful, Ordering::Relaxed);
    }

    /// Whether the file was right when it was last looked at.
    pub(super) fn is_last_reload_successful(&self) -> bool {
        !self.last_reload_failed.load(Ordering::Relaxed)
    }

    fn judge(&self, verdict: &tollgate_rules::Verdict<'_>, report: &mut Report) -> Verdict {
        let counters = self.counters.load();
        for denied in verdict.shadowed() {
            counters.count(denied.rule(), |counts| &counts.shadow_denied);
            report.note_shadow(denial(&counters, denied));
        }
        let standing = match verdict.outcome() {
            Outcome::NoRule => None,
            Outcome::Admitted(standing) => Some(standing),
            Outcome::Denied(denied) => return self.deny(&counters, denied, report),
        };
        let reading = standing.map(|standing| admitted(&counters, standing));
        let delay = reading.as_ref().map_or(Duration::ZERO, |reading| reading.delay);
        let admission = Admission { delay, charge: None };
        if !verdict.elsewhere().is_empty() {
            return self.ask(&counters, verdict.elsewhere(), admission, reading, report);
        }
        let decision = if standing.is_some() { Decision::Admitted } else { Decision::NoRule };
        self.metrics.count_decision(decision);
        reading.into_iter().for_each(|reading| report.note(reading));
        Verdict::Admit(admission)
    }

    fn deny(&self, counters: &RuleCounters, denied: &Denial<'_>, report: &mut Report) -> Verdict {
        self.metrics.count_decision(Decision::Denied);
        counters.count(denied.rule(), |counts| &counts.denied);
        let bad_request = match denied.why() {
            DenyReason::NoKey => Some(KeyError::Missing),
            DenyReason::UnclearPath => Some(KeyError::Malformed),
            _ => None,
        };
        if let Some(error) = bad_request {
            report.note_without_key(error);
            return Verdict::WithoutKey(error);
        }
        report.note(denial(counters, denied));
        // It has its cell, so its turn is what comes too late.
        let fits = matches!(denied.why(), DenyReason::Limit(..)) && denied.remaining() > 0;
        if fits { Verdict::QueueFull } else { Verdict::Deny }
    }

    /// Goes on with the limits in stores, since those of this process admit the request.
    fn ask(
        &self,
        counters: &RuleCounters,
        elsewhere: &[Deferred<'_>],
        admission: Admission,
        reading: Option<Reading>,
        report: &mut Report,
    ) -> Verdict {
        let shared = self.shared.load();
        let question = |asked: &Deferred<'_>| {
            let limits = Arc::clone(shared.find(asked.rule())?);
            Some(PendingRule::new(asked, limits, counters.entry(asked.rule())))
        };
        let questions: Option<Vec<_>> = elsewhere.iter().map(question).collect();
        let found = questions.is_some();
        let metrics = Arc::clone(&self.metrics);
        let mut pending = PendingDecision::new(questions.unwrap_or_default(), admission, reading, metrics);
        // Without its limits, of rules that were replaced twice meanwhile, nobody can tell.
        let ruling = if found { pending.try_decide() } else { Some(Err(Reason::Unavailable)) };
        let (ruling, said) = match ruling {
            None => return Verdict::Ask(Asking::new(pending.ask())),
            Some(ruling) => pending.rule(ruling),
        };
        match ruling {
            Err(Reason::OverLimit) => {
                tell(report, &said);
                Verdict::Deny
            }
            Ok(admission) => {
                tell(report, &said);
                Verdict::Admit(admission)
            }
            Err(_) => Verdict::Ask(Asking::new(std::future::ready((ruling, said)))),
        }
    }
}

impl tollgate_http::Gate for RulesGate {
    fn decide(&self, request: &Parts, report: &mut Report) -> Verdict {
        self.read(|gate| self.judge(&gate.decide(&HeadView(request)), report))
    }

    fn decide_queued(&self, request: &Parts, max_waiting: u64, report: &mut Report) -> Verdict {
        self.read(|gate| self.judge(&gate.decide_queued(&HeadView(request), max_waiting), report))
    }
}

/// Puts the limits in stores back when it is dropped, also by a panic, unless nothing is left to undo.
struct RestoreOnDrop<'a> {
    shared: &'a ArcSwap<StoreLimits>,
    before: Option<Arc<StoreLimits>>,
}

impl Drop for RestoreOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(before) = self.before.take() {
            self.shared.store(before);
        }
    }
}

/// Adds what was said elsewhere.
fn tell(report: &mut Report, said: &Report) {
    said.readings().for_each(|reading| report.note(reading.clone()));
    said.shadow_denials().for_each(|reading| report.note_shadow(reading.clone()));
}

/// How a request stands, as clients are told of it.
fn admitted(counters: &RuleCounters, standing: &Standing<'_>) -> Reading {
    let policy = counters.policy(standing.rule(), standing.limit());
    let limit = standing.limit().quota().limit();
    let mut reading = Reading::new(policy, limit, standing.remaining());
    (reading.reset_after, reading.delay) = (standing.reset_after(), standing.delay());
    reading
}

/// A denial as clients are told of it. Of a ban, and where there is no key, the rule's first limit
/// is named.
fn denial(counters: &RuleCounters, denied: &Denial<'_>) -> Reading {
    let limit = denied.limit().unwrap_or(&denied.rule().limits()[0]);
    let policy = counters.policy(denied.rule(), limit);
    let mut reading = Reading::new(policy, limit.quota().limit(), denied.remaining());
    reading.reset_after = denied.reset_after();
    reading.retry_after = denied.retry_after();
    reading.denied = true;
    reading
}

/// All that is wrong, with the lines.
fn all_mistakes(error: &ReloadError) -> String {
    match error {
        ReloadError::Rules(wrong) => wrong.with_source(),
        other => other.to_string(),
    }
}
