//! The keys that are denied most, as gauges with their names.

use std::collections::HashSet;
use std::fmt::Display;
use std::hash::Hash;

use metrics::gauge;
use tollgate::top::{TopKey, TopKeys};

use crate::figures::{TOP_DENIED, TOP_DROPPED};

/// The label of all keys that have no name of their own any more.
const OTHERS: &str = "(others)";
/// Names that are ever used, for each entry of a page.
const NAMES_PER_ENTRY: usize = 10;

/// Records the keys that are denied most, with a bound on the names it ever uses.
///
/// A recorder keeps a series for every label it has seen, and who is denied chooses the keys. So
/// no more than ten times as many names are used as a page has entries ([`names`](Self::names)
/// sets another bound); keys that come later are added up as `(others)`. A name that has left the
/// page is set to 0.
///
/// **Not guaranteed.** The gauge is the sketch's count, never too low and at most
/// [`error`](TopKey::error) too high. It is a gauge because a key may leave the sketch, or the
/// sketch be reset.
///
/// ```
/// use tollgate::top::TopKeys;
/// use tollgate_observe::TopFigures;
///
/// let top: TopKeys<String> = TopKeys::new(100);
/// let mut figures = TopFigures::new("api", 10);
/// top.note("192.0.2.7");
/// figures.record(&top); // tollgate_top_denied{limiter="api",key="192.0.2.7"} 1
/// ```
#[derive(Debug)]
pub struct TopFigures {
    limiter: String,
    entries: usize,
    names_max: usize,
    names: HashSet<String>,
}

impl TopFigures {
    /// For the limiter of this name, and so many entries a page.
    ///
    /// ```
    /// let figures = tollgate_observe::TopFigures::new("api", 10);
    /// ```
    #[must_use]
    pub fn new(limiter: &str, entries: usize) -> Self {
        let names_max = entries.saturating_mul(NAMES_PER_ENTRY);
        Self { limiter: limiter.to_owned(), entries, names_max, names: HashSet::new() }
    }

    /// Uses at most so many names, however long it is used.
    ///
    /// ```
    /// let figures = tollgate_observe::TopFigures::new("api", 10).names(1_000);
    /// ```
    #[must_use]
    pub fn names(self, most: usize) -> Self {
        Self { names_max: most, ..self }
    }

    /// Records a page. For the handler of a scrape, or a timer: it copies the sketches.
    ///
    /// ```
    /// let top = tollgate::top::TopKeys::new(100);
    /// top.note(&7_u32);
    /// tollgate_observe::TopFigures::new("api", 10).record(&top);
    /// ```
    pub fn record<K: Clone + Display + Eq + Hash>(&mut self, top: &TopKeys<K>) {
        let page = top.top(self.entries);
        let mut gone = self.names.clone();
        let mut others = 0;
        for TopKey { key, denied, .. } in page {
            let name = key.to_string();
            if self.names.contains(&name) || self.names.len() < self.names_max {
                self.set(&name, denied);
                gone.remove(&name);
                self.names.insert(name);
            } else {
                others += denied;
            }
        }
        gone.iter().for_each(|name| self.set(name, 0));
        self.set(OTHERS, others);
        let dropped = gauge!(TOP_DROPPED, "limiter" => self.limiter.clone());
        dropped.set(top.dropped() as f64);
    }

    fn set(&self, name: &str, denied: u64) {
        let labels = [("limiter", self.limiter.clone()), ("key", name.to_owned())];
        gauge!(TOP_DENIED, &labels).set(denied as f64);
    }
}
