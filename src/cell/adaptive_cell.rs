//! Samples that threads add to a window, and the state of a controller that steps once for each window.
//!
//! # Layout
//!
//! ```text
//! window      the samples of the window that is open: algo::adaptive::WindowWord
//! due_at      the time from which on the window may end, in nanoseconds
//! needed      the samples that it needs to end
//! counts_from samples of requests that entered before this time are left out, in nanoseconds
//! state       the controller's state, in a StampedCell; the stamp counts the steps
//! ```
//!
//! # Protocol
//!
//! A thread adds its sample by one compare-and-swap of `window`. If the window is then due, the thread
//! tries to take the right to step, which is the `busy` word of the [`StampedCell`]. A thread that finds
//! another at work gives up: the next sample finds the window due again. The thread that has the right
//! checks again that the window is due, since another thread may have closed it meanwhile, and takes it by
//! a compare-and-swap to the empty word. It steps the controller, sets `due_at` and `needed`, publishes the
//! limit, and gives the right back. So each sample is in one window, each window has its samples and one
//! step, and limits are published in the order of the steps.
//!
//! A thread that is stopped in a step holds up the next step, and no request: the limit stays, and the open
//! window goes on counting until it is full. Further samples are then left out.
//!
//! A controller that begins to measure wants no sample of a request that entered before, under the limit before.
//! The thread that steps sets `counts_from` to the time after it has published the new limit, since it may have been
//! stopped before that, and empties the window. A thread that reads the old `counts_from` may still add its
//! sample, but only one: adding it shows the thread the new `counts_from`.
//!
//! # Orderings
//!
//! Relaxed on `due_at` and `needed`: a thread that reads an old value at most tries to step too early or too
//! late. The Acquire and Release of `busy` order the steps, so the check under the right to step reads the latest
//! values.
//!
//! Relaxed on `counts_from` as well; Acquire and Release on the swaps of `window`. Every write to `window` is a swap,
//! so a sample that is added after the window was emptied synchronizes with the emptying, whatever samples lie
//! between (a release sequence). That thread then reads the `counts_from` that was set before the emptying. A sample
//! from before the emptying is thrown away, and a full window takes none.
//!
//! # Guarded by
//!
//! `loom-tests/tests/adaptive.rs`, run by `ci/check.sh loom`, with planted faults: a window is emptied after
//! it was read, is not checked again, or is emptied by a relaxed swap.

use core::time::Duration;

use crate::algo::adaptive::{Controller, LimitRange, STATE_WORDS, Sample, State, WindowWord};
use crate::sync::{AtomicU64, Fault, Ordering, SharedNanos, SharedValue, StampedCell, planted};
use crate::time::{Tick, saturating_nanos};

/// The rules by which windows end and the controller steps.
#[derive(Clone, Copy, Debug)]
#[allow(unreachable_pub, clippy::exhaustive_structs, reason = "models see it")]
pub struct AdaptivePlan {
    /// The controller that moves the limit.
    pub controller: Controller,
    /// The limits between which it moves.
    pub range: LimitRange,
    /// The shortest time that a window lasts.
    pub interval: Duration,
    /// The fewest samples that a window has.
    pub samples_min: u64,
}

/// Samples and a controller's state. See the [module](self).
#[derive(Debug)]
#[allow(unreachable_pub, reason = "models see it")]
pub struct AdaptiveCell {
    window: AtomicU64,
    due_at: SharedNanos,
    needed: SharedValue,
    counts_from: SharedNanos,
    state: StampedCell<STATE_WORDS>,
    plan: AdaptivePlan,
}

#[allow(unreachable_pub, reason = "models see it")]
impl AdaptiveCell {
    /// Begins at `now` with a limit.
    pub fn new(plan: AdaptivePlan, initial: u64, now: Tick) -> Self {
        let state = plan.controller.start(plan.range, initial);
        let cell = Self {
            window: AtomicU64::new(WindowWord::EMPTY.0),
            due_at: SharedNanos::default(),
            needed: SharedValue::new(0),
            counts_from: SharedNanos::default(),
            state: StampedCell::new(0, state.words()),
            plan,
        };
        cell.open_window(&state, now);
        cell
    }

    /// Adds the sample of a request that entered at `entered`. `now` is the present, and no earlier than its end. If
    /// that closes the window, steps the controller and calls `publish` with the limit. `publish` returns the
    /// time after it has published.
    #[inline]
    pub fn record(
        &self,
        sample: &Sample,
        entered: Tick,
        now: Tick,
        publish: impl FnOnce(u64) -> Tick,
    ) {
        if entered.as_nanos() < self.counts_from.read() {
            return;
        }
        if self.is_due(self.add(sample), now) {
            self.step(now, publish);
        }
    }

