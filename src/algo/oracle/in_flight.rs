//! Requests in flight as a list.

use core::time::Duration;

use super::{Oracle, Verdict};
use crate::time::Tick;

/// The requests in flight, each with the period in which it began.
#[derive(Clone, Debug)]
pub struct Entries {
    limit: u64,
    /// Nanoseconds of a period; `None`: no request expires.
    period: Option<u64>,
    /// The latest period in which a request was admitted.
    latest: u64,
    entries: Vec<Entry>,
    entered: u64,
}

#[derive(Clone, Debug)]
struct Entry {
    number: u64,
    period: u64,
    cells: u64,
}

impl Entries {
    pub(in crate::algo) fn new(limit: u64, period: Option<u64>) -> Self {
        Self { limit, period, latest: 0, entries: Vec::new(), entered: 0 }
    }

    /// Changes the limit, for requests from now on.
    pub fn set_limit(&mut self, limit: u64) {
        self.limit = limit;
    }

    /// Cells in flight at `now`.
    #[must_use]
    pub fn in_flight(&self, now: Tick) -> u64 {
        let period = self.period_at(now);
        self.entries.iter().filter(|entry| entry.period + 2 > period).map(|entry| entry.cells).sum()
    }

    /// A clock that is behind is taken to be in the latest period.
    fn period_at(&self, now: Tick) -> u64 {
        self.period.map_or(0, |nanos| (now.as_nanos() / nanos).max(self.latest))
    }

    /// Decides about `n` cells. Returns the number to [leave](Self::leave) by, if it admits.
    pub fn enter(&mut self, now: Tick, n: u64) -> Option<u64> {
        if u128::from(self.in_flight(now)) + u128::from(n) > self.limit.into() {
            return None;
        }
        if n > 0 {
            self.latest = self.period_at(now);
            self.entries.retain(|entry| entry.period + 2 > self.latest);
            self.entries.push(Entry { number: self.entered, period: self.latest, cells: n });
        }
        self.entered += 1;
        Some(self.entered - 1)
    }

    /// Ends a request, if it has not expired.
    pub fn leave(&mut self, number: u64) {
        self.entries.retain(|entry| entry.number != number);
    }
}

impl Oracle for Entries {
    fn decide(&mut self, now: Tick, n: u64) -> Verdict {
        let admitted = self.enter(now, n).is_some();
        let in_flight = self.in_flight(now);
        let never = !admitted && n > self.limit;
        Verdict {
            admitted,
            remaining: self.limit.saturating_sub(in_flight),
            reset_after: Duration::from_nanos(in_flight),
            retry_after: (!never).then_some(Duration::from_nanos(u64::from(!admitted))),
            delay: Duration::ZERO,
        }
    }
}
