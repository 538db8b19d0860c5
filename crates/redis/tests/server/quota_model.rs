//! A model of what a key owes on the server when each request may have another quota, as the
//! scripts count it.

use std::collections::BTreeMap;

use tollgate::Quota;
use tollgate_redis::Algorithm;

/// A key that processes with different quotas ask for, by a clock that never goes back.
pub(crate) trait Model {
    /// Whether `n` cells are admitted, and how many remain.
    fn decide(&mut self, quota: &Quota, now_micros: u64, n: u64) -> (bool, u64);
}

pub(crate) fn of_counting(algorithm: &Algorithm) -> Box<dyn Model> {
    match algorithm {
        Algorithm::Gcra => Box::new(Bucket::default()),
        Algorithm::FixedWindow { utc_offset_secs } => {
            Box::new(Window { is_aligned: utc_offset_secs.is_some(), ends: 0, counted: 0 })
        }
        Algorithm::SlidingCounter { older, .. } => {
            Box::new(Counter { older: u64::from(*older), counts: BTreeMap::new() })
        }
        Algorithm::SlidingLog { count_denials, .. } => {
            Box::new(Log { count_denials: *count_denials, spent: Vec::new() })
        }
        other => unreachable!("{other:?} has no model"),
    }
}

fn micros(quota: &Quota) -> u64 {
    u64::try_from(quota.period().as_micros()).expect("in range")
}

/// A quota's cell and burst in parts of a microsecond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Rate {
    parts: u128,
    cell: u128,
    burst: u128,
}

impl Rate {
    fn of(quota: &Quota) -> Self {
        let (mut a, mut b) = (quota.period().as_nanos(), u128::from(quota.limit()) * 1_000);
        let (cell, parts) = (a, b);
        while b > 0 {
            (a, b) = (b, a % b);
        }
        let (cell, parts) = (cell / a, parts / a);
        Self { parts, cell, burst: cell * u128::from(quota.burst_cells()) }
    }

    /// Whole microseconds, and a fraction as a float.
    fn micros(self, span: u128) -> f64 {
        (span / self.parts) as f64 + (span % self.parts) as f64 / self.parts as f64
    }

    /// Converts a span at the other rate to a span at this rate: the same number of cells, rounded
    /// up to a 1024th. It uses floats because scripts have no other numbers.
    #[allow(clippy::cast_possible_truncation, reason = "whole numbers below 2^53")]
    fn convert(self, span: u128, other: Self) -> u128 {
        if (self.cell, self.parts) == (other.cell, other.parts) {
            return span;
        }
        let cells = other.micros(span) / other.micros(other.cell);
        let cells = (cells * 1024.0 - 1.0 / 1024.0).ceil() / 1024.0;
        let micros = cells * self.micros(self.cell);
        let part = ((micros - micros.floor()) * self.parts as f64 - 1.0 / 1024.0).ceil().max(0.0);
        micros.floor() as u128 * self.parts + (part as u128).min(self.parts)
    }
}

/// Debts as spans at the rate of the process that charged last.
#[derive(Default)]
struct Bucket {
    at: u64,
    rate: Rate,
    all: u128,
    own: u128,
}

impl Model for Bucket {
    fn decide(&mut self, quota: &Quota, now: u64, n: u64) -> (bool, u64) {
        let rate = Rate::of(quota);
        let (mut all, mut own) = (0, 0);
        if self.at > 0 {
            all = rate.convert(self.all, self.rate);
            own = if rate == self.rate { self.own } else { all };
            let passed = u128::from(now - self.at) * rate.parts;
            (all, own) = (all.saturating_sub(passed), own.min(rate.burst).saturating_sub(passed));
        }
        let cost = u128::from(n) * rate.cell;
        let admitted = n == 0 || own + cost <= rate.burst;
        if admitted && n > 0 {
            (all, own) = (all + cost, own + cost);
            *self = Self { at: now, rate, all, own };
        }
        (admitted, u64::try_from((rate.burst - own) / rate.cell).expect("the burst"))
    }
}

struct Window {
    is_aligned: bool,
    ends: u64,
    counted: u64,
}

impl Model for Window {
    fn decide(&mut self, quota: &Quota, now: u64, n: u64) -> (bool, u64) {
        let counted = if now < self.ends { self.counted } else { 0 };
        let admitted = n == 0 || counted + n <= quota.limit();
        if admitted && n > 0 {
            if now >= self.ends {
                let into = if self.is_aligned { now % micros(quota) } else { 0 };
                self.ends = now - into + micros(quota);
            }
            self.counted = counted + n;
        }
        let counted = if admitted { counted + n } else { counted };
        (admitted, quota.limit().saturating_sub(counted))
    }
}

/// The count of each sub-window.
struct Counter {
    older: u64,
    counts: BTreeMap<u64, u64>,
}

impl Counter {
    fn room(&self, quota: &Quota, now: u64) -> u64 {
        let placed = u128::from(now) * u128::from(self.older);
        let period = u128::from(micros(quota));
        let current = u64::try_from(placed / period).expect("in range");
        let left = period - placed % period;
        let count =
            |index| u128::from(self.counts.get(&index).map_or(0, |it| *it.min(&quota.limit())));
        let whole: u128 = (current - self.older + 1..=current).map(count).sum();
        let estimate = whole + count(current - self.older) * left / period;
        quota.limit().saturating_sub(u64::try_from(estimate).expect("few"))
    }
}

impl Model for Counter {
    fn decide(&mut self, quota: &Quota, now: u64, n: u64) -> (bool, u64) {
        let admitted = n <= self.room(quota, now);
        if admitted && n > 0 {
            let index = u128::from(now) * u128::from(self.older) / u128::from(micros(quota));
            *self.counts.entry(u64::try_from(index).expect("in range")).or_default() += n;
        }
        (admitted, self.room(quota, now))
    }
}

/// When each cell was spent.
struct Log {
    count_denials: bool,
    spent: Vec<u64>,
}

impl Model for Log {
    fn decide(&mut self, quota: &Quota, now: u64, n: u64) -> (bool, u64) {
        let begins = now - micros(quota);
        let inside = self.spent.iter().filter(|at| **at > begins).count() as u64;
        let admitted = n == 0 || inside + n <= quota.limit();
        let counted = admitted || (self.count_denials && n <= quota.limit());
        if counted && n > 0 {
            // Denied requests push out older cells, but leave no fewer than there were.
            let kept = self.spent.len().max(usize::try_from(quota.limit()).expect("few"));
            self.spent.extend((0..n).map(|_| now));
            self.spent.drain(..self.spent.len().saturating_sub(kept));
        }
        let inside = if counted { inside + n } else { inside };
        (admitted, quota.limit().saturating_sub(inside))
    }
}
