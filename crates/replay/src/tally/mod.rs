//! The counts of a replay: per limiter, per key, over time.

pub(crate) mod timeline;
mod worst_window;

use std::collections::HashMap;
use std::time::Duration;

use tollgate::internals::oracle::Verdict;

use self::timeline::Timeline;
use self::worst_window::{AdmittedCells, WorstWindow};

/// The counts of one limiter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Admitted requests.
    pub(crate) admitted: u64,
    /// Admitted requests that were delayed.
    pub(crate) delayed: u64,
    /// The longest delay.
    pub(crate) longest_delay: Duration,
    /// Denied requests.
    pub(crate) denied: u64,
    /// Denied requests that cost more than the limiter ever holds.
    pub(crate) never_fit: u64,
    /// The cost of the denied requests.
    pub(crate) cost_denied: u64,
    /// Keys that were denied at least once.
    pub(crate) keys_denied: u64,
}

/// All counts. Memory: a few words for each key and for each admission of the last period, and a
/// constant for the rest.
#[derive(Debug)]
pub(crate) struct Tally {
    limiters: Vec<Counts>,
    requests: u64,
    cost: u64,
    indices: HashMap<Box<str>, usize>,
    /// One row per key: its requests, then its denials by each limiter.
    by_key: Vec<u64>,
    over_time: Timeline,
    worst: Vec<WorstWindow>,
}

/// A key, its requests, and how many of them one limiter denied.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct KeyCounts<'t> {
    pub(crate) key: &'t str,
    pub(crate) requests: u64,
    pub(crate) denied: u64,
}

/// The most cells that a limiter admitted to one key within one period of its rule.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Worst<'t> {
    pub(crate) cells: u64,
    pub(crate) key: &'t str,
    /// When the last of these cells was let through.
    pub(crate) end_unix_nanos: u64,
}

impl Tally {
    /// Empty counts for limiters whose rules have these periods, on a clock at that offset from UTC.
    pub(crate) fn new(periods: impl IntoIterator<Item = Duration>, offset_secs: i32) -> Self {
        let worst: Vec<WorstWindow> = periods.into_iter().map(WorstWindow::new).collect();
        let limiters = worst.len();
        Self {
            worst,
            limiters: vec![Counts::default(); limiters],
            requests: 0,
            cost: 0,
            indices: HashMap::new(),
            by_key: Vec::new(),
            over_time: Timeline::new(limiters, offset_secs),
        }
    }

    /// Counts a request. The caller then counts each verdict on the returned row.
    pub(crate) fn request(&mut self, key: &str, cost: u64, unix_nanos: u64) -> Row<'_> {
        let width = 1 + self.limiters.len();
        let index = match self.indices.get(key) {
            Some(index) => *index,
            None => {
                let index = self.indices.len();
                self.indices.insert(key.into(), index);
                self.by_key.resize((index + 1) * width, 0);
                index
            }
        };
        self.requests += 1;
        self.cost = self.cost.saturating_add(cost);
        self.over_time.advance(unix_nanos);
        let row = &mut self.by_key[index * width..][..width];
        row[0] += 1;
        Row {
            limiters: &mut self.limiters,
            denied: &mut row[1..],
            over_time: &mut self.over_time,
            worst: &mut self.worst,
            request: AdmittedCells { unix_nanos, key: index, cells: cost },
        }
    }

    /// Counts the delayed requests that are still waiting. No request may follow.
    pub(crate) fn finish(&mut self) {
        self.worst.iter_mut().for_each(WorstWindow::finish);
    }

    /// The counts of each limiter.
    pub(crate) fn limiters(&self) -> &[Counts] {
        &self.limiters
    }

    /// All requests.
    pub(crate) fn requests(&self) -> u64 {
        self.requests
    }

    /// Different keys.
    pub(crate) fn keys(&self) -> u64 {
        self.indices.len() as u64
    }

    /// The total cost of all requests.
    pub(crate) fn cost(&self) -> u64 {
        self.cost
    }

    /// Denials over time, one series per limiter.
    pub(crate) fn over_time(&self) -> &Timeline {
        &self.over_time
    }

    /// The worst window of a limiter; `None` if it admitted nothing.
    pub(crate) fn worst(&self, limiter: usize) -> Option<Worst<'_>> {
        let window = self.worst[limiter].worst()?;
        let (key, _) = self.indices.iter().find(|(_, index)| **index == window.key)?;
        Some(Worst { cells: window.cells, key, end_unix_nanos: window.unix_nanos })
    }

    /// The keys that a limiter denied most often, at most `count` of them.
    pub(crate) fn denied_most(&self, limiter: usize, count: usize) -> Vec<KeyCounts<'_>> {
        let width = 1 + self.limiters.len();
        let keys = self.indices.iter().map(|(key, index)| {
            let row = &self.by_key[index * width..][..width];
            KeyCounts { key, requests: row[0], denied: row[1 + limiter] }
        });
        KeyCounts::denied_most(keys, count)
    }
}

