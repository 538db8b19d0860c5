//! The samples of a window, in one word.

use core::time::Duration;

use super::{LATENCY_MAX, PLACES, units};
use crate::word::Field;

/// A request that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "internal")]
pub struct Sample {
    /// The latency, or `None` if the request failed.
    pub latency: Option<Duration>,
    /// Whether at least half of the limit was in flight when it began.
    pub limited: bool,
}

/// The samples of a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "internal")]
pub struct Window {
    /// Requests that succeeded.
    pub succeeded: u64,
    /// Requests that failed.
    pub failed: u64,
    /// The sum of the latencies of those that succeeded, in units.
    pub latency_sum: u64,
    /// Whether at least half of the limit was in flight at some time.
    pub limited: bool,
}

impl Window {
    /// Samples in it.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.succeeded + self.failed
    }

    /// The mean latency of the requests that succeeded, in fixed point; 1 unit at least.
    pub(super) fn mean_latency(&self) -> Option<u64> {
        (self.latency_sum.max(self.succeeded) << PLACES).checked_div(self.succeeded)
    }
}

/// A window as a word that threads add samples to.
///
/// ```text
/// bit  63      limited     a request began with at least half of the limit in flight
/// bits 62..52  failed      requests that failed, up to 2,047
/// bits 51..40  succeeded   requests that succeeded, up to 4,095
/// bits 39..0   latency     the sum of the latencies of those, in units of 256 ns
/// ```
///
/// 0 is an empty window. A window that has the most requests of either kind is full and takes no more of
/// either, so that its share of failures is that of the requests. The sum cannot overflow, since a latency
/// has 28 bits and a count 12.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "internal")]
pub struct WindowWord(pub u64);

const LATENCY: Field = Field::new(0, 40);
const SUCCEEDED: Field = LATENCY.above(12);
const FAILED: Field = SUCCEEDED.above(11);
const LIMITED: Field = FAILED.above(1);

const _: () = assert!(SUCCEEDED.max() * LATENCY_MAX <= LATENCY.max());
const _: () = assert!(LIMITED.of(u64::MAX) == 1 && LIMITED.of(u64::MAX >> 1) == 0);

impl WindowWord {
    /// No sample.
    pub const EMPTY: Self = Self(0);

    /// The samples.
    #[must_use]
    pub fn window(self) -> Window {
        Window {
            succeeded: SUCCEEDED.of(self.0),
            failed: FAILED.of(self.0),
            latency_sum: LATENCY.of(self.0),
            limited: LIMITED.of(self.0) == 1,
        }
    }

    /// The window with one sample more; `None` if it is full.
    #[must_use]
    pub fn with(self, sample: &Sample) -> Option<Self> {
        let Window { succeeded, failed, latency_sum, limited } = self.window();
        if succeeded == SUCCEEDED.max() || failed == FAILED.max() {
            return None;
        }
        let counted = match sample.latency {
            Some(latency) => {
                let sum = (latency_sum + units(latency)).min(LATENCY.max());
                LATENCY.set(SUCCEEDED.set(self.0, succeeded + 1), sum)
            }
            None => FAILED.set(self.0, failed + 1),
        };
        Some(Self(LIMITED.set(counted, u64::from(limited || sample.limited))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::word::tile;
    use proptest::prelude::*;

    #[test]
    fn the_fields_tile_the_word() {
        assert!(tile(&[LATENCY, SUCCEEDED, FAILED, LIMITED], 64));
    }

    #[test]
    fn a_window_that_is_full_of_one_kind_takes_no_sample_of_either() {
        for full in [SUCCEEDED, FAILED].map(|field| WindowWord(field.set(0, field.max()))) {
            for latency in [Some(Duration::ZERO), None] {
                assert_eq!(full.with(&Sample { latency, limited: false }), None, "{full:?}");
            }
        }
    }

    /// A controller backs off by the share of failures.
    #[test]
    fn a_window_of_more_requests_than_it_counts_has_their_share_of_failures() {
        for percent in [1, 4, 33, 50, 90, 99] {
            let mut word = WindowWord::EMPTY;
            for number in 0..20_000 {
                // In each hundred, spread evenly.
                let failed = number * 37 % 100 < percent;
                let latency = (!failed).then_some(Duration::ZERO);
                word = word.with(&Sample { latency, limited: false }).unwrap_or(word);
            }
            let window = word.window();
            let off = (window.failed * 100).abs_diff(window.count() * percent);
            assert!(off < window.count(), "{percent} % of the requests fail: {window:?}");
        }
    }

    proptest! {
        /// A word counts what is added to it, whatever it is.
        #[test]
        fn a_window_counts_its_samples(
            samples in proptest::collection::vec((any::<Option<u64>>(), any::<bool>()), 0..200),
        ) {
            let (mut word, mut naive) = (WindowWord::EMPTY, Window::default());
            for (nanos, limited) in samples {
                let latency = nanos.map(Duration::from_nanos);
                word = word.with(&Sample { latency, limited }).expect("room");
                match nanos {
                    Some(nanos) => {
                        naive.succeeded += 1;
                        naive.latency_sum += (nanos / 256).min(LATENCY_MAX);
                    }
                    None => naive.failed += 1,
                }
                naive.limited |= limited;
            }
            prop_assert_eq!(word.window(), naive);
        }

        /// Any word takes a sample or is full, and no field spills into another.
        #[test]
        fn any_word_takes_a_sample_or_is_full(word: u64, nanos: Option<u64>) {
            let before = WindowWord(word).window();
            let is_full = before.succeeded == SUCCEEDED.max() || before.failed == FAILED.max();
            let sample = Sample { latency: nanos.map(Duration::from_nanos), limited: false };
            match WindowWord(word).with(&sample) {
                Some(after) => {
                    prop_assert!(!is_full);
                    prop_assert_eq!(after.window().count(), before.count() + 1);
                    prop_assert_eq!(after.window().limited, before.limited);
                }
                None => prop_assert!(is_full),
            }
        }
    }
}
