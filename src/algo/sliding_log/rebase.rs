//! Rebasing a log.

use core::fmt::{self, Formatter};

use super::events::{Entry, View};
use super::{FIRST, SlidingLogParams, TIME, cell, cell_at, has_unwritten, round_in_cell};
use crate::algo::numbered::Config;
use crate::algo::{CONFIG_WORDS, ClockChange, Numbered, Rebase, Restart};

impl Numbered for SlidingLogParams {
    const NUMBER: u64 = 7;

    fn write_quota(config: &Config, f: &mut Formatter<'_>) -> fmt::Result {
        let Config([_, _, limits, form, windows @ ..]) = *config;
        // The latest limit has the lowest bits.
        let count =
            usize::try_from(form >> 1).map_or(windows.len(), |count| count.min(windows.len()));
        windows[..count].iter().enumerate().try_for_each(|(index, window)| {
            let limit = (limits >> (16 * (count - 1 - index)) & 0xffff) + 1;
            let between = if index == 0 { "" } else { ", " };
            write!(f, "{between}{limit} in any {:?}", config.span(*window))
        })
    }
}

/// Places and laps stay; all times move by the same number of units. An event that has left every
/// window counts as one that has just left.
impl Rebase for SlidingLogParams {
    fn algorithm(&self) -> u64 {
        Self::NUMBER
    }

    fn config_words(&self, _: u64) -> [u64; CONFIG_WORDS] {
        let (units, nanos) = self.grid.ratio();
        // A limit is 1 to 2^16.
        let limits = self.rates().iter().fold(0, |all, rate| all << 16 | (rate.limit - 1));
        let form = (self.rate_count as u64) << 1 | u64::from(self.count_denials);
        let windows = self.rates.map(|rate| rate.window);
        [units, nanos, limits, form, windows[0], windows[1], windows[2], windows[3]]
    }

    fn clock_change(&self, restart: &Restart) -> ClockChange {
        ClockChange::on(&self.grid, restart).counted_before(self.window_max)
    }

    fn rebase(&self, word: u64, ring: &mut [u64], change: &ClockChange) -> Option<u64> {
        let (lap, filled) = (self.lap.of(word), self.filled.of(word).min(self.places));
        let (last, _) = self.last(word, change.then());
        let longest = i128::from(self.window_max);
        let last_ahead = change.ahead(&self.grid, last).min(self.ahead_max.into());
        if self.is_unused(word) || last_ahead <= -longest {
            return None;
        }
        let now = change.now();
        let at = |ahead: i128| {
            let units = u64::try_from(ahead.unsigned_abs()).unwrap_or(0);
            TIME.of(if ahead < 0 { now.wrapping_sub(units) } else { now.wrapping_add(units) })
        };
        let ahead_of = |time: u64, min_ahead: i128| {
            change.ahead(&self.grid, time).min(last_ahead).max(min_ahead)
        };
        let birth_cell = cell_at(self.places);
        let birth_ahead = match ring[birth_cell] {
            0 => -longest,
            birth => ahead_of(TIME.of(birth), -longest),
        };
        // If the birth is not read, it bounds no event.
        let min_ahead = if has_unwritten(lap) { birth_ahead } else { -longest };
        let birth = self.birth(lap, &*ring);
        let (floor, known) = (change.then(), self.known(lap, filled));
        for back in 0..self.places {
            let view = View {
                ring: &*ring,
                word,
                lap,
                round: round_in_cell(lap),
                filled,
                known,
                last,
                floor,
                ahead: 0,
                birth,
            };
            if back >= known {
                // Places that the first round has not reached.
                ring[cell_at(self.places + filled - 1 - back)] = 0;
                continue;
            }
            let (place, lap) = self.position(&view, back);
            ring[cell_at(place)] = match self.entry(&view, back) {
                Entry::Latest => 0,
                Entry::Older { time } => cell(at(ahead_of(time, min_ahead)), lap),
            };
        }
        ring[birth_cell] = cell(at(birth_ahead), FIRST);
        let time = self.time.set(0, at(last_ahead));
        Some(time | self.lap.set(0, lap) | self.filled.set(0, filled))
    }
}