    /// The steps so far and the state after them; `None` while a thread replaces it.
    pub fn read(&self) -> Option<(u64, State)> {
        self.state.read().map(|(steps, words)| (steps, State::of_words(&words)))
    }

    /// Samples of the window that is open.
    #[cfg(any(test, tollgate_loom))]
    pub fn open_samples(&self) -> u64 {
        WindowWord(self.window.load(Ordering::Relaxed)).window().count()
    }

    /// The rules.
    pub fn plan(&self) -> &AdaptivePlan {
        &self.plan
    }

    /// The window with the sample, or the full one without it.
    #[inline]
    fn add(&self, sample: &Sample) -> WindowWord {
        let mut seen = self.window.load(Ordering::Relaxed);
        loop {
            let Some(next) = WindowWord(seen).with(sample) else { return WindowWord(seen) };
            match self.swap(seen, next) {
                Ok(_) => return next,
                // Another thread added a sample, or closed the window.
                Err(actual) => seen = actual,
            }
        }
    }

    fn swap(&self, seen: u64, next: WindowWord) -> Result<u64, u64> {
        let order = match planted(Fault::WindowUnordered) {
            true => Ordering::Relaxed,
            false => Ordering::AcqRel,
        };
        self.window.compare_exchange(seen, next.0, order, Ordering::Relaxed)
    }

    #[inline]
    fn is_due(&self, word: WindowWord, now: Tick) -> bool {
        now.as_nanos() >= self.due_at.read() && word.window().count() >= self.needed.read()
    }

    #[cold]
    fn step(&self, now: Tick, publish: impl FnOnce(u64) -> Tick) {
        // Of two threads that step at once, one gives up.
        let _ = self.state.replace(|steps, words| {
            let window = self.take_if_due(now)?.window();
            let AdaptivePlan { controller, range, .. } = &self.plan;
            let before = State::of_words(words);
            let after = controller.step(*range, &before, &window, now);
            self.open_window(&after, now);
            let published = publish(after.whole_limit());
            if after.is_measuring() && !before.is_measuring() {
                self.counts_from.set(now.max(published).as_nanos());
                self.take();
            }
            Some((steps.wrapping_add(1), after.words()))
        });
    }

    fn open_window(&self, state: &State, now: Tick) {
        let AdaptivePlan { controller, interval, samples_min, .. } = &self.plan;
        self.due_at.set(now.as_nanos().saturating_add(saturating_nanos(*interval)));
        self.needed.set(controller.samples_needed(state, *samples_min));
    }

    fn take_if_due(&self, now: Tick) -> Option<WindowWord> {
        let word = WindowWord(self.window.load(Ordering::Relaxed));
        if planted(Fault::WindowNotChecked) || self.is_due(word, now) {
            return Some(self.take());
        }
        None
    }

    /// Empties the window, and returns what was in it.
    fn take(&self) -> WindowWord {
        let mut seen = self.window.load(Ordering::Relaxed);
        if planted(Fault::WindowTakenByStore) {
            self.window.store(WindowWord::EMPTY.0, Ordering::Relaxed);
            return WindowWord(seen);
        }
        loop {
            match self.swap(seen, WindowWord::EMPTY) {
                Ok(_) => return WindowWord(seen),
                // Another thread added a sample: it is in this window too.
                Err(actual) => seen = actual,
            }
        }
    }
}

#[cfg(all(test, not(any(tollgate_loom, tollgate_shuttle))))]
mod tests {
    use super::*;
    use crate::algo::adaptive::{Aimd, MinLatency};

    const SECOND: Duration = Duration::from_secs(1);

    fn at(millis: u64) -> Tick {
        Tick::from_nanos(millis * 1_000_000)
    }

    fn cell(controller: impl Into<Controller>, samples_min: u64) -> AdaptiveCell {
        let range = LimitRange { min: 1, max: 100 };
        let plan =
            AdaptivePlan { controller: controller.into(), range, interval: SECOND, samples_min };
        AdaptiveCell::new(plan, 10, Tick::ZERO)
    }

    fn good() -> Sample {
        Sample { latency: Some(Duration::from_millis(1)), limited: true }
    }

    /// Publishes a limit, at the time 0.
    fn publish<L: From<u64>>(to: &mut L) -> impl FnOnce(u64) -> Tick {
        move |limit| {
            *to = limit.into();
            Tick::ZERO
        }
    }

