//! The bounds of a model's exploration.
//!
//! `TOLLGATE_LOOM_DEPTH=full` (`ci/check.sh loom full`) also explores models that take minutes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tollgate::internals::{Loads, let_loads_return};

/// Preemptions that an interleaving has at most.
#[derive(Clone, Copy, Debug)]
pub enum Preemptions {
    /// At most this number.
    To(usize),
    /// No bound.
    Any,
}

use Preemptions::{Any, To};

impl core::fmt::Display for Preemptions {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            To(max) => write!(f, "at most {max} preemptions"),
            Any => f.write_str("any number of preemptions"),
        }
    }
}

/// Explores two threads, and every stale value that a load may return: interleavings with at most 3
/// preemptions; in the full run, 4.
pub fn explore_two(name: &str, model: impl Fn() + Sync + Send + 'static) {
    explore_two_to(name, 3, To(4), model);
}

/// The same, and in the full run also with any number of preemptions, loads returning the latest
/// value.
pub fn explore_two_whole(name: &str, model: impl Fn() + Sync + Send + 'static) {
    let model = Arc::new(model);
    let again = Arc::clone(&model);
    explore_two(name, move || model());
    if is_full() {
        let_loads_return(Loads::Latest);
        explore(name, Any, move || again());
    }
}

/// As [`explore_two`] with at most `ordinary` preemptions; in the full run, with `full`.
pub fn explore_two_to(
    name: &str,
    ordinary: usize,
    full: Preemptions,
    model: impl Fn() + Sync + Send + 'static,
) {
    let_loads_return(Loads::Any);
    explore(name, if is_full() { full } else { To(ordinary) }, model);
}

/// Explores three threads, loads returning the latest value: interleavings with at most 4
/// preemptions, in the full run 5.
pub fn explore_three(name: &str, model: impl Fn() + Sync + Send + 'static) {
    explore_latest(name, 4, To(5), model);
}

/// Explores four threads, loads returning the latest value: interleavings with at most 2
/// preemptions, in the full run 3. (Tests with four threads are ignored in the ordinary run.)
pub fn explore_four(name: &str, model: impl Fn() + Sync + Send + 'static) {
    explore_four_to(To(3), name, model);
}

/// The same; in the full run, with `full` preemptions.
pub fn explore_four_to(full: Preemptions, name: &str, model: impl Fn() + Sync + Send + 'static) {
    explore_latest(name, 2, full, model);
}

/// Explores any number of threads, loads returning the latest value: interleavings with at most
/// `ordinary` preemptions; in the full run, with `full`.
pub fn explore_latest(
    name: &str,
    ordinary: usize,
    full: Preemptions,
    model: impl Fn() + Sync + Send + 'static,
) {
    let_loads_return(Loads::Latest);
    explore(name, if is_full() { full } else { To(ordinary) }, model);
}

/// Looks for a planted fault as the ordinary run explores two threads, also in the full run.
pub fn catch_two(name: &str, model: impl Fn() + Sync + Send + 'static) {
    catch_two_to(To(3), name, model);
}

/// The same with at most `max` preemptions.
pub fn catch_two_to(max: Preemptions, name: &str, model: impl Fn() + Sync + Send + 'static) {
    let_loads_return(Loads::Any);
    explore(name, max, model);
}

/// Looks for a planted fault as the ordinary run explores three threads.
pub fn catch_three(name: &str, model: impl Fn() + Sync + Send + 'static) {
    catch_latest(name, 4, model);
}

/// Looks for a planted fault with at most `preemptions`, loads returning the latest value.
pub fn catch_latest(name: &str, preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let_loads_return(Loads::Latest);
    explore(name, To(preemptions), model);
}

/// Explores two threads, one of which stops for ever: once for each number of steps that it takes before.
/// The last time it does not stop. The model receives the number of steps, and returns whether the thread has
/// stopped.
///
/// Loads return the latest value, and interleavings have at most 3 preemptions. In the full run they have 4,
/// and the model is explored again with every stale value and at most `full` preemptions.
///
/// # Panics
///
/// If the thread has fewer than `steps_min` steps.
pub fn explore_stops(
    name: &str,
    full: Preemptions,
    steps_min: usize,
    model: impl Fn(usize) -> bool + Sync + Send + 'static,
) {
    let model = Arc::new(model);
    let again = Arc::clone(&model);
    let_loads_return(Loads::Latest);
    explore_each_stop(name, To(if is_full() { 4 } else { 3 }), steps_min, move |steps| {
        model(steps)
    });
    if is_full() {
        let_loads_return(Loads::Any);
        explore_each_stop(name, full, steps_min, move |steps| again(steps));
    }
}

/// The same with every stale value and at most 2 preemptions; in the full run, with `full`.
pub fn explore_stale_stops(
    name: &str,
    full: Preemptions,
    steps_min: usize,
    model: impl Fn(usize) -> bool + Sync + Send + 'static,
) {
    let_loads_return(Loads::Any);
    explore_each_stop(name, if is_full() { full } else { To(2) }, steps_min, model);
}

/// Explores a thread that stops beside two others: loads return the latest value, and interleavings have at
/// most 3 preemptions. (Such tests are ignored in the ordinary run.)
pub fn explore_three_stops(
    name: &str,
    steps_min: usize,
    model: impl Fn(usize) -> bool + Sync + Send + 'static,
) {
    let_loads_return(Loads::Latest);
    explore_each_stop(name, To(3), steps_min, model);
}

/// Looks for a planted fault as the ordinary run explores a thread that stops.
pub fn catch_stops(name: &str, model: impl Fn(usize) -> bool + Sync + Send + 'static) {
    let_loads_return(Loads::Latest);
    explore_each_stop(name, To(3), 1, model);
}

/// Explores the same model, with a thread that does not stop.
pub fn explore_no_stop(name: &str, model: impl Fn(usize) -> bool + Sync + Send + 'static) {
    catch_latest(name, 3, move || assert!(!model(usize::MAX), "no thread has so many steps"));
}

fn explore_each_stop(
    name: &str,
    preemptions: Preemptions,
    steps_min: usize,
    model: impl Fn(usize) -> bool + Sync + Send + 'static,
) {
    let (model, has_stopped) = (Arc::new(model), Arc::new(AtomicBool::new(true)));
    let (mut explored, mut steps) = (0, 0);
    while has_stopped.swap(false, Ordering::Relaxed) {
        let (model, stopped) = (Arc::clone(&model), Arc::clone(&has_stopped));
        explored += count(preemptions, move || {
            if model(steps) {
                stopped.store(true, Ordering::Relaxed);
            }
        });
        steps += 1;
    }
    // The last time it has not stopped.
    let steps = steps - 1;
    println!(
        "{name}: {explored} interleavings, {preemptions}, stopped before each of {steps} steps"
    );
    assert!(steps >= steps_min, "{name}: the thread has {steps} steps, not {steps_min}");
}

fn is_full() -> bool {
    std::env::var_os("TOLLGATE_LOOM_DEPTH").is_some_and(|depth| depth == "full")
}

fn explore(name: &str, preemptions: Preemptions, model: impl Fn() + Sync + Send + 'static) {
    let explored = count(preemptions, model);
    println!("{name}: {explored} interleavings, {preemptions}");
}

/// Explores a model, and returns the number of its interleavings.
fn count(preemptions: Preemptions, model: impl Fn() + Sync + Send + 'static) -> u64 {
    let explored = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&explored);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = match preemptions {
        To(preemptions) => Some(preemptions),
        Any => None,
    };
    builder.max_branches = 20_000;
    builder.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        model();
    });
    explored.load(Ordering::Relaxed)
}
