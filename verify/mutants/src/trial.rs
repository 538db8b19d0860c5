//! Switches on one mutant after the other, and runs the tests that reach it until one fails.
//!
//! The fastest tests come first, several of them in one process. Before them come those that noticed other
//! mutants of the same file, which saves most of the time.

use std::collections::HashMap;
use std::io;
use std::sync::Mutex;
use std::time::Duration;

use crate::mutant::Mutant;
use crate::outcomes::{Outcome, Outcomes, Verdict};
use crate::process::Ended;
use crate::record::{Runner, Test};
use crate::workers::Workers;

/// Tests that end within so many seconds together run in one process.
const BATCH_SECONDS: f64 = 0.2;
/// So many of the tests that noticed mutants of a file go first.
const FIRST_MAX: usize = 6;

/// A mutant that is to be tried.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a> {
    /// Its number: what switches it on.
    pub number: u32,
    /// The file it is in.
    pub file: &'a str,
    /// The change.
    pub mutant: &'a Mutant,
    /// The tests that reach it, the fastest first.
    pub tests: &'a [usize],
}

/// The time that tests have which took so many seconds without a mutant.
pub fn limit(seconds: f64) -> Duration {
    Duration::from_secs_f64(5.0 * seconds + 5.0)
}

/// How mutants are tried.
#[derive(Debug)]
pub struct Trial<'a> {
    /// How tests are run.
    pub runner: &'a Runner<'a>,
    /// All tests.
    pub tests: &'a [Test],
    /// Tests that take longer are not asked.
    pub longest_test: f64,
    /// The threads that run the tests.
    pub workers: Workers,
}

impl Trial<'_> {
    /// Tries those whose outcome is not known yet. Tells whether the time was enough.
    pub fn run(&self, candidates: &[Candidate<'_>], outcomes: &mut Outcomes) -> io::Result<bool> {
        let is_open = |candidate: &&Candidate<'_>| match outcomes.get(&candidate.mutant.key) {
            Some(Outcome { verdict: Verdict::Survived, longest_test, .. }) => {
                self.unasked(candidate, *longest_test).next().is_some()
            }
            seen => seen.is_none(),
        };
        let open: Vec<_> = candidates.iter().filter(is_open).collect();
        // By file, how many mutants each test noticed.
        let shared = Mutex::new((outcomes, HashMap::<&str, HashMap<usize, u32>>::new()));
        self.workers.each(open.len(), |worker, index| {
            let candidate = open[index];
            let (first, asked) = {
                let (outcomes, noticed) = &*shared.lock().expect("no worker panics");
                let asked =
                    outcomes.get(&candidate.mutant.key).map_or(-1.0, |seen| seen.longest_test);
                (noticed.get(candidate.file).map(most).unwrap_or_default(), asked)
            };
            let (verdict, test) = self.try_one(candidate, &first, asked, worker)?;
            let (outcomes, noticed) = &mut *shared.lock().expect("no worker panics");
            if let Some(test) = test {
                *noticed.entry(candidate.file).or_default().entry(test).or_default() += 1;
            }
            let test = test.map_or(String::new(), |test| self.title(test));
            outcomes.add(
                &candidate.mutant.key,
                Outcome { verdict, longest_test: self.longest_test, test },
            )
        })
    }

    /// A test, with its program.
    fn title(&self, test: usize) -> String {
        let test = &self.tests[test];
        format!("{}::{}", self.runner.programs[test.program].name, test.name)
    }

    /// The tests of a mutant that take longer than `asked`, and not too long.
    fn unasked(&self, candidate: &Candidate<'_>, asked: f64) -> impl Iterator<Item = usize> {
        let seconds = |test: usize| self.tests[test].seconds;
        let tests = candidate.tests.iter().copied();
        tests.filter(move |test| seconds(*test) > asked && seconds(*test) <= self.longest_test)
    }

    fn try_one(
        &self,
        candidate: &Candidate<'_>,
        first: &[usize],
        asked: f64,
        worker: usize,
    ) -> io::Result<(Verdict, Option<usize>)> {
        if candidate.tests.is_empty() {
            return Ok((Verdict::NotReached, None));
        }
        let tests: Vec<usize> = self.unasked(candidate, asked).collect();
        let (mut order, rest): (Vec<_>, Vec<_>) =
            tests.into_iter().partition(|test| first.contains(test));
        order.sort_by(|a, b| self.tests[*a].seconds.total_cmp(&self.tests[*b].seconds));
        order.extend(rest);
        for batch in self.batches(&order) {
            let names: Vec<&str> =
                batch.iter().map(|test| self.tests[*test].name.as_str()).collect();
            let seconds = batch.iter().map(|test| self.tests[*test].seconds).sum();
            let program = self.tests[batch[0]].program;
            let switch = candidate.number.to_string();
            let (ended, _) = self.runner.run(program, &names, &switch, worker, limit(seconds))?;
            let verdict = match ended {
                Ended::Well => continue,
                Ended::Badly => Verdict::Killed,
                Ended::TooLate => Verdict::TimedOut,
            };
            let output = std::fs::read_to_string(self.runner.output(worker)).unwrap_or_default();
            let failed = |test: &&usize| {
                let line = format!("test {} ... ok", self.tests[**test].name);
                !output.lines().any(|printed| printed == line)
            };
            return Ok((verdict, batch.iter().find(failed).or(batch.last()).copied()));
        }
        Ok((Verdict::Survived, None))
    }

    /// Consecutive tests of one program that end soon.
    fn batches(&self, order: &[usize]) -> Vec<Vec<usize>> {
        let mut batches: Vec<Vec<usize>> = Vec::new();
        let mut seconds = 0.0;
        for test in order {
            let next = &self.tests[*test];
            let fits = |batch: &&mut Vec<usize>| {
                self.tests[batch[0]].program == next.program
                    && seconds + next.seconds <= BATCH_SECONDS
            };
            match batches.last_mut().filter(fits) {
                Some(batch) => {
                    batch.push(*test);
                    seconds += next.seconds;
                }
                None => {
                    batches.push(vec![*test]);
                    seconds = next.seconds;
                }
            }
        }
        batches
    }
}

/// The tests that noticed the most.
fn most(noticed: &HashMap<usize, u32>) -> Vec<usize> {
    let mut tests: Vec<_> = noticed.iter().map(|(test, count)| (*count, *test)).collect();
    tests.sort_unstable_by(|a, b| b.cmp(a));
    tests.into_iter().take(FIRST_MAX).map(|(_, test)| test).collect()
}