    #[test]
    fn a_window_ends_when_it_has_its_time_and_its_samples() {
        let cell = cell(Aimd::new(), 3);
        for millis in [0, 1, 2, 3, 999] {
            cell.record(&good(), at(0), at(millis), |_| panic!("too early"));
        }
        assert_eq!(cell.open_samples(), 5);
        let mut published: Option<u64> = None;
        cell.record(&good(), at(0), at(1_000), publish(&mut published));
        assert_eq!((published, cell.open_samples()), (Some(11), 0));
        // The next lasts until 2,000 ms, and needs three samples then, too.
        cell.record(&good(), at(0), at(2_500), |_| panic!("too few"));
        cell.record(&good(), at(0), at(2_500), |_| panic!("too few"));
        cell.record(&good(), at(0), at(2_500), publish(&mut published));
        assert_eq!(published, Some(12));
        let (steps, state) = cell.read().expect("no thread steps");
        assert_eq!((steps, state.counted), (2, 9));
    }

    #[test]
    fn a_measurement_leaves_out_requests_that_entered_before_it() {
        let every = MinLatency::new().measure_every(SECOND).measure_samples(2);
        let cell = cell(every, 1);
        let mut limit = cell.read().expect("no thread steps").1.whole_limit();
        assert_eq!(limit, 1, "it begins with a measurement");
        cell.record(&good(), at(0), at(1_000), |_| panic!("two samples are needed"));
        cell.record(&good(), at(0), at(1_000), publish(&mut limit));
        assert_eq!(limit, 10, "measured");
        cell.record(&good(), at(1_000), at(3_000), publish(&mut limit));
        assert_eq!(limit, 1, "measures again");
        for _ in 0..5 {
            cell.record(&good(), at(2_999), at(5_000), |_| panic!("it entered before"));
        }
        assert_eq!(cell.open_samples(), 0);
        cell.record(&good(), at(3_000), at(5_000), |_| panic!("two samples are needed"));
        cell.record(&good(), at(3_000), at(5_000), publish(&mut limit));
        assert_eq!(limit, 10, "measured");
    }

    #[test]
    fn a_measurement_leaves_out_requests_that_entered_before_its_limit_was_published() {
        let every = MinLatency::new().measure_every(SECOND).measure_samples(1);
        let cell = cell(every, 1);
        cell.record(&good(), at(0), at(1_000), |_| at(1_000));
        // The thread that steps is stopped for two seconds before it publishes the limit.
        cell.record(&good(), at(1_000), at(3_000), |limit| {
            assert_eq!(limit, 1, "it measures again");
            at(5_000)
        });
        cell.record(&good(), at(4_999), at(6_000), |_| panic!("it entered before"));
        let mut limit = 1_u64;
        cell.record(&good(), at(5_000), at(6_000), publish(&mut limit));
        assert_eq!(limit, 10, "measured");
    }

    /// Another thread adds a sample of the limit before while the next one is published.
    #[test]
    fn a_measurement_begins_with_an_empty_window() {
        let cell = cell(MinLatency::new().measure_every(SECOND).measure_samples(2), 1);
        cell.record(&good(), at(0), at(1_000), |_| panic!("two samples are needed"));
        cell.record(&good(), at(0), at(1_000), |_| at(1_000));
        cell.record(&good(), at(1_000), at(3_000), |limit| {
            assert_eq!(limit, 1, "it measures again");
            cell.record(&good(), at(1_000), at(3_000), |_| panic!("the window has just begun"));
            assert_eq!(cell.open_samples(), 1);
            at(3_000)
        });
        assert_eq!(cell.open_samples(), 0);
    }

    #[test]
    fn the_longest_window_never_ends() {
        let (controller, range) = (Aimd::new().into(), LimitRange { min: 1, max: 100 });
        let plan = AdaptivePlan { controller, range, interval: Duration::MAX, samples_min: 1 };
        let cell = AdaptiveCell::new(plan, 10, at(5_000));
        cell.record(&good(), at(5_000), at(900_000), |_| panic!("it has no end"));
        assert_eq!(cell.open_samples(), 1);
    }

    #[test]
    fn a_full_window_leaves_samples_out_and_is_still_taken() {
        let cell = cell(Aimd::new(), 1);
        for _ in 0..5_000 {
            cell.record(&good(), at(0), at(10), |_| panic!("too early"));
        }
        assert_eq!(cell.open_samples(), 4_095);
        let mut published: Option<u64> = None;
        cell.record(&good(), at(0), at(1_000), publish(&mut published));
        assert_eq!((published, cell.open_samples()), (Some(11), 0));
    }

    #[test]
    fn a_time_that_goes_back_ends_no_window() {
        let cell = cell(Aimd::new(), 1);
        cell.record(&good(), at(0), at(9_000), |_| Tick::ZERO);
        cell.record(&good(), at(0), at(5_000), |_| panic!("the window began at 9 s"));
        assert_eq!(cell.read().expect("no thread steps").0, 1);
    }
}
