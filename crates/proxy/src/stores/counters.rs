//! The counters of stores. They survive a reload: what a store has counted stays, also when its settings change or it
//! leaves the rules file.

use tollgate_redis::StoreStats;

/// A label of `tollgate_store_calls_total`, and its counter.
type Column = (&'static str, fn(&StoreStats) -> u64);
pub(super) const OUTCOMES: [Column; 5] = [
    ("answered", |stats| stats.answered),
    ("timed_out", |stats| stats.timed_out),
    ("disconnected", |stats| stats.disconnected),
    ("failed", |stats| stats.failed),
    ("skipped", |stats| stats.skipped),
];

/// How many URLs that no rule has keep their counters.
const RETIRED_MAX: usize = 64;

/// Sums over stores with the same URL, without users and passwords.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counters {
    pub(super) opened: u64,
    /// In the order of [`OUTCOMES`].
    pub(super) outcomes: [u64; OUTCOMES.len()],
}

impl Counters {
    pub(super) fn of(stats: &StoreStats) -> Self {
        Self { opened: stats.circuit_opened, outcomes: OUTCOMES.map(|(_, read)| read(stats)) }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.opened += other.opened;
        self.outcomes.iter_mut().zip(other.outcomes).for_each(|(sum, count)| *sum += count);
    }
}

/// The counters of stores that have left, by their URLs, in the order in which they left.
#[derive(Clone, Debug, Default)]
pub(super) struct Retired(Vec<(String, Counters)>);

impl Retired {
    pub(super) fn add(&mut self, url: String, mut counters: Counters) {
        if let Some(at) = self.0.iter().position(|(its, _)| *its == url) {
            counters.add(&self.0.remove(at).1);
        }
        self.0.push((url, counters));
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &(String, Counters)> {
        self.0.iter()
    }

    /// Keeps the URLs that are in use, and the last [`RETIRED_MAX`] of the others.
    pub(super) fn prune(&mut self, is_in_use: impl Fn(&str) -> bool) {
        let unused = self.0.iter().filter(|(url, _)| !is_in_use(url)).count();
        let mut surplus = unused.saturating_sub(RETIRED_MAX);
        self.0.retain(|(url, _)| {
            let is_kept = surplus == 0 || is_in_use(url);
            surplus -= usize::from(!is_kept);
            is_kept
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_urls_without_a_rule_are_forgotten() {
        let counters = |opened| Counters { opened, ..Counters::default() };
        let mut retired = Retired::default();
        for url in 0..RETIRED_MAX + 3 {
            retired.add(url.to_string(), counters(1));
        }
        retired.add("1".to_owned(), counters(2));
        retired.prune(|url| url == "0");
        let kept: Vec<_> = retired.iter().map(|(url, its)| (url.as_str(), its.opened)).collect();
        assert_eq!(kept.len(), RETIRED_MAX + 1);
        assert_eq!((kept[0], kept[1]), (("0", 1), ("4", 1)), "2 and 3 are forgotten");
        assert_eq!(kept.last(), Some(&("1", 3)));
    }
}
