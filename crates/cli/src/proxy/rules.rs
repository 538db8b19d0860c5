//! The rules at the proxy's gate: those of a file, which are followed, or built-in ones.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use arc_swap::ArcSwap;
use http::request::Parts;
use tokio::sync::Mutex;
use tokio::time::MissedTickBehavior;
use tollgate_http::{GatePermit, KeyError, PendingVerdict, Reading, Reason, Report, Verdict};
use tollgate_rules::{
    Deferred, DenyReason, LiveRules, Outcome, ReloadError, ReloadSummary, RuleDenial, RulePermit,
    Rules, RulesFile, RulesLimiter,
};

use super::book::Book;
use super::demo;
use super::facts::Head;
use super::log;
use super::metrics::{Decision, Metrics};
use super::shared::{Inquiry, Question, Shared};
use super::stop::Hangups;
use crate::args::ProxyArgs;

/// How often the file is looked at.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How long a reload waits until its line of the log is written.
const LOG_PATIENCE: Duration = Duration::from_millis(100);
/// So many mistakes of a file are logged; `tollgate check` shows all.
const MISTAKES_LOGGED: usize = 5;

/// Decides requests by rules.
#[derive(Debug)]
pub(super) struct RulesGate {
    source: Source,
    book: ArcSwap<Book>,
    shared: ArcSwap<Shared>,
    metrics: Arc<Metrics>,
    /// Whether the upstream is sent the host that a client asks for.
    preserves_host: bool,
}

#[derive(Debug)]
enum Source {
    BuiltIn(Box<RulesLimiter>),
    File(Arc<LiveRules>),
}

impl RulesGate {
    /// The rules of a file, which [`follow`] then keeps up to date; or the built-in ones.
    pub(super) fn open(
        args: &ProxyArgs,
        metrics: Arc<Metrics>,
    ) -> Result<(Self, Option<RulesFile>)> {
        let file = args
            .rules
            .as_ref()
            .map(RulesFile::open)
            .transpose()
            .map_err(|error| anyhow!(told(&error)))?;
        let source = match &file {
            Some(file) => Source::File(file.live()),
            None => {
                let rules = Rules::parse("built-in rules", demo::RULES)?;
                Source::BuiltIn(Box::new(RulesLimiter::new(rules).context("the built-in rules")?))
            }
        };
        let (book, shared) = (ArcSwap::default(), ArcSwap::default());
        let gate = Self { source, book, shared, metrics, preserves_host: args.preserve_host };
        let shared = gate.read(|gate| Shared::new(gate.rules(), &Shared::default()));
        gate.shared.store(Arc::new(shared.map_err(|why| anyhow!(why))?));
        gate.renew_book();
        gate.warn_of_hosts();
        Ok((gate, file))
    }

    /// Says which rules a client evades by asking for another host, since the upstream does not see it.
    fn warn_of_hosts(&self) {
        if self.preserves_host {
            return;
        }
        self.read(|gate| {
            for rule in gate.rules().filter(|rule| rule.uses_host()) {
                log::warn(format_args!(
                    "rule \"{}\" asks for the host, which the upstream is not sent: under any other \
                     name a client reaches it uncounted; see --preserve-host",
                    rule.name()
                ));
            }
        });
    }

    fn renew_book(&self) {
        let book = self.read(|gate| Book::new(gate, &self.book.load()));
        self.book.store(Arc::new(book));
    }

    /// Looks at the file; takes it over, if it changed or `is_told`, and all its limits can be kept.
    fn renew(
        &self,
        file: &mut RulesFile,
        is_told: bool,
    ) -> Result<Option<ReloadSummary>, ReloadError> {
        let before = self.shared.load_full();
        let mut undo = Undo { shared: &self.shared, before: Some(Arc::clone(&before)) };
        // Those of the new rules are there before these are in force, and those of the old ones
        // still after.
        let fits = |rules: &Rules| {
            self.shared.store(Arc::new(Shared::new(rules.rules().iter(), &before)?));
            Ok(())
        };
        let outcome = match is_told {
            true => file.reload_if(fits).map(Some),
            false => file.poll_if(fits),
        };
        if let Ok(Some(_)) = outcome {
            undo.before = None;
            self.renew_book();
        }
        outcome
    }

