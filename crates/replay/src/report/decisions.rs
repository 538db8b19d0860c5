//! Writes every decision, one JSON object per line.

use std::fs::File;
use std::io::{BufWriter, Write};

use anyhow::{Context, Result};
use serde::Serialize;
use tollgate::Quota;
use tollgate::internals::oracle::Verdict;

use crate::algorithm::Algorithm;
use crate::log::charge::{LogEntry, readable};
use crate::words;

/// The file of decisions.
#[derive(Debug)]
pub(crate) struct Decisions {
    name: String,
    out: BufWriter<File>,
}

/// One line.
#[derive(Serialize)]
struct Decision<'d> {
    /// The time of the line.
    time: String,
    /// The time of the decision, if the log had gone back in time.
    #[serde(skip_serializing_if = "Option::is_none")]
    decided_at: Option<String>,
    key: &'d str,
    cost: u64,
    rule: String,
    algorithm: &'d str,
    /// `admitted`; `denied`; or `never`, if no wait would help.
    verdict: &'d str,
    remaining: u64,
    reset_after_nanos: u64,
    /// Null unless the verdict is `admitted`.
    delay_nanos: Option<u64>,
    /// Null unless the verdict is `denied`.
    retry_after_nanos: Option<u64>,
}

impl Decisions {
    /// Creates the file, or truncates an existing one.
    pub(crate) fn create(name: &str) -> Result<Self> {
        let file = File::create(name).with_context(|| format!("cannot write {name}"))?;
        Ok(Self { name: name.to_owned(), out: BufWriter::new(file) })
    }

    /// Writes the decision of one limiter on one request.
    pub(crate) fn write(
        &mut self,
        request: &LogEntry,
        decided_at: u64,
        (rule, algorithm): &(Quota, Algorithm),
        verdict: &Verdict,
    ) -> Result<()> {
        let line = Decision {
            time: words::rfc3339(request.stamp.unix_nanos),
            decided_at: (decided_at != request.stamp.unix_nanos)
                .then(|| words::rfc3339(decided_at)),
            key: &readable(&request.key),
            cost: request.cost,
            rule: rule.to_string(),
            algorithm: algorithm.name,
            verdict: match (verdict.admitted, verdict.retry_after) {
                (true, _) => "admitted",
                (false, Some(_)) => "denied",
                (false, None) => "never",
            },
            remaining: verdict.remaining,
            reset_after_nanos: words::nanos(verdict.reset_after),
            delay_nanos: verdict.admitted.then(|| words::nanos(verdict.delay)),
            retry_after_nanos: verdict.retry_after.filter(|_| !verdict.admitted).map(words::nanos),
        };
        let cannot = || format!("cannot write {}", self.name);
        serde_json::to_writer(&mut self.out, &line).with_context(cannot)?;
        self.out.write_all(b"\n").with_context(cannot)
    }

    /// Flushes the buffer.
    pub(crate) fn finish(mut self) -> Result<()> {
        self.out.flush().with_context(|| format!("cannot write {}", self.name))
    }
}
