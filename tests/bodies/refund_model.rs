//! Naive exact models of a bucket and of a window with refunds: a level that drains, and a count.
//! They use units of the limiter's grid, and not its words.

use std::time::Duration;

use tollgate::internals::StateMachine;
use tollgate::{Quota, Tick};

use super::grid::{units_in_cell, units_in_window};

/// A charge that can be refunded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    cells: u128,
    /// The unit in which it was charged.
    at: u128,
    /// The end of the window that was charged.
    end: u128,
}

/// The model of one key: the outcome of each operation, and the state after it.
pub(crate) trait RefundModel {
    /// Cells left, and the time until the key is as if never used.
    fn left(&self, now: Tick) -> (u64, Duration);
    /// Charges all cells if the request is admitted, and nothing otherwise.
    fn charge(&mut self, now: Tick, n: u64) -> Option<Held>;
    /// Charges as much as there is room for, and returns how long the debt lasts.
    fn charge_anyway(&mut self, now: Tick, n: u64) -> Duration;
    fn refund(&mut self, now: Tick, held: Held, n: u64);
    fn add(&mut self, now: Tick, n: u64);
}

/// Converts between units and nanoseconds by plain division.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Units {
    units: u128,
    nanos: u128,
}

impl Units {
    pub(crate) fn of<P: StateMachine>(params: &P) -> Self {
        let (units, nanos) = params.grid().ratio();
        Self { units: units.into(), nanos: nanos.into() }
    }

    pub(crate) fn begun(self, now: Tick) -> u128 {
        u128::from(now.as_nanos()) * self.units / self.nanos
    }

    fn until(self, now: Tick, unit: u128) -> Duration {
        let begins = (unit * self.nanos).div_ceil(self.units);
        let span = begins.saturating_sub(now.as_nanos().into());
        Duration::from_nanos(u64::try_from(span).unwrap_or(u64::MAX))
    }
}

/// A token bucket, as the level of the cells charged to it.
#[derive(Clone, Debug)]
pub(crate) struct Level {
    pub(crate) units: Units,
    pub(crate) cell: u128,
    pub(crate) capacity: u128,
    /// The maximum level.
    pub(crate) bound: u128,
    pub(crate) start_empty: bool,
    /// The level, and the time at which it was computed.
    pub(crate) level: Option<(u128, u128)>,
}

impl Level {
    fn at(&self, unit: u128) -> u128 {
        match self.level {
            None if self.start_empty => self.capacity,
            None => 0,
            Some((level, measured)) if unit < measured => level + (measured - unit),
            Some((level, measured)) => level.saturating_sub(unit - measured),
        }
    }

    /// Lowers the level, if it contains a charge that is remembered.
    fn lower(&mut self, unit: u128, by: u128) {
        let level = self.at(unit);
        if self.level.is_some() && level > 0 {
            self.level = Some((level.saturating_sub(by), unit));
        }
    }
}

impl RefundModel for Level {
    fn left(&self, now: Tick) -> (u64, Duration) {
        let unit = self.units.begun(now);
        let cells = self.capacity.saturating_sub(self.at(unit)) / self.cell;
        let reset = self.units.until(now, unit + self.at(unit));
        (u64::try_from(cells).expect("at most the burst"), reset)
    }

    fn charge(&mut self, now: Tick, n: u64) -> Option<Held> {
        let unit = self.units.begun(now);
        let level = self.at(unit);
        let after = level + u128::from(n) * self.cell;
        let admitted = n == 0 || after <= self.capacity;
        if (admitted && n > 0) || (self.start_empty && self.level.is_none()) {
            self.level = Some((if admitted { after } else { level }, unit));
        }
        admitted.then_some(Held { cells: n.into(), at: unit, end: 0 })
    }

    fn charge_anyway(&mut self, now: Tick, n: u64) -> Duration {
        if n == 0 {
            return Duration::ZERO;
        }
        let unit = self.units.begun(now);
        let level = self.at(unit);
        let n = u128::from(n).min(self.bound.saturating_sub(level) / self.cell);
        let level = level + n * self.cell;
        if n > 0 || (self.start_empty && self.level.is_none()) {
            self.level = Some((level, unit));
        }
        self.units.until(now, unit + level.saturating_sub(self.capacity))
    }

