//! The rules at the proxy's gate: those of a file, which are followed, or built-in ones.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use arc_swap::ArcSwap;
use http::request::Parts;
use tokio::time::MissedTickBehavior;
use tollgate_http::{Admission, KeyError, Reading, Report, Verdict};
use tollgate_rules::{Gate, LiveRules, Outcome, Refused, ReloadError, Rules, RulesFile, Why};

use super::book::Book;
use super::demo;
use super::facts::Head;
use super::metrics::{Decision, Metrics};
use super::stop::Hangups;

/// How often the file is looked at.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Decides requests by rules.
#[derive(Debug)]
pub(super) struct RulesGate {
    source: Source,
    book: ArcSwap<Book>,
    metrics: Arc<Metrics>,
}

#[derive(Debug)]
enum Source {
    BuiltIn(Box<Gate>),
    File(Arc<LiveRules>),
}

impl RulesGate {
    /// The rules of a file, which [`follow`] then keeps up to date; or the built-in ones.
    pub(super) fn open(
        file: Option<&Path>,
        metrics: Arc<Metrics>,
    ) -> Result<(Self, Option<RulesFile>)> {
        let file = file.map(RulesFile::open).transpose().map_err(|error| anyhow!(told(&error)))?;
        let source = match &file {
            Some(file) => Source::File(file.live()),
            None => {
                let rules = Rules::parse("built-in rules", demo::RULES)?;
                Source::BuiltIn(Box::new(Gate::new(rules).context("the built-in rules")?))
            }
        };
        let gate = Self { source, book: ArcSwap::default(), metrics };
        gate.renew_book();
        Ok((gate, file))
    }

    fn renew_book(&self) {
        let book = self.read(|gate| Book::new(gate, &self.book.load()));
        self.book.store(Arc::new(book));
    }

    /// What there is to say of the rules in force.
    pub(super) fn read<R>(&self, ask: impl FnOnce(&Gate) -> R) -> R {
        match &self.source {
            Source::BuiltIn(gate) => ask(gate),
            Source::File(live) => ask(&live.load()),
        }
    }

    /// What is kept of each rule.
    pub(super) fn book(&self) -> Arc<Book> {
        self.book.load_full()
    }

    /// How often the file was taken over, and how often it was wrong.
    pub(super) fn reloads(&self) -> (u64, u64) {
        match &self.source {
            Source::BuiltIn(_) => (0, 0),
            Source::File(live) => (live.reloads(), live.failures()),
        }
    }

    fn judge(&self, gate: &Gate, request: &Parts, report: &mut Report) -> Verdict {
        let verdict = gate.decide(&Head(request));
        let book = self.book.load();
        for refused in verdict.shadowed() {
            book.count(refused.rule(), |counts| &counts.shadow_refused);
            report.note_shadow(refusal(&book, refused));
        }
        match verdict.outcome() {
            Outcome::NoRule => {
                self.metrics.count_decision(Decision::NoRule);
                Verdict::Admit(Admission::default())
            }
            Outcome::Admitted(standing) => {
                self.metrics.count_decision(Decision::Admitted);
                let policy = book.policy(standing.rule(), standing.limit());
                let limit = standing.limit().quota().limit();
                let (reset_after, delay) = (standing.reset_after(), standing.delay());
                let reading = Reading::new(policy, limit, standing.remaining());
                report.note(with_times(reading, reset_after, delay));
                Verdict::Admit(Admission { delay, charge: None })
            }
            Outcome::Refused(refused) => {
                self.metrics.count_decision(Decision::Refused);
                book.count(refused.rule(), |counts| &counts.refused);
                if let Why::NoKey = refused.why() {
                    report.note_without_key(KeyError::Missing);
                    return Verdict::WithoutKey(KeyError::Missing);
                }
                report.note(refusal(&book, refused));
                Verdict::Refuse
            }
        }
    }
}

impl tollgate_http::Gate for RulesGate {
    fn decide(&self, request: &Parts, report: &mut Report) -> Verdict {
        self.read(|gate| self.judge(gate, request, report))
    }
}

fn with_times(mut reading: Reading, reset_after: Duration, delay: Duration) -> Reading {
    reading.reset_after = reset_after;
    reading.delay = delay;
    reading
}

/// A refusal as clients are told of it. Of a ban, and where there is no key, the rule's first limit
/// is named.
fn refusal(book: &Book, refused: &Refused<'_>) -> Reading {
    let limit = refused.limit().unwrap_or(&refused.rule().limits()[0]);
    let policy = book.policy(refused.rule(), limit);
    let mut reading = Reading::new(policy, limit.quota().limit(), refused.remaining());
    reading.reset_after = refused.reset_after();
    reading.retry_after = refused.retry_after();
    reading.refused = true;
    reading
}

/// Looks at the file every second, and when the process is told to (SIGHUP), for ever.
pub(super) async fn follow(mut file: RulesFile, gate: Arc<RulesGate>, mut hangups: Hangups) {
    let mut ticks = tokio::time::interval(POLL_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let is_told = tokio::select! {
            _ = ticks.tick() => false,
            () = hangups.next() => true,
        };
        // The file may be slow to read, and tables are reserved.
        let read = tokio::task::spawn_blocking(move || {
            let outcome = if is_told { file.reload().map(Some) } else { file.poll() };
            (file, outcome)
        });
        let outcome;
        (file, outcome) = read.await.expect("reading rules does not panic");
        match outcome {
            Ok(None) => {}
            Ok(Some(carried)) => {
                gate.renew_book();
                gate.metrics.rules_were_read(true);
                eprintln!("tollgate: rules reloaded: {carried}");
            }
            Err(error) => {
                gate.metrics.rules_were_read(false);
                eprintln!("tollgate: the rules in force stay as they are\n{}", told(&error));
            }
        }
    }
}

/// All that is wrong, with the lines.
fn told(error: &ReloadError) -> String {
    match error {
        ReloadError::Rules(wrong) => wrong.with_source(),
        other => other.to_string(),
    }
}
