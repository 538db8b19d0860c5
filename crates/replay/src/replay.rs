//! The replay itself: each line becomes a request, and each limiter decides it.

use std::io;

use anyhow::{Context, Result, bail};

use crate::log::charge::LogEntry;
use crate::log::fields::{Malformed, Stamp};
use crate::log::format::{self, Reader};
use crate::log::lines::{Input, Line, Lines, Unrecognised};
use crate::outcome::{Incomplete, ReplayOutcome, SkippedLine};
use crate::plan::ReplayPlan;
use crate::progress::Progress;
use crate::report::decisions::Decisions;
use crate::suggest::{AnalysisOptions, Trace};

/// Malformed lines that are kept for the report; all are counted.
const MALFORMED_SHOWN: usize = 5;

/// Replays all inputs of the plan.
///
/// # Errors
///
/// A limiter cannot be built, or an input cannot be opened or is in no known format. An input that
/// ends early is not an error: see [`ReplayOutcome::incomplete`].
pub fn run(plan: &ReplayPlan) -> Result<ReplayOutcome> {
    // The limiters are built before any input is read, so that a rule that cannot be kept is found
    // immediately. The first line sets the start of time, and they are built again.
    let outcome = ReplayOutcome::starting_at(plan, Stamp { unix_nanos: 0, offset_secs: 0 })?;
    let sizes = plan.inputs.iter().map(Input::bytes).collect::<Result<Vec<_>>>()?;
    let decisions = plan.decisions.as_deref().map(Decisions::create).transpose()?;
    let mut session = Session {
        plan,
        outcome,
        decisions,
        progress: Progress::new(sizes.into_iter().sum()),
        request: LogEntry::default(),
        trace: plan.analysis.as_ref().map(AnalysisOptions::trace),
    };
    for input in &plan.inputs {
        session.replay(input)?;
    }
    session.outcome.tally.finish();
    if let (Some(analysis), Some(trace)) = (&plan.analysis, session.trace) {
        session.outcome.analysis = Some(analysis.analyze(trace)?);
    }
    if let Some(decisions) = session.decisions {
        decisions.finish()?;
    }
    Ok(session.outcome)
}

/// A replay in progress.
struct Session<'p> {
    plan: &'p ReplayPlan,
    outcome: ReplayOutcome,
    decisions: Option<Decisions>,
    progress: Progress,
    request: LogEntry,
    trace: Option<Trace<'p>>,
}

impl<'p> Session<'p> {
    /// Replays one input up to its end or to an error in it.
    fn replay(&mut self, input: &Input) -> Result<()> {
        let mut lines = match input.open(|raw| self.progress.watch(raw)) {
            Ok(lines) => lines,
            Err(error) => return self.ended_early(input, &format!("{error:#}")),
        };
        let mut reader = match self.reader(&mut lines, input)? {
            Ok(Some(reader)) => reader,
            Ok(None) => return Ok(()),
            Err(error) => return self.ended_early(input, &error.to_string()),
        };
        reader.accepts(&self.plan.charge).with_context(|| input.name().to_owned())?;
        loop {
            let (number, line) = match lines.next() {
                Ok(Some(line)) => line,
                Ok(None) => return Ok(()),
                Err(error) => return self.ended_early(input, &error.to_string()),
            };
            self.progress.line();
            let read = match line {
                Line::Text(text) => reader
                    .read(&text, &self.plan.charge, &mut self.request)
                    .with_context(|| format!("{}, line {number}", input.name()))?,
                Line::TooLong => Err(Malformed::new("the line is longer than 1 MiB")),
            };
            match read {
                Ok(format::LineKind::Request) => self.decide()?,
                Ok(format::LineKind::Nothing) => {}
                Err(why) => self.skip(input, number, &why),
            }
        }
    }

    /// The reader for an input: the given format, or the one that its first lines show; `None` for an
    /// input without lines.
    fn reader(&self, lines: &mut Lines, input: &Input) -> Result<io::Result<Option<Reader<'p>>>> {
        let time_field = self.plan.time_field.as_deref();
        if let Some(reader) = Reader::new(self.plan.format, time_field) {
            return Ok(Ok(Some(reader)));
        }
        Ok(match lines.peek(|line| Reader::recognise(line, time_field)) {
            Ok(Ok(reader)) => Ok(Some(reader)),
            Ok(Err(Unrecognised::Empty)) => Ok(None),
            Ok(Err(Unrecognised::Unknown)) => bail!(
                "{}: the first lines are in no known format: give --format clf, jsonl or csv (and \
                 --time-field, if CSV or JSON has the time under an unusual name)",
                input.name()
            ),
            Err(error) => Err(error),
        })
    }

    /// Lets each limiter decide the request that was just read.
    fn decide(&mut self) -> Result<()> {
        let request = &self.request;
        if self.outcome.tally.requests() == 0 {
            // The old limiters are dropped first, so that two of each are never in memory together.
            self.outcome.contenders.clear();
            self.outcome.rules_replay = None;
            let fresh = ReplayOutcome::starting_at(self.plan, request.stamp)?;
            let ReplayOutcome { skipped, incomplete, .. } = &mut self.outcome;
            let (skipped, incomplete) = (std::mem::take(skipped), std::mem::take(incomplete));
            self.outcome = ReplayOutcome { skipped, incomplete, ..fresh };
        }
        let ReplayOutcome { contenders, rules_replay, tally, time, .. } = &mut self.outcome;
        let decided_at = time.decided_at(request.stamp);
        if let Some(rules_replay) = rules_replay {
            rules_replay.decide(request, decided_at);
        }
        if let Some(trace) = &mut self.trace {
            trace.record(&request.key, request.cost, decided_at);
        }
        let mut row = tally.request(&request.key, request.cost, decided_at);
        for (index, contender) in contenders.iter_mut().enumerate() {
            let verdict = contender.decide(&request.key, request.cost, decided_at);
            row.verdict(index, &verdict);
            if let Some(decisions) = &mut self.decisions {
                decisions.write(request, decided_at, &self.plan.limiters[index], &verdict)?;
            }
        }
        Ok(())
    }

    fn skip(&mut self, input: &Input, line: u64, why: &Malformed) {
        let skipped = &mut self.outcome.skipped;
        skipped.count += 1;
        if skipped.first.len() < MALFORMED_SHOWN {
            let file = input.name().to_owned();
            skipped.first.push(SkippedLine { file, line, why: why.to_string() });
        }
    }

    fn ended_early(&mut self, input: &Input, why: &str) -> Result<()> {
        let (file, why) = (input.name().to_owned(), why.to_owned());
        self.outcome.incomplete.push(Incomplete { file, why });
        Ok(())
    }
}