    fn refund(&mut self, now: Tick, held: Held, n: u64) {
        let unit = self.units.begun(now);
        let owed = (held.cells * self.cell).saturating_sub(unit.saturating_sub(held.at));
        self.lower(unit, owed.min(u128::from(n) * self.cell));
    }

    fn add(&mut self, now: Tick, n: u64) {
        self.lower(self.units.begun(now), u128::from(n) * self.cell);
    }
}

/// A fixed window: its end, and its count.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    pub(crate) units: Units,
    pub(crate) length: u128,
    pub(crate) limit: u128,
    /// The maximum count, which represents all higher ones.
    pub(crate) bound: u128,
    pub(crate) end: u128,
    pub(crate) counted: u128,
}

impl Window {
    fn at(&self, unit: u128) -> u128 {
        if unit < self.end { self.counted } else { 0 }
    }

    fn count(&mut self, unit: u128, n: u128) {
        let counted = self.at(unit);
        if counted == 0 {
            // A window that was only stamped, by a clock ahead or before a full refund, stays open.
            self.end = self.end.max(unit + self.length);
        }
        self.counted = counted + n;
    }

    fn lower(&mut self, unit: u128, by: u128) {
        if unit < self.end && self.counted < self.bound {
            self.counted = self.counted.saturating_sub(by);
        }
    }
}

impl RefundModel for Window {
    fn left(&self, now: Tick) -> (u64, Duration) {
        let counted = self.at(self.units.begun(now));
        let left = u64::try_from(self.limit.saturating_sub(counted)).expect("at most the limit");
        let open = if counted > 0 { self.units.until(now, self.end) } else { Duration::ZERO };
        (left, open)
    }

    fn charge(&mut self, now: Tick, n: u64) -> Option<Held> {
        let unit = self.units.begun(now);
        if n > 0 && self.at(unit) + u128::from(n) > self.limit {
            return None;
        }
        if n > 0 {
            self.count(unit, n.into());
        }
        Some(Held { cells: n.into(), at: unit, end: self.end })
    }

    fn charge_anyway(&mut self, now: Tick, n: u64) -> Duration {
        if n == 0 {
            return Duration::ZERO;
        }
        let unit = self.units.begun(now);
        let n = u128::from(n).min(self.bound - self.at(unit));
        if n > 0 {
            self.count(unit, n);
        }
        let over = self.at(unit) > self.limit;
        if over { self.units.until(now, self.end) } else { Duration::ZERO }
    }

    fn refund(&mut self, now: Tick, held: Held, n: u64) {
        let unit = self.units.begun(now);
        if held.end == self.end {
            self.lower(unit, held.cells.min(n.into()));
        }
    }

    fn add(&mut self, now: Tick, n: u64) {
        self.lower(self.units.begun(now), n.into());
    }
}

pub(crate) fn level<P: StateMachine>(
    params: &P,
    quota: &Quota,
    (leases, start_empty): (u64, bool),
) -> Level {
    let units = Units::of(params);
    let cell = u128::from(units_in_cell(params, quota));
    let capacity = u128::from(quota.burst_cells() - leases) * cell;
    let bound = match params.grid().ring() {
        // Up to the maximum of the field, from the last instant of a tick.
        None => (1 << 53) - 1 - units.begun(Tick::MAX),
        Some(ring) => (capacity * 16).min(u128::from(ring) / 8),
    };
    Level { units, cell, capacity, bound, start_empty, level: None }
}

/// Sixteen of the largest bursts need a quarter of a compact ring less one unit.
pub(crate) fn compact_level<P: StateMachine>(
    params: &P,
    quota: &Quota,
    start_empty: bool,
) -> Level {
    let level = level(params, quota, (0, start_empty));
    Level { bound: (level.capacity * 16).min((1 << 35) - 1), ..level }
}

pub(crate) fn window<P: StateMachine>(params: &P, quota: &Quota, aligned: bool) -> Window {
    let length = if aligned { 1 } else { u128::from(units_in_window(params, quota)) };
    let bound = u128::from(u64::MAX >> (quota.limit() + 1).leading_zeros());
    let (units, limit) = (Units::of(params), quota.limit().into());
    Window { units, length, limit, bound, end: 0, counted: 0 }
}
