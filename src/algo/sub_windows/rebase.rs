//! Rebasing sub-windows and their ring.

use core::fmt::{self, Formatter};

use super::SubWindowParams;
use super::scan::View;
use crate::algo::numbered::Config;
use crate::algo::{CONFIG_WORDS, ClockChange, Numbered, Rebase, Restart, StateMachine};

impl<const WEIGHED: bool> SubWindowParams<WEIGHED> {
    fn period_nanos(&self) -> u64 {
        let (units, nanos) = self.grid.ratio();
        let in_period = self.older + u64::from(!WEIGHED);
        let period = u128::from(nanos) * u128::from(in_period) / u128::from(units);
        u64::try_from(period).unwrap_or(u64::MAX)
    }
}

impl<const WEIGHED: bool> Numbered for SubWindowParams<WEIGHED> {
    const NUMBER: u64 = if WEIGHED { 6 } else { 5 };

    fn write_quota(config: &Config, f: &mut Formatter<'_>) -> fmt::Result {
        let Config([_, _, limit, older, ..]) = *config;
        if WEIGHED {
            return write!(f, "about {limit} in any {:?}", config.span(older));
        }
        let count = older.saturating_add(1);
        write!(f, "{limit} in {:?}, by {count} sub-windows", config.span(count))
    }
}

/// The sub-windows of the wall clock are the same by any clock; only their numbers differ.
impl<const WEIGHED: bool> Rebase for SubWindowParams<WEIGHED> {
    fn algorithm(&self) -> u64 {
        Self::NUMBER
    }

    fn config_words(&self, unix_origin_nanos: u64) -> [u64; CONFIG_WORDS] {
        let (units, nanos) = self.grid.ratio();
        // The beginning of a period of the wall clock, by any clock.
        let phase = i128::from(unix_origin_nanos) - i128::from(self.ahead_nanos);
        let phase = phase.rem_euclid(i128::from(self.period_nanos()));
        let phase = u64::try_from(phase).unwrap_or(0);
        [units, nanos, self.limit.get(), self.older, phase, 0, 0, 0]
    }

    fn clock_change(&self, restart: &Restart) -> ClockChange {
        let (period, elapsed) = (self.period_nanos(), Some(restart.elapsed));
        ClockChange::on_wall_clock(&self.grid, period, self.ahead_nanos, restart, elapsed)
    }

    /// Cells that no longer count are dropped from the ring and from the total.
    #[expect(clippy::cast_possible_truncation, reason = "below the number of cells")]
    fn rebase(&self, word: u64, ring: &mut [u64], change: &ClockChange) -> Option<u64> {
        let last = self.index.of(word);
        let ahead = change.ahead(&self.grid, last);
        let oldest = u64::try_from(ahead + i128::from(self.older)).ok()?;
        let now = change.now();
        let moved = match u64::try_from(ahead) {
            Ok(ahead) => self.grid.later_in(self.index, now, self.grid.clamp_ahead(ahead)),
            Err(_) => self.before(now, u64::try_from(-ahead).unwrap_or(0)),
        };
        let (place, total) = (self.place(last), self.count.of(word).min(self.total_max));
        let mut gone: u64 = 0;
        for back in 1..=self.older {
            let view =
                View { ring: &*ring, last, place, total, floor: 0, ahead: 0, passed: 0, phase: 0 };
            let count = self.older_count(&view, back);
            let counts = back <= oldest;
            gone = gone.saturating_add(if counts { 0 } else { count });
            let content = match count {
                1.. if counts => self.index.set(self.count.set(0, count), self.before(moved, back)),
                _ => 0,
            };
            ring[self.place(self.before(last, back))] = content;
        }
        // The latest sub-window has no cell yet, nor have later ones.
        let cells = self.ring_cells();
        (0..cells - self.older as usize).for_each(|later| ring[(place + later) % cells] = 0);
        ring.rotate_right((self.place(moved) + cells - place) % cells);
        match total.saturating_sub(gone) {
            0 => None,
            total => Some(self.index.set(self.count.set(0, total), moved)),
        }
    }
}