    /// What there is to say of the rules in force.
    pub(super) fn read<R>(&self, ask: impl FnOnce(&RulesLimiter) -> R) -> R {
        match &self.source {
            Source::BuiltIn(gate) => ask(gate),
            Source::File(live) => ask(&live.load()),
        }
    }

    /// What is kept of each rule.
    pub(super) fn book(&self) -> Arc<Book> {
        self.book.load_full()
    }

    /// The limits in stores.
    pub(super) fn shared(&self) -> Arc<Shared> {
        self.shared.load_full()
    }

    /// How often the file was taken over, and how often it was wrong.
    pub(super) fn reloads(&self) -> (u64, u64) {
        match &self.source {
            Source::BuiltIn(_) => (0, 0),
            Source::File(live) => (live.reloads(), live.failures()),
        }
    }

    fn judge(&self, verdict: &tollgate_rules::RulesDecision<'_>, report: &mut Report) -> Verdict {
        let book = self.book.load();
        for denied in verdict.shadow_denials() {
            book.count(denied.rule(), |counts| &counts.shadow_denied);
            report.note_shadow(denial(&book, denied));
        }
        let standing = match verdict.outcome() {
            Outcome::NoRule => None,
            Outcome::Admitted(standing) => Some(standing),
            Outcome::Denied(denied) => return self.deny(&book, denied, report),
        };
        let reading = standing.map(|standing| admitted(&book, standing));
        let delay = reading.as_ref().map_or(Duration::ZERO, |reading| reading.delay);
        let admission = GatePermit { delay, charge: None };
        if !verdict.deferred().is_empty() {
            return self.ask(&book, verdict.deferred(), admission, reading, report);
        }
        let decision = if standing.is_some() { Decision::Admitted } else { Decision::NoRule };
        self.metrics.count_decision(decision);
        reading.into_iter().for_each(|reading| report.note(reading));
        Verdict::Admit(admission)
    }

    fn deny(&self, book: &Book, denied: &RuleDenial<'_>, report: &mut Report) -> Verdict {
        self.metrics.count_decision(Decision::Denied);
        book.count(denied.rule(), |counts| &counts.denied);
        let bad_request = match denied.reason() {
            DenyReason::NoKey => Some(KeyError::Missing),
            DenyReason::UnclearPath => Some(KeyError::Malformed),
            _ => None,
        };
        if let Some(error) = bad_request {
            report.note_no_key(error);
            return Verdict::NoKey(error);
        }
        report.note(denial(book, denied));
        // It has its cell, so its turn is what comes too late.
        let fits = matches!(denied.reason(), DenyReason::Limit(..)) && denied.remaining() > 0;
        if fits { Verdict::QueueFull } else { Verdict::Deny }
    }

    /// Goes on with the limits in stores, since those of this process admit the request.
    fn ask(
        &self,
        book: &Book,
        elsewhere: &[Deferred<'_>],
        admission: GatePermit,
        reading: Option<Reading>,
        report: &mut Report,
    ) -> Verdict {
        let shared = self.shared.load();
        let question = |asked: &Deferred<'_>| {
            let limits = Arc::clone(shared.find(asked.rule())?);
            Some(Question::new(asked, limits, book.page(asked.rule())))
        };
        let questions: Option<Vec<_>> = elsewhere.iter().map(question).collect();
        let found = questions.is_some();
        let metrics = Arc::clone(&self.metrics);
        let mut inquiry = Inquiry::new(questions.unwrap_or_default(), admission, reading, metrics);
        // Without its limits, of rules that were replaced twice meanwhile, nobody can tell.
        let ruling = if found { inquiry.ask_now() } else { Some(Err(Reason::Unavailable)) };
        let (ruling, said) = match ruling {
            None => return Verdict::Pending(PendingVerdict::new(inquiry.ask())),
            Some(ruling) => inquiry.rule(ruling),
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
            Err(_) => Verdict::Pending(PendingVerdict::new(std::future::ready((ruling, said)))),
        }
    }
}

impl tollgate_http::Gate for RulesGate {
    fn decide(&self, request: &Parts, report: &mut Report) -> Verdict {
        self.read(|gate| self.judge(&gate.decide(&Head(request)), report))
    }

    fn decide_queued(&self, request: &Parts, max_waiting: u64, report: &mut Report) -> Verdict {
        self.read(|gate| self.judge(&gate.decide_queued(&Head(request), max_waiting), report))
    }
}

