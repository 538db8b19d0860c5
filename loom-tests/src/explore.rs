//! How far a model is explored.
//!
//! `TOLLGATE_LOOM_DEPTH=full` (`ci/check.sh loom full`) explores what takes minutes, too.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tollgate::internals::{Loads, let_loads_return};

/// Preemptions that an interleaving has at most.
#[derive(Clone, Copy, Debug)]
pub enum Preemptions {
    /// At most this number.
    To(usize),
    /// As many as there can be.
    Any,
}

use Preemptions::{Any, To};

impl core::fmt::Display for Preemptions {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            To(most) => write!(f, "at most {most} preemptions"),
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

/// The same with at most `most` preemptions.
pub fn catch_two_to(most: Preemptions, name: &str, model: impl Fn() + Sync + Send + 'static) {
    let_loads_return(Loads::Any);
    explore(name, most, model);
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

fn is_full() -> bool {
    std::env::var_os("TOLLGATE_LOOM_DEPTH").is_some_and(|depth| depth == "full")
}

fn explore(name: &str, preemptions: Preemptions, model: impl Fn() + Sync + Send + 'static) {
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
    let explored = explored.load(Ordering::Relaxed);
    println!("{name}: {explored} interleavings, {preemptions}");
}
