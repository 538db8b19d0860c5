//! The worst span against its bound, for each kind of fault.

use core::fmt;

use super::Outcome;
use super::fault::{KINDS, Kind};
use super::spans::Span;

#[derive(Default)]
struct Row {
    count: u32,
    skipped: u32,
    used_extra: u32,
    worst: Span,
}

#[derive(Default)]
pub(crate) struct Table {
    rows: [Row; KINDS.len()],
    keys: u64,
    spans: u64,
}

impl Table {
    fn row(&self, kind: Kind) -> &Row {
        &self.rows[place(kind)]
    }

    pub(crate) fn add(&mut self, kind: Kind, outcome: &Outcome) {
        self.keys += outcome.keys;
        self.spans += outcome.spans;
        let row = &mut self.rows[place(kind)];
        row.count += 1;
        row.used_extra += u32::from(outcome.used_its_extra);
        if outcome.worst.is_closer_than(&row.worst) {
            row.worst = outcome.worst;
        }
    }

    pub(crate) fn skip(&mut self, kind: Kind) {
        self.rows[place(kind)].skipped += 1;
    }

    pub(crate) fn count(&self, kind: Kind) -> u32 {
        self.row(kind).count
    }

    /// How often more was granted than without the fault.
    pub(crate) fn used_extra(&self, kind: Kind) -> u32 {
        self.row(kind).used_extra
    }
}

fn place(kind: Kind) -> usize {
    KINDS.iter().position(|it| *it == kind).expect("all are there")
}

fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Kill => "killed, nothing kept",
        Kind::KillKept => "killed, all kept",
        Kind::Stop => "stopped",
        Kind::Reset => "connections reset",
        Kind::Swallow => "answers swallowed",
        Kind::Delay => "answers delayed",
        Kind::Partition => "cut off",
        Kind::ScriptFlush => "scripts flushed",
        Kind::NoMemory => "out of memory",
        Kind::FailOver => "replica takes over",
        Kind::ClientClock => "clock of a process jumps",
        Kind::ServerClock => "clock of the server jumps",
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let binary = crate::harness::binary();
        let server = binary.rsplit('/').next().unwrap_or_default();
        writeln!(
            f,
            "| server | fault | faults | worst granted, of at most | beyond the quota alone |"
        )?;
        writeln!(f, "|---|---|---|---|---|")?;
        for (kind, row) in KINDS.into_iter().zip(&self.rows) {
            let Row { count, skipped, used_extra, worst } = row;
            let Span { granted, bound, micros } = worst;
            let name = name(kind);
            if *skipped > 0 {
                writeln!(f, "| {server} | {name} | SKIPPED {skipped} | | |")?;
            }
            if *count > 0 {
                let worst = format!("{granted} of {bound} in {} ms", micros / 1_000);
                writeln!(f, "| {server} | {name} | {count} | {worst} | {used_extra} |")?;
            }
        }
        let all: u32 = self.rows.iter().map(|row| row.count).sum();
        let Self { keys, spans, .. } = self;
        write!(f, "faults: {all} on {server}, all within their bounds: {keys} keys, {spans} spans")
    }
}