/// Puts the limits in stores back when it is dropped, also by a panic, unless nothing is left to undo.
struct Undo<'a> {
    shared: &'a ArcSwap<Shared>,
    before: Option<Arc<Shared>>,
}

impl Drop for Undo<'_> {
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
fn admitted(book: &Book, standing: &RulePermit<'_>) -> Reading {
    let policy = book.policy(standing.rule(), standing.limit());
    let limit = standing.limit().quota().limit();
    let mut reading = Reading::new(policy, limit, standing.remaining());
    (reading.reset_after, reading.delay) = (standing.reset_after(), standing.delay());
    reading
}

/// A denial as clients are told of it. Of a ban, and where there is no key, the rule's first limit
/// is named.
fn denial(book: &Book, denied: &RuleDenial<'_>) -> Reading {
    let limit = denied.limit().unwrap_or(&denied.rule().limits()[0]);
    let policy = book.policy(denied.rule(), limit);
    let mut reading = Reading::new(policy, limit.quota().limit(), denied.remaining());
    reading.reset_after = denied.reset_after();
    reading.retry_after = denied.retry_after();
    reading.denied = true;
    reading
}

/// A rules file, the rules that it keeps up to date, and the signals that ask for it.
#[derive(Debug)]
pub(super) struct Follower {
    file: RulesFile,
    gate: Arc<RulesGate>,
    hangups: Hangups,
    /// The mistake that was logged last, until the file is right.
    told: Option<String>,
}

impl Follower {
    pub(super) fn new(file: RulesFile, gate: Arc<RulesGate>, hangups: Hangups) -> Arc<Mutex<Self>> {
        Arc::new(Mutex::new(Self { file, gate, hangups, told: None }))
    }

    /// Looks at the file, and says what came of it. A mistake is logged again only if the process was
    /// told to look.
    fn renew(&mut self, is_told: bool) {
        let metrics = &self.gate.metrics;
        match self.gate.renew(&mut self.file, is_told) {
            Ok(None) => {}
            Ok(Some(carried)) => {
                self.told = None;
                log::info(format_args!("rules reloaded: {carried}"));
                for warning in &carried.warnings {
                    log::warn(warning);
                }
                self.gate.warn_of_hosts();
                log::flush(LOG_PATIENCE);
                metrics.rules_were_read(true);
            }
            Err(error) => {
                let why = briefly(&error);
                if is_told || self.told.as_ref() != Some(&why) {
                    log::error(format_args!("the rules in force stay as they are\n{why}"));
                    self.told = Some(why);
                }
                // The reason is in the log before the metric shows the failure.
                log::flush(LOG_PATIENCE);
                metrics.rules_were_read(false);
            }
        }
    }
}

/// Looks at the file every second, and at each SIGHUP. Returns only if a look panics; the rules in force
/// then stay as they are.
pub(super) async fn follow(follower: Arc<Mutex<Follower>>) {
    let mut ticks = tokio::time::interval(POLL_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut follower = follower.lock_owned().await;
    let metrics = Arc::clone(&follower.gate.metrics);
    loop {
        let is_told = tokio::select! {
            _ = ticks.tick() => false,
            () = follower.hangups.next() => true,
        };
        // The file may be slow to read, and tables are reserved.
        let renewed = tokio::task::spawn_blocking(move || {
            follower.renew(is_told);
            follower
        });
        match renewed.await {
            Ok(its) => follower = its,
            Err(_) => return metrics.rules_were_read(false),
        }
    }
}

/// The first mistakes, each with its line, in a few lines.
fn briefly(error: &ReloadError) -> String {
    let ReloadError::Rules(wrong) = error else { return error.to_string() };
    let (file, errors) = (wrong.file(), wrong.errors());
    let shown = errors.iter().take(MISTAKES_LOGGED);
    let mut text: Vec<String> = shown
        .map(|error| format!("{file}:{}:{}: {}", error.line(), error.column(), error.message()))
        .collect();
    if errors.len() > MISTAKES_LOGGED {
        let more = errors.len() - MISTAKES_LOGGED;
        text.push(format!("and {more} more: `tollgate check {file}` shows all of them"));
    }
    text.join("\n")
}

/// All that is wrong, with the lines.
fn told(error: &ReloadError) -> String {
    match error {
        ReloadError::Rules(wrong) => wrong.with_source(),
        other => other.to_string(),
    }
}
