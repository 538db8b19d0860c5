//! Runs histories on schedules that shuttle makes, and counts them.
//!
//! Half of the schedules are random: at every access any thread may run next. The others are made by PCT
//! (probabilistic concurrency testing): threads have priorities, which change at up to nine points, so that
//! one thread may sleep while the others run to their end. That finds mistakes that need few, long
//! preemptions.

use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use shuttle::scheduler::{
    PctScheduler, RandomScheduler, ReplayScheduler, Schedule, Scheduler, Task, TaskId,
};
use shuttle::{Config, Runner};
use tollgate::internals::{Fault, plant};

/// A history that was checked.
#[derive(Clone, Copy, Debug)]
pub struct History {
    /// Whether at least two of its calls overlap.
    pub overlaps: bool,
}

/// A history that was explained; or one that was not, as a text with the reason.
pub type Played = Result<History, String>;

/// The percentage of histories whose calls must overlap, at least.
const OVERLAPPING_PERCENT: u64 = 90;
/// One more than the points at which PCT changes priorities.
const PCT_DEPTH: usize = 10;

/// The number of histories of each family. `ci/check.sh shuttle` sets it.
const COUNT: &str = "TOLLGATE_SHUTTLE_HISTORIES";
/// The seed of the schedules. Without it, they are the same in each run.
const SEED: &str = "TOLLGATE_SHUTTLE_SEED";
/// A schedule to play again, as printed when it failed.
const REPLAY: &str = "TOLLGATE_SHUTTLE_REPLAY";

/// Plays a family of histories on many schedules, and prints how many there were.
///
/// # Panics
///
/// A history was not explained (shuttle prints its schedule), or too few histories overlap.
pub fn explore(name: &str, play: impl Fn() -> Played + Copy + Send + Sync + 'static) {
    let tally = Arc::new(Tally::default());
    let run = {
        let (name, tally) = (name.to_owned(), Arc::clone(&tally));
        move || match play() {
            Ok(history) => tally.count(history),
            Err(why) => panic!(
                "{name}: {why}\nTo play it again, run this test alone with {REPLAY} set to the \
                 schedule that is printed above."
            ),
        }
    };
    if let Ok(schedule) = std::env::var(REPLAY) {
        // The schedule ends where the history was not explained. If it is explained by now, the rest of
        // the schedule is free.
        let mut scheduler = ReplayScheduler::new_from_encoded(&schedule);
        scheduler.set_allow_incomplete();
        Runner::new(scheduler, config()).run(run);
        return;
    }
    let (count, seed) = (number(COUNT, 2_000), number(SEED, 1));
    let half = usize::try_from(count / 2).expect("it fits");
    Runner::new(RandomScheduler::new_from_seed(seed, half), config()).run(run.clone());
    let random = tally.overlapping();
    Runner::new(PctScheduler::new_from_seed(seed, PCT_DEPTH, half), config()).run(run);
    let (all, overlapping) = (tally.all(), tally.overlapping());
    let percent = |part: u64, of: u64| part * 100 / of.max(1);
    println!(
        "{name}: {all} histories, {}% overlapping (random {}%, PCT {}%), seed {seed}",
        percent(overlapping, all),
        percent(random, half as u64),
        percent(overlapping - random, half as u64)
    );
    assert!(
        percent(overlapping, all) >= OVERLAPPING_PERCENT,
        "{name}: calls overlap in {overlapping} of {all} histories, which proves little"
    );
}

/// Plants a fault, and plays histories until one is not explained. Prints how many it took.
///
/// # Panics
///
/// All of `schedules_max` histories were explained.
pub fn assert_caught(
    fault: Fault,
    name: &str,
    schedules_max: usize,
    play: impl Fn() -> Played + Copy + Send + Sync + 'static,
) {
    plant(fault);
    let played = Arc::new(AtomicU64::new(0));
    let caught = Arc::new(AtomicBool::new(false));
    let run = {
        let (caught, played) = (Arc::clone(&caught), Arc::clone(&played));
        move || {
            played.fetch_add(1, Ordering::Relaxed);
            if play().is_err() {
                caught.store(true, Ordering::Relaxed);
            }
        }
    };
    // The same schedules each time: some faults show once in ten thousand histories.
    let (seed, half) = (1, schedules_max / 2);
    let random = Until::new(RandomScheduler::new_from_seed(seed, half), &caught);
    Runner::new(random, config()).run(run.clone());
    let pct = Until::new(PctScheduler::new_from_seed(seed, PCT_DEPTH, half), &caught);
    Runner::new(pct, config()).run(run);
    let played = played.load(Ordering::Relaxed);
    assert!(
        caught.load(Ordering::Relaxed),
        "{fault:?} was planted, and {played} histories of {name} did not show it"
    );
    println!("{fault:?} was caught by {name} in history {played}");
}

/// A scheduler that ends once `stop` is set.
#[derive(Debug)]
struct Until<S> {
    /// Never dropped: a scheduler that is dropped before its end reports a failure.
    inner: ManuallyDrop<S>,
    stop: Arc<AtomicBool>,
}

impl<S> Until<S> {
    fn new(inner: S, stop: &Arc<AtomicBool>) -> Self {
        Self { inner: ManuallyDrop::new(inner), stop: Arc::clone(stop) }
    }
}

impl<S: Scheduler> Scheduler for Until<S> {
    fn new_execution(&mut self) -> Option<Schedule> {
        if self.stop.load(Ordering::Relaxed) { None } else { self.inner.new_execution() }
    }

    fn next_task(
        &mut self,
        runnable: &[&Task],
        current: Option<TaskId>,
        is_yielding: bool,
    ) -> Option<TaskId> {
        self.inner.next_task(runnable, current, is_yielding)
    }

    fn next_u64(&mut self) -> u64 {
        self.inner.next_u64()
    }
}

fn config() -> Config {
    let mut config = Config::new();
    config.silence_warnings = true;
    config
}

/// A setting from the environment.
fn number(name: &str, default: u64) -> u64 {
    let Ok(text) = std::env::var(name) else { return default };
    text.parse().unwrap_or_else(|_| panic!("{name}={text}: it has to be a number"))
}

/// Histories, and those whose calls overlap.
#[derive(Debug, Default)]
struct Tally([AtomicU64; 2]);

impl Tally {
    fn count(&self, history: History) {
        self.0[usize::from(history.overlaps)].fetch_add(1, Ordering::Relaxed);
    }

    fn overlapping(&self) -> u64 {
        self.0[1].load(Ordering::Relaxed)
    }

    fn all(&self) -> u64 {
        self.0.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }
}
