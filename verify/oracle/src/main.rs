//! Compares decisions of all algorithms with their oracles, on every core, until the requested
//! number is made. Each case is a function of the seed and its number, so any case can be played
//! again.
//!
//! ```text
//! oracle-tests DECISIONS [--seed SEED] [--seconds SECONDS] [--jobs JOBS]
//! oracle-tests --seed SEED --case NUMBER
//! ```
//!
//! With `--fault NAME` the limiters make a mistake, which the run must find.

#![allow(clippy::disallowed_types, reason = "a run is timed, and seeded by the time of day")]

#[path = "../../../tests/bodies/mod.rs"]
mod bodies;
mod case;
mod chance;
mod draw;
mod fault;

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bodies::choice::Kind;
use case::{Case, STEPS};
use fault::Fault;

/// Decisions between two progress lines.
const REPORTED_EACH: u64 = 1_000_000_000;

#[derive(Clone, Debug, Default)]
struct Options {
    decisions: u64,
    seed: u64,
    case: Option<u64>,
    limit: Option<Duration>,
    jobs: usize,
    fault: Option<Fault>,
}

fn main() -> ExitCode {
    let options = match parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("oracles: {error}");
            return ExitCode::from(2);
        }
    };
    let differences = match options.case {
        Some(number) => {
            Case::draw(options.seed, number, None).play(options.fault).map_err(|difference| {
                println!("{difference}");
            })
        }
        None => run(&options),
    };
    if differences.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Options, String> {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut options = Options {
        seed: since_1970.as_secs(),
        jobs: std::thread::available_parallelism().map_or(1, usize::from),
        ..Options::default()
    };
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        match word.as_str() {
            "--seed" => options.seed = number(&value()?)?,
            "--case" => options.case = Some(number(&value()?)?),
            "--seconds" => options.limit = Some(Duration::from_secs(number(&value()?)?)),
            "--jobs" => {
                options.jobs = usize::try_from(number(&value()?)?.clamp(1, 1_024)).unwrap_or(1)
            }
            "--fault" => options.fault = Some(value()?.parse()?),
            _ => options.decisions = number(&word)?,
        }
    }
    if options.decisions == 0 && options.case.is_none() {
        return Err("give a number of decisions, or --case".into());
    }
    Ok(options)
}

fn number(word: &str) -> Result<u64, String> {
    word.parse().map_err(|_| format!("'{word}' is not a number"))
}

/// State shared by the threads.
#[derive(Default)]
struct Shared {
    cases: AtomicU64,
    decisions: AtomicU64,
    by_kind: [AtomicU64; Kind::COUNT],
    differs: AtomicBool,
}

/// Plays cases until there are enough decisions, the time is up, or an answer differs.
fn run(options: &Options) -> Result<(), ()> {
    let (begun, shared) = (Instant::now(), Shared::default());
    println!("oracles: seed {}, {} threads", options.seed, options.jobs);
    std::thread::scope(|scope| {
        for _ in 0..options.jobs {
            scope.spawn(|| work(options, &shared, begun));
        }
    });
    for (kind, decisions) in Kind::all().zip(&shared.by_kind) {
        println!("oracles: {:>13} {}", decisions.load(Relaxed), kind.name());
    }
    let differs = shared.differs.load(Relaxed);
    println!("{}, {}", progress(&shared, begun), if differs { "DIFFERENT" } else { "all equal" });
    if differs { Err(()) } else { Ok(()) }
}

fn progress(shared: &Shared, begun: Instant) -> String {
    let (decisions, took) = (shared.decisions.load(Relaxed), begun.elapsed());
    let millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX).max(1);
    let (seconds, each_second) = (took.as_secs(), decisions / millis * 1_000);
    format!("oracles: {decisions} decisions in {seconds} s, {each_second} a second")
}

fn work(options: &Options, shared: &Shared, begun: Instant) {
    let is_over = || {
        shared.differs.load(Relaxed)
            || shared.decisions.load(Relaxed) >= options.decisions
            || options.limit.is_some_and(|limit| begun.elapsed() >= limit)
    };
    while !is_over() {
        let number = shared.cases.fetch_add(1, Relaxed);
        let name = CaseName { seed: options.seed, number, shared };
        let case = Case::draw(options.seed, number, None);
        let kind = case.kind.index();
        if let Err(difference) = case.play(options.fault) {
            shared.differs.store(true, Relaxed);
            println!("{difference}\n{}", name.again());
        }
        shared.by_kind[kind].fetch_add(STEPS, Relaxed);
        let before = shared.decisions.fetch_add(STEPS, Relaxed);
        if before / REPORTED_EACH < (before + STEPS) / REPORTED_EACH {
            println!("{}", progress(shared, begun));
        }
    }
}

/// Prints the number of a case that panicked.
struct CaseName<'a> {
    seed: u64,
    number: u64,
    shared: &'a Shared,
}

impl CaseName<'_> {
    fn again(&self) -> String {
        format!("oracles: to play it again: --seed {} --case {}", self.seed, self.number)
    }
}

impl Drop for CaseName<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.shared.differs.store(true, Relaxed);
            println!("{}", self.again());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: u64 = 7;

    #[test]
    fn every_kind_equals_its_oracle() {
        for kind in Kind::all() {
            for number in 0..600 {
                let case = Case::draw(SEED, number, Some(kind));
                assert_eq!(case.play(None), Ok(()), "{kind:?}, case {number}");
            }
        }
    }

    /// If no comparison found a mistake, the run would compare nothing.
    #[test]
    fn every_planted_mistake_is_found_in_every_kind() {
        for kind in Kind::all() {
            for fault in Fault::ALL {
                let found =
                    |number| Case::draw(SEED, number, Some(kind)).play(Some(fault)).is_err();
                assert!((0..600).any(found), "{fault:?} in {kind:?}");
            }
        }
    }

    #[test]
    fn a_case_is_the_same_when_it_is_played_again() {
        let play = |number| Case::draw(SEED, number, None).play(Some(Fault::TimeRounded));
        let differs = (0..100).find(|number| play(*number).is_err()).expect("a coarse clock shows");
        let [first, again] = [differs, differs].map(play);
        assert_eq!(first, again);
    }

    #[test]
    fn a_run_makes_as_many_decisions_as_were_requested() {
        let options = Options { decisions: 10_000, seed: SEED, jobs: 2, ..Options::default() };
        assert_eq!(run(&options), Ok(()));
        let fault = Some(Fault::LastCellKept);
        assert_eq!(run(&Options { decisions: u64::MAX, fault, ..options }), Err(()));
    }
}
