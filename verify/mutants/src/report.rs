//! Sums up a run: what survived, what no test reaches, and a table.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::known::Known;
use crate::mutant::{LeftOut, SourceFile};
use crate::outcomes::{Outcome, Outcomes, Verdict};
use crate::trial::Candidate;

/// The report of a run.
#[derive(Debug)]
pub struct Summary<'a> {
    /// The mutants that this run was about.
    pub candidates: &'a [Candidate<'a>],
    /// Their test results.
    pub outcomes: &'a Outcomes,
    /// Those that may survive.
    pub known: &'a Known,
    /// The files.
    pub files: &'a [SourceFile],
    /// How many mutants were not made.
    pub left_out: &'a BTreeMap<LeftOut, usize>,
}

/// How many mutants came to each end.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// A test failed.
    pub killed: usize,
    /// A test took too long.
    pub timed_out: usize,
    /// Survived or not reached, and on the list.
    pub known: usize,
    /// Survived, and not on the list.
    pub survived: usize,
    /// Not reached by any test, and not on the list.
    pub not_reached: usize,
    /// Not tried yet.
    pub open: usize,
}

impl Summary<'_> {
    fn end(&self, candidate: &Candidate<'_>) -> fn(&mut Counts) -> &mut usize {
        let verdict = self.outcomes.get(&candidate.mutant.key).map(|seen| seen.verdict);
        let is_known = self.known.reason(&candidate.mutant.key).is_some();
        match verdict {
            Some(Verdict::Killed) => |counts| &mut counts.killed,
            Some(Verdict::TimedOut) => |counts| &mut counts.timed_out,
            _ if is_known => |counts| &mut counts.known,
            Some(Verdict::Survived) => |counts| &mut counts.survived,
            Some(Verdict::NotReached) => |counts| &mut counts.not_reached,
            None => |counts| &mut counts.open,
        }
    }

    /// The counts of all, and of each folder of the crate.
    pub fn counts(&self) -> (Counts, BTreeMap<String, Counts>) {
        let mut all = Counts::default();
        let mut folders = BTreeMap::<String, Counts>::new();
        for candidate in self.candidates {
            let end = self.end(candidate);
            *end(&mut all) += 1;
            *end(folders.entry(folder(candidate.file)).or_default()) += 1;
        }
        (all, folders)
    }

    /// Lines of the list that name no mutant. Only complete if no file was left out.
    pub fn stale(&self) -> Vec<&str> {
        let files: Vec<_> = self.files.iter().map(|file| file.path.as_str()).collect();
        let places = self.files.iter().flat_map(|file| &file.places);
        let keys: Vec<_> =
            places.flat_map(|place| &place.mutants).map(|mutant| mutant.key.as_str()).collect();
        self.known.stale(&files, &keys)
    }

    /// The report.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (verdict, title) in [
            (Verdict::Survived, "Survived: no test that reaches it fails"),
            (Verdict::NotReached, "Not reached by any test"),
        ] {
            let is_listed = |candidate: &&Candidate<'_>| {
                let seen = self.outcomes.get(&candidate.mutant.key);
                seen.is_some_and(|seen: &Outcome| seen.verdict == verdict)
                    && self.known.reason(&candidate.mutant.key).is_none()
            };
            let listed: Vec<_> = self.candidates.iter().filter(is_listed).collect();
            if !listed.is_empty() {
                let _ = writeln!(text, "{title}: {}", listed.len());
            }
            for candidate in listed {
                let mutant = candidate.mutant;
                let _ = writeln!(text, "  {}:{}", candidate.file, mutant.line);
                let _ = writeln!(text, "    {}", mutant.key);
                let changed = mutant.text.split_whitespace().collect::<Vec<_>>().join(" ");
                if !changed.is_empty() {
                    let cut: String = changed.chars().take(140).collect();
                    let _ = writeln!(text, "    as: {cut}");
                }
            }
        }
        for line in self.stale() {
            let _ = writeln!(text, "The list names a mutant that is not made: {line}");
        }
        let (all, folders) = self.counts();
        let _ = writeln!(text, "{:<18}{}", "", HEAD);
        for (name, counts) in folders.iter().chain([(&"all".to_owned(), &all)]) {
            let _ = writeln!(text, "{name:<18}{}", row(counts));
        }
        for (reason, count) in self.left_out {
            let _ = writeln!(text, "not made: {count:>6} {}", reason.reason());
        }
        text
    }
}

const HEAD: &str = "   tried  killed timeout  listed survived not reached   open";

fn row(counts: &Counts) -> String {
    let Counts { killed, timed_out, known, survived, not_reached, open } = *counts;
    let tried = killed + timed_out + known + survived + not_reached;
    format!("{tried:>8}{killed:>8}{timed_out:>8}{known:>8}{survived:>9}{not_reached:>12}{open:>7}")
}

/// The part of a path up to the room: `src/algo`, `crates/http/src/key`.
fn folder(path: &str) -> String {
    let after = path.find("src/").map_or(0, |at| at + "src/".len());
    let end = path[after..].find('/').map_or(path.len(), |at| after + at);
    path[..end].to_owned()
}
