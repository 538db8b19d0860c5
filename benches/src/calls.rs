//! Single calls, each timed with the processor's time stamp counter.

use std::hint::black_box;

use hdrhistogram::Histogram;
use quanta::Clock as Counter;

use crate::process::preemptions;
use crate::saved::{CallsRow, Percentile};

/// A call slower than this is counted as slow.
const SLOW_NANOS: u64 = 100_000;

/// The percentiles that are kept of a distribution.
const PERCENTS: [f64; 12] =
    [10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99, 99.999];

/// Timed calls of one kind.
#[derive(Clone, Debug)]
pub struct Calls {
    name: String,
    nanos: Histogram<u64>,
    slow: u64,
    preempted: u64,
}

impl Calls {
    /// An empty distribution.
    ///
    /// # Panics
    ///
    /// Never: the bounds of the histogram are valid.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let nanos = Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("valid bounds");
        Self { name: name.to_owned(), nanos, slow: 0, preempted: 0 }
    }

    /// Adds one call.
    #[inline]
    pub fn record(&mut self, nanos: u64) {
        self.nanos.saturating_record(nanos);
        self.slow += u64::from(nanos > SLOW_NANOS);
    }

    /// Adds calls that took equally long, as [`durations`](Self::durations) gives them.
    pub fn record_all(&mut self, nanos: u64, count: u64) {
        self.nanos.saturating_record_n(nanos, count);
        self.slow += if nanos > SLOW_NANOS { count } else { 0 };
    }

    /// How long calls took in nanoseconds, to three digits, and how many of them took as long.
    pub fn durations(&self) -> impl Iterator<Item = (u64, u64)> {
        self.nanos.iter_recorded().map(|at| (at.value_iterated_to(), at.count_at_value()))
    }

    /// Runs `work` on this thread, and counts how often the system preempted the thread meanwhile.
    /// Returns the nanoseconds that it took.
    pub fn watch(&mut self, counter: &Counter, work: impl FnOnce(&mut Self)) -> u64 {
        let (before, begin) = (preemptions(), counter.raw());
        work(self);
        self.preempted += preemptions() - before;
        counter.delta_as_nanos(begin, counter.raw())
    }

    /// Reads the timer in a loop, for `span_nanos` nanoseconds. Each reading ends one call and
    /// begins the next, so every preemption falls into a call.
    pub fn idle(&mut self, counter: &Counter, span_nanos: u64) {
        self.watch(counter, |calls| {
            let begin = counter.raw();
            let mut start = begin;
            while counter.delta_as_nanos(begin, start) < span_nanos {
                let end = black_box(counter.raw());
                calls.record(counter.delta_as_nanos(start, end));
                start = end;
            }
        });
    }

    /// Adds the calls of another thread.
    ///
    /// # Panics
    ///
    /// Never: all histograms have the same bounds.
    pub fn add(&mut self, other: &Self) {
        self.nanos.add(&other.nanos).expect("the same bounds");
        self.slow += other.slow;
        self.preempted += other.preempted;
    }

    /// Calls that took more than 100 microseconds.
    #[must_use]
    pub fn slow(&self) -> u64 {
        self.slow
    }

    /// The percentile of the calls, in nanoseconds.
    #[must_use]
    pub fn nanos(&self, percent: f64) -> u64 {
        self.nanos.value_at_quantile(percent / 100.0)
    }
}

impl From<&Calls> for CallsRow {
    fn from(calls: &Calls) -> Self {
        let point = |percent| Percentile { percent, nanos: calls.nanos(percent) };
        Self {
            name: calls.name.clone(),
            calls: calls.nanos.len(),
            percentiles: PERCENTS.map(point).to_vec(),
            max_nanos: calls.nanos.max(),
            slow: calls.slow,
            preempted: calls.preempted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::saved::SHOWN;

    #[test]
    fn calls_of_all_threads_are_merged_into_one_distribution() {
        let (mut one, mut other) = (Calls::new("a"), Calls::new("a"));
        (1..=500).for_each(|nanos| one.record(nanos));
        (501..=1_000).for_each(|nanos| other.record(nanos));
        other.record(200_000);
        one.add(&other);
        let row = CallsRow::from(&one);
        assert_eq!((row.calls, row.slow, row.nanos(50.0)), (1_001, 1, Some(501)));
        assert!(row.max_nanos >= 200_000);
    }

    #[test]
    fn calls_of_another_process_are_added_by_their_durations() {
        let (mut one, mut other) = (Calls::new("a"), Calls::new("a"));
        (1..=500).for_each(|nanos| one.record(nanos));
        (501..=1_000).chain([200_000]).for_each(|nanos| other.record(nanos));
        other.durations().for_each(|(nanos, count)| one.record_all(nanos, count));
        let row = CallsRow::from(&one);
        assert_eq!((row.calls, row.slow, row.nanos(50.0)), (1_001, 1, Some(501)));
    }

    #[test]
    fn every_percentile_of_a_table_is_kept() {
        assert!(SHOWN.iter().all(|shown| PERCENTS.contains(shown)));
    }
}
