//! Builds the copy with its switches. A mutant that the compiler does not accept is taken out.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::mutant::SourceFile;
use crate::render::{Rendered, render};
use crate::tree::{self, Package};

/// The module that holds the switch, as the copy has it.
const SWITCH: &str = include_str!("switch.rs");

/// Comes first in the root of the library, on its first line.
const PRELUDE: &str = "#![feature(core_intrinsics, const_eval_select)] #![allow(warnings, internal_features, \
    arithmetic_overflow, unconditional_panic, overflowing_literals, unconditional_recursion)] ";

/// A build seldom needs more than 10. Each takes out at least one mutant.
const ROUNDS_MAX: u32 = 60;

/// A build of a package's copy, with its tests.
#[derive(Debug)]
pub struct Build<'a> {
    /// The repository's workspace.
    pub workspace: &'a Path,
    /// The package.
    pub package: &'a Package,
    /// The copy of the workspace.
    pub copy: PathBuf,
    /// Cargo's folder for what it builds.
    pub target: PathBuf,
    /// How many compilers run at a time.
    pub jobs: usize,
    /// Which tests are built, as cargo's options: `--lib --test *` are all.
    pub tests: &'a [String],
    /// The files that have places.
    pub files: &'a [SourceFile],
}

/// A program that holds tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestProgram {
    /// The name of cargo's target: `tollgate` for unit tests.
    pub name: String,
    /// The program.
    pub path: PathBuf,
}

impl Build<'_> {
    /// Checks and builds until the compiler accepts everything. Adds to `rejected` what it does not accept, and
    /// tells the programs that hold the tests.
    pub fn run(
        &self,
        rejected: &mut BTreeSet<u32>,
        after_round: &mut dyn FnMut(&BTreeSet<u32>) -> io::Result<()>,
    ) -> io::Result<Vec<TestProgram>> {
        for _ in 1..=ROUNDS_MAX {
            let rendered: Vec<_> = self.files.iter().map(|file| render(file, rejected)).collect();
            self.write(&rendered)?;
            let mut messages = self.cargo(&["check", "--lib"])?;
            if !has_error(&messages) {
                let mut words = vec!["test", "--no-run"];
                words.extend(self.tests.iter().map(String::as_str));
                messages = self.cargo(&words)?;
                if !has_error(&messages) {
                    return Ok(programs(&messages));
                }
            }
            let before = rejected.len();
            self.blame(&messages, &rendered, rejected);
            after_round(rejected)?;
            if rejected.len() == before {
                let text = errors(&messages).filter_map(|message| message["rendered"].as_str());
                let text = text.take(5).collect::<String>();
                return Err(io::Error::other(format!("the copy does not compile:\n{text}")));
            }
        }
        Err(io::Error::other(format!("the copy does not compile after {ROUNDS_MAX} rounds")))
    }

    fn write(&self, rendered: &[Rendered]) -> io::Result<()> {
        let mut changed = BTreeMap::new();
        for (file, rendered) in self.files.iter().zip(rendered) {
            changed.insert(PathBuf::from(&file.path), rendered.code.clone());
        }
        let root = changed
            .remove(&self.package.root)
            .map_or_else(|| std::fs::read_to_string(self.workspace.join(&self.package.root)), Ok)?;
        let module = self.package.root.with_file_name("mutant.rs");
        changed.insert(self.package.root.clone(), format!("{PRELUDE}{root}\nmod mutant;\n"));
        changed.insert(module, SWITCH.to_owned());
        tree::copy(self.workspace, &self.copy, &changed)
    }

    fn cargo(&self, words: &[&str]) -> io::Result<Vec<Value>> {
        let output = Command::new("cargo")
            .args(words)
            .args(["--package", &self.package.name, "--all-features", "--message-format=json"])
            .args(["--jobs", &self.jobs.to_string()])
            .current_dir(&self.copy)
            .env("CARGO_TARGET_DIR", &self.target)
            .env("CARGO_INCREMENTAL", "0")
            .env("RUSTC_BOOTSTRAP", &self.package.library)
            .output()?;
        let lines = String::from_utf8_lossy(&output.stdout);
        let messages: Vec<_> =
            lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).collect();
        if output.status.success() || has_error(&messages) {
            return Ok(messages);
        }
        Err(io::Error::other(String::from_utf8_lossy(&output.stderr)))
    }

    fn blame(&self, messages: &[Value], rendered: &[Rendered], rejected: &mut BTreeSet<u32>) {
        let mut vague = BTreeSet::new();
        let before = rejected.len();
        for message in errors(messages) {
            let mut spans = Vec::new();
            for span in message["spans"].as_array().into_iter().flatten() {
                self.locate(span, span["is_primary"] == true, &mut spans);
            }
            spans.sort_by_key(|(is_primary, ..)| !is_primary);
            let blamed = spans
                .iter()
                .map(|(_, index, bytes)| rendered[*index].blamed(&self.files[*index], bytes));
            let blamed: Vec<_> = blamed.filter(|numbers| !numbers.is_empty()).collect();
            // The span that names the fewest is the closest.
            match blamed.iter().find(|numbers| numbers.len() == 1).or(blamed.first()) {
                Some(numbers) if numbers.len() <= 8 => rejected.extend(numbers),
                Some(numbers) => vague.extend(numbers.iter().copied()),
                None => {}
            }
        }
        if rejected.len() == before {
            rejected.extend(vague);
        }
    }

    /// Adds where a span is in the files, through the macros that it comes from.
    fn locate(&self, span: &Value, is_primary: bool, to: &mut Vec<(bool, usize, Range<usize>)>) {
        let name = span["file_name"].as_str().unwrap_or_default();
        if let Some(index) = self.files.iter().position(|file| file.path == name) {
            let shift = if Path::new(name) == self.package.root { PRELUDE.len() } else { 0 };
            let [start, end] = ["byte_start", "byte_end"]
                .map(|side| span[side].as_u64().unwrap_or_default() as usize);
            to.push((is_primary, index, start.saturating_sub(shift)..end.saturating_sub(shift)));
        }
        if span["expansion"].is_object() {
            self.locate(&span["expansion"]["span"], is_primary, to);
        }
    }
}

fn errors(messages: &[Value]) -> impl Iterator<Item = &Value> {
    messages.iter().map(|message| &message["message"]).filter(|message| message["level"] == "error")
}

fn has_error(messages: &[Value]) -> bool {
    errors(messages).next().is_some()
}

fn programs(messages: &[Value]) -> Vec<TestProgram> {
    let tests = messages.iter().filter(|message| message["profile"]["test"] == true);
    tests
        .filter_map(|message| {
            let path = PathBuf::from(message["executable"].as_str()?);
            Some(TestProgram { name: message["target"]["name"].as_str()?.to_owned(), path })
        })
        .collect()
}
