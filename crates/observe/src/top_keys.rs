//! The keys that are denied most, as gauges labelled with the keys.

use std::collections::HashMap;
use std::fmt::Display;
use std::hash::Hash;

use metrics::gauge;
use tollgate::top::{TopKey, TopKeys};

use crate::recorder::{TOP_DENIED, TOP_DROPPED};

/// The label of all keys that have no series of their own.
const OTHERS: &str = "(others)";
/// How many series a recorder makes in all, for each entry that it records.
const SERIES_PER_ENTRY: usize = 10;

/// The longest label, since the exporter keeps all labels and sends them with every scrape.
const KEY_BYTES: usize = 200;

/// Records the keys that are denied most, with a bound on the number of series.
///
/// A metrics recorder keeps a series for every label that it has seen, and clients may choose their keys.
/// So this recorder uses at most ten times as many keys as labels as it records entries;
/// [`max_series`](Self::max_series) sets another bound. Later keys are added up as `(others)`, and so are
/// keys of more than 200 bytes, and a key that itself reads `(others)`. Keys that read alike share a series. The gauge of a key that is no longer among
/// the entries is set to 0.
///
/// Create one recorder for a limiter, before the scrapes, and keep it. It remembers the labels in use. A new
/// recorder for each scrape would use new labels each time, without a bound, and would set no gauge to 0.
///
/// **Not guaranteed.** The gauge is the count of the sketch: never too low, and at most
/// [`error`](TopKey::error) too high. It is a gauge and not a counter, because a key may leave the sketch
/// and the sketch may be reset.
///
/// ```
/// use tollgate::top::TopKeys;
/// use tollgate_observe::TopKeysRecorder;
///
/// let top: TopKeys<String> = TopKeys::new(100);
/// let mut recorder = TopKeysRecorder::new("api", 10);
/// top.note("192.0.2.7");
/// recorder.record(&top); // tollgate_top_denied{limiter="api",key="192.0.2.7"} 1
/// ```
#[derive(Debug)]
pub struct TopKeysRecorder {
    limiter: String,
    entries: usize,
    max_series: usize,
    /// The labels in use, and the denials of their keys.
    series: HashMap<String, u64>,
}

impl TopKeysRecorder {
    /// A recorder for the limiter of this name, which records `entries` keys.
    ///
    /// ```
    /// let recorder = tollgate_observe::TopKeysRecorder::new("api", 10);
    /// ```
    #[must_use]
    pub fn new(limiter: &str, entries: usize) -> Self {
        let max_series = entries.saturating_mul(SERIES_PER_ENTRY);
        Self { limiter: limiter.to_owned(), entries, max_series, series: HashMap::new() }
    }

    /// Bounds the number of keys that are ever used as labels.
    ///
    /// ```
    /// let recorder = tollgate_observe::TopKeysRecorder::new("api", 10).max_series(1_000);
    /// ```
    #[must_use]
    pub fn max_series(self, max: usize) -> Self {
        Self { max_series: max, ..self }
    }

    /// Records the entries. Call it from the handler of a scrape or from a timer: it copies the sketch.
    ///
    /// ```
    /// let top = tollgate::top::TopKeys::new(100);
    /// let mut recorder = tollgate_observe::TopKeysRecorder::new("api", 10);
    /// for _scrape in 0..2 {
    ///     top.note(&7_u32);
    ///     recorder.record(&top);
    /// }
    /// ```
    pub fn record<K: Clone + Display + Eq + Hash>(&mut self, top: &TopKeys<K>) {
        self.series.values_mut().for_each(|denied| *denied = 0);
        let mut others = 0;
        for TopKey { key, denied, .. } in top.top(self.entries) {
            let key = key.to_string();
            let has_room = self.series.contains_key(&key) || self.series.len() < self.max_series;
            // A key that reads `(others)` would share the series, and the count of the others replace its own.
            if key != OTHERS && key.len() <= KEY_BYTES && has_room {
                *self.series.entry(key).or_default() += denied;
            } else {
                others += denied;
            }
        }
        self.series.iter().for_each(|(key, denied)| self.set(key, *denied));
        self.set(OTHERS, others);
        let dropped = gauge!(TOP_DROPPED, "limiter" => self.limiter.clone());
        dropped.set(top.dropped() as f64);
    }

    fn set(&self, key: &str, denied: u64) {
        let labels = [("limiter", self.limiter.clone()), ("key", key.to_owned())];
        gauge!(TOP_DENIED, &labels).set(denied as f64);
    }
}
