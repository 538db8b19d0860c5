//! Adaptive limits: samples that meet in a window, windows that are closed, steps.
//!
//! The protocol is in `src/cell/adaptive_cell.rs`.

#![cfg(tollgate_loom)]

use std::sync::Arc;
use std::time::Duration;

use loom_tests::{
    Preemptions, at, catch_latest, each_of, explore_four_to, explore_latest, explore_two_to,
};
use tollgate::internals::adaptive::{Aimd, LimitRange, Sample};
use tollgate::internals::{AdaptiveCell, AdaptivePlan, Fault, plant};

/// Samples of a window.
const NEEDED: u64 = 2;
const FIRST_LIMIT: u64 = 5;

struct Model {
    cell: AdaptiveCell,
    /// The limit that was published last, and how often.
    published: loom::sync::Mutex<(u64, u64)>,
}

/// A limit of 5 that may grow by one a window to 6; a window has two samples, however short it is.
fn model() -> Arc<Model> {
    let plan = AdaptivePlan {
        controller: Aimd::new().into(),
        range: LimitRange { min: 1, max: FIRST_LIMIT + 1 },
        interval: Duration::ZERO,
        samples_min: NEEDED,
    };
    Arc::new(Model {
        cell: AdaptiveCell::new(plan, FIRST_LIMIT, at(0)),
        published: loom::sync::Mutex::new((FIRST_LIMIT, 0)),
    })
}

/// Reports a good request `times` times.
fn report(model: &Model, times: u64) -> u64 {
    let good = Sample { latency: Some(Duration::from_millis(1)), limited: true };
    for _ in 0..times {
        model.cell.record(&good, at(1), at(1), |limit| {
            let mut published = model.published.lock().unwrap();
            *published = (limit, published.1 + 1);
            at(1)
        });
    }
    times
}

/// Threads report, each its number of times.
fn all_report(times: &'static [u64]) {
    let model = model();
    let reported = each_of(times.len(), &model, |model, number| report(model, times[number]));
    let reported: u64 = reported.iter().sum();
    let (steps, state) = model.cell.read().expect("no thread steps");
    let open = model.cell.open_samples();
    assert_eq!(state.counted + open, reported, "each sample is in one window");
    assert!(state.counted >= NEEDED * steps, "a window has its samples: {steps}, {state:?}");
    let (limit, published) = *model.published.lock().unwrap();
    assert_eq!(published, steps, "one limit for each step");
    assert_eq!(limit, state.whole_limit(), "the last is that of the last step");
    assert_eq!(limit, (FIRST_LIMIT + steps).min(FIRST_LIMIT + 1), "one step up for each window");
    assert!(open < reported, "a window was closed");
}

#[test]
fn samples_of_two_threads_are_each_in_one_window() {
    explore_two_to("adaptive: 2 threads report twice", 3, Preemptions::To(4), || {
        all_report(&[2, 2]);
    });
}

#[test]
fn samples_of_three_threads_are_each_in_one_window() {
    explore_latest("adaptive: 3 threads report", 3, Preemptions::To(4), || {
        all_report(&[2, 1, 1]);
    });
}

#[test]
#[ignore = "4 threads: in the full run"]
fn samples_of_four_threads_are_each_in_one_window() {
    explore_four_to(Preemptions::To(3), "adaptive: 4 threads report", || all_report(&[1, 1, 1, 1]));
}

/// The planted fault: a thread that closes a window reads it, and empties it by a store.
#[test]
#[should_panic(expected = "each sample is in one window")]
fn with_a_window_emptied_by_a_store_a_sample_is_lost() {
    plant(Fault::WindowTakenByStore);
    catch_latest("adaptive: emptied by a store", 3, || all_report(&[2, 2]));
}

/// The planted fault: a thread that gets the right to step takes the window as it is.
#[test]
#[should_panic(expected = "a window has its samples")]
fn with_a_window_not_checked_again_the_controller_steps_without_samples() {
    plant(Fault::WindowNotChecked);
    catch_latest("adaptive: not checked again", 3, || all_report(&[2, 2]));
}
