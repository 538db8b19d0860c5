//! The test results of each mutant, in a file that grows by a line for each, so that a run can be stopped.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// The tests' verdict on a mutant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// A test failed.
    Killed,
    /// A test took too long.
    TimedOut,
    /// All tests that reach it passed.
    Survived,
    /// No test reaches it.
    NotReached,
}

impl Verdict {
    const ALL: [(Self, &str); 4] = [
        (Self::Killed, "killed"),
        (Self::TimedOut, "timeout"),
        (Self::Survived, "survived"),
        (Self::NotReached, "not-reached"),
    ];

    fn word(self) -> &'static str {
        Self::ALL.iter().find(|(verdict, _)| *verdict == self).map_or("", |(_, word)| word)
    }
}

/// The test results of one mutant.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The tests' verdict.
    pub verdict: Verdict,
    /// Tests that take longer were not asked.
    pub longest_test: f64,
    /// The test that noticed it, if one did.
    pub test: String,
}

/// The outcomes of one revision.
#[derive(Debug)]
pub struct Outcomes {
    file: File,
    revision: String,
    known: HashMap<String, Outcome>,
}

impl Outcomes {
    /// Opens the file and reads the results of this revision. Mutants that were noticed in another revision count
    /// too if `trusts_kills_of` it: then all its tests are among those of this revision.
    pub fn open(
        path: &Path,
        revision: &str,
        trusts_kills_of: impl Fn(&str) -> bool,
    ) -> io::Result<Self> {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let mut known = HashMap::new();
        for line in text.lines() {
            let mut fields = line.split('\t');
            let mut next = || fields.next().unwrap_or_default();
            let (of, word, longest_test, test, key) = (next(), next(), next(), next(), next());
            let Some((verdict, _)) = Verdict::ALL.iter().find(|(_, name)| *name == word) else {
                continue;
            };
            let is_kill = matches!(verdict, Verdict::Killed | Verdict::TimedOut);
            if of == revision || (is_kill && trusts_kills_of(of)) {
                let longest_test = longest_test.parse().unwrap_or(0.0);
                let outcome = Outcome { verdict: *verdict, longest_test, test: test.to_owned() };
                known.insert(key.to_owned(), outcome);
            }
        }
        let file = File::options().create(true).append(true).open(path)?;
        Ok(Self { file, revision: revision.to_owned(), known })
    }

    /// The test results of a mutant.
    pub fn get(&self, key: &str) -> Option<&Outcome> {
        self.known.get(key)
    }

    /// Adds what was seen of a mutant.
    pub fn add(&mut self, key: &str, outcome: Outcome) -> io::Result<()> {
        let (revision, word) = (&self.revision, outcome.verdict.word());
        let line =
            format!("{revision}\t{word}\t{}\t{}\t{key}\n", outcome.longest_test, outcome.test);
        self.file.write_all(line.as_bytes())?;
        self.known.insert(key.to_owned(), outcome);
        Ok(())
    }
}
