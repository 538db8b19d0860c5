//! Adaptive limits: samples that meet in a window, windows that are closed, steps.
//!
//! The protocol is in `src/cell/adaptive_cell.rs`.

#![cfg(tollgate_loom)]

use std::sync::Arc;
use std::time::Duration;

use loom_tests::{
    Preemptions, at, catch_latest, catch_two_to, each_of, explore_four_to, explore_latest,
    explore_two_to,
};
use tollgate::internals::adaptive::{Aimd, LimitRange, MinLatency, Sample};
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

/// Two threads report requests that entered before a measurement, which one of the reports begins.
fn all_report_what_entered_before() {
    const BEFORE: u64 = 1;
    const MEASURED_AT: u64 = 2;
    const REPORTS: u64 = 2;
    // More than the reports of before that may count in it, even with the planted fault.
    const MEASURED: u32 = 3;
    let controller = MinLatency::new().measure_every(Duration::ZERO).measure_samples(MEASURED);
    let plan = AdaptivePlan {
        controller: controller.into(),
        range: LimitRange { min: 1, max: FIRST_LIMIT },
        interval: Duration::ZERO,
        samples_min: 1,
    };
    let cell = Arc::new(AdaptiveCell::new(plan, FIRST_LIMIT, at(0)));
    let sample = Sample { latency: Some(Duration::from_nanos(1)), limited: false };
    for _ in 0..MEASURED {
        cell.record(&sample, at(0), at(BEFORE), |_| at(BEFORE));
    }
    let (_, state) = cell.read().expect("no thread steps");
    assert!(!state.is_measuring(), "the measurement at the beginning has ended");
    each_of(2, &cell, move |cell, _| {
        for _ in 0..REPORTS {
            cell.record(&sample, at(BEFORE), at(MEASURED_AT), |_| at(MEASURED_AT));
        }
        REPORTS
    });
    let (_, state) = cell.read().expect("no thread steps");
    assert!(state.is_measuring(), "a report begins the next");
    assert!(cell.open_samples() <= 1, "one sample of each other thread");
}

#[test]
fn a_measurement_has_one_sample_of_before_from_each_other_thread() {
    explore_two_to(
        "adaptive: 2 threads report what entered before",
        2,
        Preemptions::To(4),
        all_report_what_entered_before,
    );
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

/// The planted fault: the swaps of a window are relaxed.
#[test]
#[should_panic(expected = "one sample of each other thread")]
fn with_relaxed_swaps_a_thread_adds_samples_of_before_a_measurement() {
    plant(Fault::WindowUnordered);
    catch_two_to(Preemptions::To(2), "adaptive: relaxed swaps", all_report_what_entered_before);
}
