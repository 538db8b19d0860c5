//! The result of a replay.

use std::fmt;

use anyhow::{Context, Result};
use tollgate::Quota;

use crate::algorithm::Algorithm;
use crate::contender::{Contender, Setup};
use crate::log::fields::Stamp;
use crate::log::log_time::LogTime;
use crate::plan::ReplayPlan;
use crate::rules_replay::RulesReplay;
use crate::suggest::Analysis;
use crate::tally::Tally;

/// The result of a replay. The reports describe it.
pub struct ReplayOutcome {
    /// One for each limiter of the plan, in its order.
    pub(crate) contenders: Vec<Contender>,
    /// The rules file and its counts, if there is one.
    pub(crate) rules_replay: Option<RulesReplay>,
    /// The suggestion of other limits from the log, for `--suggest` and `--html`.
    pub(crate) analysis: Option<Analysis>,
    pub(crate) tally: Tally,
    pub(crate) time: LogTime,
    pub(crate) skipped: Skipped,
    /// The files that could not be read to their end.
    pub incomplete: Vec<Incomplete>,
}

/// Lines that could not be read.
#[derive(Debug, Default)]
pub(crate) struct Skipped {
    pub(crate) count: u64,
    /// The first of them.
    pub(crate) first: Vec<SkippedLine>,
}

/// A line that could not be read.
#[derive(Debug)]
pub(crate) struct SkippedLine {
    pub(crate) file: String,
    pub(crate) line: u64,
    pub(crate) why: String,
}

/// A file that ended early.
#[derive(Debug)]
pub struct Incomplete {
    /// The name of the file.
    pub file: String,
    /// The reason.
    pub why: String,
}

impl fmt::Debug for ReplayOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplayOutcome")
            .field("tally", &self.tally)
            .field("skipped", &self.skipped)
            .field("incomplete", &self.incomplete)
            .finish_non_exhaustive()
    }
}

impl ReplayOutcome {
    /// An empty result for a log that starts at `first`.
    pub(crate) fn starting_at(plan: &ReplayPlan, first: Stamp) -> Result<Self> {
        let build = |(quota, algorithm): &(Quota, Algorithm)| {
            let (quota, options, origin_unix_nanos) = (*quota, plan.options, first.unix_nanos);
            algorithm.build(&Setup { quota, options, origin_unix_nanos })
        };
        let contenders = plan.limiters.iter().map(build).collect::<Result<Vec<_>>>()?;
        let rules_replay = plan.rules.as_ref().map(|rules| {
            RulesReplay::new(rules, first.unix_nanos, first.offset_secs).context("the rules file")
        });
        Ok(Self {
            rules_replay: rules_replay.transpose()?,
            analysis: None,
            tally: Tally::new(
                plan.limiters.iter().map(|(rule, _)| rule.period()),
                first.offset_secs,
            ),
            contenders,
            time: LogTime::starting(first),
            skipped: Skipped::default(),
            incomplete: Vec::new(),
        })
    }

    /// Decisions that differ from the reference models; `None` without `--verify`.
    #[must_use]
    pub fn differences(&self) -> Option<u64> {
        let counts = self
            .contenders
            .iter()
            .map(|contender| contender.differences().map(|found| found.count));
        counts.sum::<Option<u64>>().filter(|_| !self.contenders.is_empty())
    }
}
