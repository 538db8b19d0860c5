//! The replay: line, request, time, verdicts, counts.

use std::io;

use anyhow::{Context, Result, bail};

use crate::log::charge::Request;
use crate::log::fields::{Malformed, Stamp};
use crate::log::format::{self, Reader};
use crate::log::lines::{Input, Line, Lines, Unrecognised};
use crate::outcome::{Incomplete, Outcome, SkippedLine};
use crate::plan::Plan;
use crate::progress::Progress;
use crate::report::decisions::Decisions;
use crate::suggest::Trace;

/// So many malformed lines are kept to be shown; all are counted.
const MALFORMED_SHOWN: usize = 5;

/// Replays all inputs of the plan.
pub fn run(plan: &Plan) -> Result<Outcome> {
    // The limiters are built once before anything is read, so that a rule that cannot be kept is
    // found at once, and again when the first line has told when time begins.
    let outcome = Outcome::beginning(plan, Stamp { unix_nanos: 0, offset_secs: 0 })?;
    let sizes = plan.inputs.iter().map(Input::bytes).collect::<Result<Vec<_>>>()?;
    let known = !plan.inputs.contains(&Input::Stdin);
    let decisions = plan.decisions.as_deref().map(Decisions::create).transpose()?;
    let mut session = Session {
        plan,
        outcome,
        decisions,
        progress: Progress::new(known.then(|| sizes.iter().sum())),
        request: Request::default(),
        trace: plan.analysis.as_ref().map(|_| Trace::new()),
    };
    for input in &plan.inputs {
        session.replay(input)?;
    }
    session.outcome.tally.finish();
    if let (Some(analysis), Some(trace)) = (&plan.analysis, session.trace) {
        session.outcome.analysis = Some(analysis.answer(trace)?);
    }
    if let Some(decisions) = session.decisions {
        decisions.finish()?;
    }
    Ok(session.outcome)
}

/// A replay under way.
struct Session<'p> {
    plan: &'p Plan,
    outcome: Outcome,
    decisions: Option<Decisions>,
    progress: Progress,
    request: Request,
    trace: Option<Trace>,
}

impl<'p> Session<'p> {
    /// Replays one input as far as it can be read.
    fn replay(&mut self, input: &Input) -> Result<()> {
        let mut lines = match input.open(|raw| self.progress.watch(raw)) {
            Ok(lines) => lines,
            Err(error) => return self.broke_off(input, &format!("{error:#}")),
        };
        let mut reader = match self.reader(&mut lines, input)? {
            Ok(Some(reader)) => reader,
            Ok(None) => return Ok(()),
            Err(error) => return self.broke_off(input, &error.to_string()),
        };
        reader.accepts(&self.plan.charge).with_context(|| input.name().to_owned())?;
        loop {
            let (number, line) = match lines.next() {
                Ok(Some(line)) => line,
                Ok(None) => return Ok(()),
                Err(error) => return self.broke_off(input, &error.to_string()),
            };
            self.progress.line();
            let read = match line {
                Line::Text(text) => reader
                    .read(&text, &self.plan.charge, &mut self.request)
                    .with_context(|| format!("{}, line {number}", input.name()))?,
                Line::TooLong => Err(Malformed::new("it is longer than 1 MiB")),
            };
            match read {
                Ok(format::Line::Request) => self.decide()?,
                Ok(format::Line::Nothing) => {}
                Err(why) => self.skip(input, number, &why),
            }
        }
    }

    /// The reader for an input: as told, or as its first lines show; `None` for an input without
    /// lines.
    fn reader(&self, lines: &mut Lines, input: &Input) -> Result<io::Result<Option<Reader<'p>>>> {
        let time_field = self.plan.time_field.as_deref();
        if let Some(reader) = Reader::new(self.plan.format, time_field) {
            return Ok(Ok(Some(reader)));
        }
        Ok(match lines.look(|line| Reader::recognise(line, time_field)) {
            Ok(Ok(reader)) => Ok(Some(reader)),
            Ok(Err(Unrecognised::Empty)) => Ok(None),
            Ok(Err(Unrecognised::Foreign)) => bail!(
                "{}: the first lines are in no format that is known: give --format clf, jsonl or \
                 csv (for CSV and JSON with a time under an unusual name, --time-field too)",
                input.name()
            ),
            Err(error) => Err(error),
        })
    }

    /// Lets every limiter decide about the request that was just read.
    fn decide(&mut self) -> Result<()> {
        let request = &self.request;
        if self.outcome.tally.requests() == 0 {
            // Two of each limiter are never in memory together.
            self.outcome.contenders.clear();
            self.outcome.rules_replay = None;
            let beginning = Outcome::beginning(self.plan, request.stamp)?;
            let Outcome { skipped, incomplete, .. } = &mut self.outcome;
            let (skipped, incomplete) = (std::mem::take(skipped), std::mem::take(incomplete));
            self.outcome = Outcome { skipped, incomplete, ..beginning };
        }
        let Outcome { contenders, rules_replay, tally, time, .. } = &mut self.outcome;
        let decided_at = time.decided_at(request.stamp);
        if let Some(rules_replay) = rules_replay {
            rules_replay.decide(request, decided_at);
        }
        if let Some(trace) = &mut self.trace {
            trace.record(&request.key, request.cost, decided_at);
        }
        let mut row = tally.request(&request.key, request.cost, decided_at);
        for (index, contender) in contenders.iter_mut().enumerate() {
            let verdict = contender.contender(&request.key, request.cost, decided_at);
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

    fn broke_off(&mut self, input: &Input, why: &str) -> Result<()> {
        let (file, why) = (input.name().to_owned(), why.to_owned());
        self.outcome.incomplete.push(Incomplete { file, why });
        Ok(())
    }
}
