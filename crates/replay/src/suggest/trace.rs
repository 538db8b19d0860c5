//! The requests of a log in memory, up to a bound.
//!
//! The analysis runs at rates and bursts that are known only at the end of the log. So the requests
//! are kept: 24 bytes each, and 16 more while they are grouped by key. A log that exceeds the bound is
//! thinned by key: a hash selects half of the keys, which are dropped with all their requests, as
//! often as needed. Results for a remaining key are exact, and shares are those of an even sample of
//! keys. The keys of a list are never dropped, so a share of them is exact too. If there are too few
//! keys to thin, the requests beyond the bound are ignored.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use super::well_behaved::KeyList;

/// The largest number of kept requests: 200 MB, and 140 MB more while they are grouped.
const REQUESTS_MAX: usize = 1 << 23;
/// A log with fewer keys that may be dropped is not thinned.
const KEYS_MIN: usize = 1_000;

/// Requests in the order of the log.
#[derive(Debug)]
pub(crate) struct Trace<'p> {
    requests_max: usize,
    list: Option<&'p KeyList>,
    /// The keys of the list that had a request, as the list writes them.
    listed: HashSet<&'p str>,
    /// How many of `numbers` are in the list.
    listed_kept: usize,
    numbers: HashMap<Box<str>, u32>,
    requests: Vec<Recorded>,
    kept: Kept,
}

/// One request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recorded {
    pub(super) unix_nanos: u64,
    pub(super) cells: u64,
    pub(super) key: u32,
}

/// How much of the log was kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kept {
    /// How often the keys were halved.
    pub(crate) halvings: u32,
    /// Requests at the end of the log that were ignored.
    pub(crate) cut: u64,
    /// Keys of the list that had a request, among those that were ignored too.
    pub(crate) listed: u64,
}

impl<'p> Trace<'p> {
    /// An empty trace that drops no key of the list.
    pub(crate) fn new(list: Option<&'p KeyList>) -> Self {
        Self::with_room(REQUESTS_MAX, list)
    }

    fn with_room(requests_max: usize, list: Option<&'p KeyList>) -> Self {
        Self {
            requests_max,
            list,
            listed: HashSet::new(),
            listed_kept: 0,
            numbers: HashMap::new(),
            requests: Vec::new(),
            kept: Kept::default(),
        }
    }

    /// Keeps a request if there is room. Time never goes back.
    pub(crate) fn record(&mut self, key: &str, cells: u64, unix_nanos: u64) {
        if self.kept.cut == 0 && self.requests.len() >= self.requests_max {
            self.make_room();
        }
        if self.kept.cut > 0 || self.requests.len() >= self.requests_max {
            self.kept.cut += 1;
            self.note_listed(key);
            return;
        }
        let key = match self.numbers.get(key) {
            Some(number) => *number,
            None => {
                let is_listed = self.note_listed(key);
                if !is_listed && !stays(key, self.kept.halvings) {
                    return;
                }
                self.listed_kept += usize::from(is_listed);
                let number = u32::try_from(self.numbers.len()).expect("fewer than requests");
                self.numbers.insert(key.into(), number);
                number
            }
        };
        self.requests.push(Recorded { unix_nanos, cells, key });
    }

    /// Notes that a key of the list has a request. Returns whether the list has the key.
    fn note_listed(&mut self, key: &str) -> bool {
        let listed = self.list.and_then(|list| list.entry(key));
        self.listed.extend(listed);
        listed.is_some()
    }

    /// Drops half of the keys that are not in the list, repeatedly while that frees less than a quarter.
    fn make_room(&mut self) {
        let list = self.list;
        let is_listed = |key: &str| list.is_some_and(|list| list.entry(key).is_some());
        while self.requests.len() > self.requests_max / 4 * 3
            && self.numbers.len() - self.listed_kept >= KEYS_MIN
        {
            self.kept.halvings += 1;
            let mut renumbered = vec![None; self.numbers.len()];
            let mut next = 0;
            self.numbers.retain(|key, number| {
                let stays = stays(key, self.kept.halvings) || is_listed(key);
                if stays {
                    renumbered[*number as usize] = Some(next);
                    *number = next;
                    next += 1;
                }
                stays
            });
            self.requests.retain_mut(|request| {
                let number = renumbered[request.key as usize];
                request.key = number.unwrap_or_default();
                number.is_some()
            });
        }
    }

    /// The names of all keys by their numbers, the requests, and how much of the log they are.
    pub(super) fn into_parts(self) -> (Vec<Box<str>>, Vec<Recorded>, Kept) {
        let mut names = vec![Box::default(); self.numbers.len()];
        for (name, number) in self.numbers {
            names[number as usize] = name;
        }
        let kept = Kept { listed: self.listed.len() as u64, ..self.kept };
        (names, self.requests, kept)
    }
}

/// Whether a key remains after this number of halvings. The answer is the same in every run.
fn stays(key: &str, halvings: u32) -> bool {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish().trailing_zeros() >= halvings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_log_is_thinned_by_key_and_remaining_keys_keep_all_requests() {
        let mut trace = Trace::with_room(10_000, None);
        for at in 0..60_000_u64 {
            trace.record(&(at % 5_000).to_string(), 1, at);
        }
        let (names, requests, kept) = trace.into_parts();
        assert_eq!(kept.cut, 0);
        assert!((2..=3).contains(&kept.halvings), "{kept:?}");
        let expected = 5_000 >> kept.halvings;
        assert!((expected - 150..expected + 150).contains(&names.len()), "{}", names.len());
        assert_eq!(requests.len(), names.len() * 12);
        assert!(
            requests
                .iter()
                .all(|its| { (its.unix_nanos % 5_000).to_string() == *names[its.key as usize] })
        );
    }

    #[test]
    fn a_long_log_of_few_keys_keeps_its_first_requests() {
        let mut trace = Trace::with_room(100, None);
        for at in 0..250_u64 {
            trace.record(&(at % 2).to_string(), 1, at);
        }
        let (names, requests, kept) = trace.into_parts();
        let expected = Kept { cut: 150, ..Kept::default() };
        assert_eq!((names.len(), requests.len(), kept), (2, 100, expected));
    }

    #[test]
    fn keys_of_a_list_are_never_dropped() {
        let list = KeyList::of(&["3", "77", "4999", "none"]);
        let mut trace = Trace::with_room(10_000, Some(&list));
        for at in 0..60_000_u64 {
            trace.record(&(at % 5_000).to_string(), 1, at);
        }
        let (names, requests, kept) = trace.into_parts();
        assert!(kept.halvings >= 2 && kept.cut == 0, "{kept:?}");
        assert_eq!(kept.listed, 3);
        for listed in ["3", "77", "4999"] {
            let number = names.iter().position(|name| **name == *listed).expect("it is kept");
            let its = requests.iter().filter(|request| request.key as usize == number).count();
            assert_eq!(its, 12, "{listed}");
        }
        assert!(names.len() < 5_000 / 3, "{}", names.len());
    }

    #[test]
    fn a_list_that_fills_the_memory_ends_the_trace_and_its_later_keys_are_noted() {
        let names: Vec<String> = (0..3_000).map(|key| key.to_string()).collect();
        let list = KeyList::of(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let mut trace = Trace::with_room(2_000, Some(&list));
        for (at, key) in (0..2_990).enumerate() {
            trace.record(&key.to_string(), 1, at as u64);
        }
        let (names, _, kept) = trace.into_parts();
        assert_eq!((names.len(), kept), (2_000, Kept { halvings: 0, cut: 990, listed: 2_990 }));
    }
}
