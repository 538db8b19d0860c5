//! Operations on a window other than a check: refund, charge beyond the limit, change the quota,
//! rebase to another clock.

use core::fmt::{self, Formatter};
use core::num::NonZeroU64;
use core::time::Duration;

use super::params::{FixedWindowParams, View};
use crate::algo::numbered::Config;
use crate::algo::{
    CONFIG_WORDS, ClockChange, Numbered, PerKey, PlanParams, Rebase, Receipt, Refund, Restart,
};
use crate::quota::{Quota, QuotaError};
use crate::time::Tick;
#[cfg(feature = "std")]
use crate::time::wall::WallClock;

impl Refund for FixedWindowParams {
    /// Time restores all cells at once, at the end of the window. So a charge can be refunded while
    /// its window is open, and not later.
    fn refund(&self, word: u64, receipt: &Receipt, now: Tick, n: u64) -> u64 {
        let View { floor, counted, .. } = self.view(word, now);
        let charged_at = self.grid.floor(self.aligned(receipt.at));
        let end = self.end.of(receipt.next);
        // In a grid that wraps, a later window may have the same end. The one that was charged is open for so long.
        let open_for = self.grid.ahead(end, charged_at).saturating_add(self.held_for);
        let same_window = self.end.of(word) == end && floor.saturating_sub(charged_at) <= open_for;
        let given = if same_window { n.min(receipt.cells) } else { 0 };
        self.less(word, counted, given)
    }

    fn add(&self, word: u64, now: Tick, n: u64) -> u64 {
        self.less(word, self.view(word, now).counted, n)
    }

    fn overdrawn(&self) -> Self {
        let limit = NonZeroU64::new(self.count.max()).unwrap_or(self.limit);
        Self { limit, ..self.clone() }
    }

    fn turn(&self, word: u64, now: Tick) -> Duration {
        let view = self.view(word, now);
        let is_over = view.counted > self.limit.get();
        let ahead = if is_over { view.ahead.saturating_add(self.held) } else { 0 };
        self.grid.scale(view.now, view.floor).span(ahead)
    }
}

impl PerKey for FixedWindowParams {
    /// A window may have any whole number of units; the length of aligned ones does not change.
    fn with_quota(&self, quota: &Quota) -> Result<Self, QuotaError> {
        quota.validate()?;
        let limit = NonZeroU64::new(quota.limit()).ok_or(QuotaError::ZeroLimit)?;
        if limit.get() >= self.count.max() {
            return Err(QuotaError::PlanLimitTooLarge);
        }
        let (units, nanos) = self.grid.ratio();
        let shares = u128::from(quota.period_nanos()) * u128::from(units);
        let length = u64::try_from(shares / u128::from(nanos)).unwrap_or(u64::MAX);
        let is_whole = shares.is_multiple_of(u128::from(nanos)) && length > 0;
        let is_aligned = self.is_aligned();
        match is_whole && length <= self.grid.reach() && (!is_aligned || length == 1) {
            true => Ok(Self { limit, length, ..self.clone() }),
            false => Err(QuotaError::PlanTooLong),
        }
    }

    fn to_plan_params(&self) -> PlanParams {
        PlanParams::FixedWindow(self.clone())
    }

    fn of_plan_params(params: &PlanParams) -> Option<&Self> {
        match params {
            PlanParams::FixedWindow(params) => Some(params),
            _ => None,
        }
    }
}

impl FixedWindowParams {
    /// The word with `n` fewer cells counted, unless the count has saturated.
    fn less(&self, word: u64, counted: u64, n: u64) -> u64 {
        let known = counted > 0 && counted < self.count.max();
        let left = if known { counted.saturating_sub(n) } else { self.count.of(word) };
        self.end.set(left, self.end.of(word))
    }
}

/// The length of windows of the wall clock, in units.
const WALL_LENGTH: u64 = 1;

impl Numbered for FixedWindowParams {
    const NUMBER: u64 = 3;

    /// The second name is that of windows of the wall clock.
    fn name_index(config: &Config) -> usize {
        usize::from(config.0[3] == WALL_LENGTH)
    }

    fn write_quota(config: &Config, f: &mut Formatter<'_>) -> fmt::Result {
        let Config([_, _, limit, length, ..]) = *config;
        let by = if length == WALL_LENGTH { " by the wall clock" } else { "" };
        write!(f, "{limit} in each window of {:?}{by}", config.span(length))
    }
}

impl Rebase for FixedWindowParams {
    fn algorithm(&self) -> u64 {
        Self::NUMBER
    }

    fn config_words(&self, unix_origin_nanos: u64) -> [u64; CONFIG_WORDS] {
        let (units, nanos) = self.grid.ratio();
        // The beginning of a window of the wall clock, by any clock.
        let phase = match self.is_aligned() {
            true => i128::from(unix_origin_nanos) - i128::from(self.wall_time.ahead_nanos()),
            false => 0,
        };
        let phase = u64::try_from(phase.rem_euclid(i128::from(nanos))).unwrap_or(0);
        [units, nanos, self.limit.get(), self.length, phase, 0, 0, 0]
    }

    /// Aligned windows are the same by any clock.
    fn clock_change(&self, restart: &Restart) -> ClockChange {
        if !self.is_aligned() {
            return ClockChange::on(&self.grid, restart);
        }
        let ahead_nanos = self.wall_time.ahead_nanos().try_into().unwrap_or(0);
        ClockChange::on_wall_clock(&self.grid, self.grid.ratio().1, ahead_nanos, restart, None)
    }

    fn wall_ahead_nanos(&self) -> i64 {
        self.wall_time.ahead_nanos()
    }

    #[cfg(feature = "shared-memory")]
    fn wall_clock_mut(&mut self) -> Option<&mut WallClock> {
        self.wall.as_mut()
    }

    #[cfg(feature = "std")]
    fn wall_shift_nanos(&self) -> u64 {
        self.wall.as_ref().map_or(0, WallClock::shift_nanos)
    }

    fn rebase(&self, word: u64, _: &mut [u64], change: &ClockChange) -> Option<u64> {
        match (change.left(&self.grid, self.end.of(word)), self.count.of(word)) {
            ((0, _), _) | (_, 0) => None,
            ((left, _), count) => {
                let end = self.grid.later_in(self.end, change.now(), left);
                Some(self.end.set(self.count.set(0, count), end))
            }
        }
    }
}