impl<'t> KeyCounts<'t> {
    /// The keys that were denied most often, at most `count` of them.
    pub(crate) fn denied_most(keys: impl Iterator<Item = Self>, count: usize) -> Vec<Self> {
        let mut keys: Vec<Self> = keys.filter(|counts| counts.denied > 0).collect();
        keys.sort_unstable_by(|a, b| b.denied.cmp(&a.denied).then_with(|| a.key.cmp(b.key)));
        keys.truncate(count);
        keys
    }
}

/// The counts that the verdicts of one request change.
#[derive(Debug)]
pub(crate) struct Row<'t> {
    limiters: &'t mut [Counts],
    denied: &'t mut [u64],
    over_time: &'t mut Timeline,
    worst: &'t mut [WorstWindow],
    /// The cells to count if a limiter admits the request.
    request: AdmittedCells,
}

impl Row<'_> {
    /// Counts the verdict of one limiter.
    pub(crate) fn verdict(&mut self, limiter: usize, verdict: &Verdict) {
        let counts = &mut self.limiters[limiter];
        if verdict.admitted {
            counts.admitted += 1;
            counts.delayed += u64::from(!verdict.delay.is_zero());
            counts.longest_delay = counts.longest_delay.max(verdict.delay);
            self.worst[limiter].admit(self.request, verdict.delay);
            return;
        }
        counts.denied += 1;
        counts.never_fit += u64::from(verdict.retry_after.is_none());
        counts.cost_denied = counts.cost_denied.saturating_add(self.request.cells);
        counts.keys_denied += u64::from(self.denied[limiter] == 0);
        self.denied[limiter] += 1;
        self.over_time.count(limiter);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(admitted: bool, retry_after: Option<Duration>) -> Verdict {
        let (reset_after, delay) = (Duration::ZERO, Duration::ZERO);
        Verdict { admitted, remaining: 0, reset_after, retry_after, delay }
    }

    #[test]
    fn verdicts_are_counted_by_limiter_and_key() {
        let mut tally = Tally::new([Duration::from_secs(1); 2], 0);
        for (key, first, second) in
            [("a", true, false), ("b", true, true), ("a", false, false), ("c", true, false)]
        {
            let mut row = tally.request(key, 10, 1_000);
            row.verdict(0, &verdict(first, Some(Duration::ZERO)));
            row.verdict(1, &verdict(second, None));
        }
        assert_eq!((tally.requests(), tally.keys(), tally.cost()), (4, 3, 40));
        assert_eq!(
            tally.limiters()[1],
            Counts {
                admitted: 1,
                denied: 3,
                never_fit: 3,
                cost_denied: 30,
                keys_denied: 2,
                ..Counts::default()
            }
        );
        assert_eq!((tally.limiters()[0].keys_denied, tally.limiters()[0].never_fit), (1, 0));
        let most = tally.denied_most(1, 10);
        assert_eq!(most[0], KeyCounts { key: "a", requests: 2, denied: 2 });
        assert_eq!(most[1].key, "c");
        assert_eq!(tally.denied_most(1, 1).len(), 1);
        assert_eq!(tally.over_time().columns(9).counts, [[1], [3]]);
        assert_eq!(tally.worst(0), Some(Worst { cells: 10, key: "a", end_unix_nanos: 1_000 }));
        assert_eq!(tally.worst(1).unwrap().key, "b");
    }

    #[test]
    fn a_delayed_request_counts_when_its_delay_is_over() {
        let mut tally = Tally::new([Duration::from_nanos(10)], 0);
        for delay in [0, 10, 20, 10] {
            let delay = Duration::from_nanos(delay);
            let mut row = tally.request("a", 3, 1_000);
            row.verdict(0, &Verdict { delay, ..verdict(true, None) });
        }
        tally.request("a", 3, 1_000).verdict(0, &verdict(false, Some(Duration::ZERO)));
        tally.finish();
        let counts = tally.limiters()[0];
        assert_eq!((counts.admitted, counts.delayed, counts.denied), (4, 3, 1));
        assert_eq!(counts.longest_delay, Duration::from_nanos(20));
        assert_eq!(tally.worst(0), Some(Worst { cells: 6, key: "a", end_unix_nanos: 1_010 }));
    }
}
