//! Operations on a bucket other than a check: refund, charge ahead of time or beyond the burst,
//! change the quota, rebase to another clock.

use core::fmt::{self, Formatter};
use core::num::NonZeroU64;
use core::time::Duration;

use super::{GcraParams, PLAN_PRECISION, TAT};
use crate::algo::numbered::Config;
use crate::algo::{
    Ahead, CONFIG_WORDS, ClockChange, Numbered, PerKey, PlanParams, Rebase, Receipt, Refund,
};
use crate::quota::{Quota, QuotaError};
use crate::time::Tick;

#[cfg(feature = "std")]
impl GcraParams {
    /// The time from `now` to the last of the requests' turns, if they are charged one after the other: see
    /// [`turn`](Refund::turn). Each item is the bucket of a request's plan, and the request's cells. All plans
    /// count time in the same units.
    pub(crate) fn turn_behind<'p>(
        &self,
        word: u64,
        now: Tick,
        requests: impl IntoIterator<Item = (&'p Self, u64)>,
    ) -> Duration {
        let floor = self.grid.floor(now);
        let (mut debt, mut ahead) = (self.debt(word, floor), 0);
        for (algo, cells) in requests {
            debt = debt.saturating_add(algo.cost(cells));
            ahead = ahead.max(debt.saturating_sub(algo.capacity));
        }
        self.grid.scale(now, floor).span(ahead)
    }

    /// How far ahead of a clock a charged turn may be, rounded down.
    pub(crate) fn ahead_max(&self) -> Duration {
        self.grid.span((self.grid.reach() - self.capacity).saturating_sub(1))
    }

    /// The turn of the last charge. If it has passed, this may be earlier than the turn, but never later.
    pub(crate) fn turn_of_last(&self, word: u64, now: Tick) -> Tick {
        let floor = self.grid.floor(now);
        let debt = self.debt(word, floor);
        match debt.checked_sub(self.capacity) {
            Some(ahead) => now.saturating_add(self.grid.scale(now, floor).span(ahead)),
            // One more unit, since `now` is somewhere within its own.
            None => {
                let passed = self.grid.span(self.capacity - debt + 2);
                now.saturating_sub(passed)
            }
        }
    }

    /// The time from which a booking counts as charged that was made at `booked_at`. Its receipt says: from its turn,
    /// since the key owes more than the burst until then, so that no other request can charge behind it. But if others
    /// were refunded, which alone lowers the TAT, and the debt is within the burst, others may have been charged behind
    /// it before its turn. Then it counts from `booked_at`, as any charge does. The state does not show a refund to
    /// others that a charge beyond the burst has made up for.
    pub(crate) fn charged_at(
        &self,
        word: u64,
        booking: &Receipt,
        booked_at: Tick,
        now: Tick,
    ) -> Tick {
        let debt = self.debt(word, self.grid.floor(now));
        let keeps_turn = debt > self.capacity || self.still_owes(word, booking, now);
        if keeps_turn { booking.at } else { booked_at }
    }

    /// By how many units the key owes less in the state `next` than in `word`.
    pub(crate) fn lowered(&self, word: u64, next: u64, now: Tick) -> u64 {
        let floor = self.grid.floor(now);
        self.debt(word, floor).saturating_sub(self.debt(next, floor))
    }

    /// A booking after its own queue has refunded `units` of a booking before it. A refund to others leaves its receipt
    /// as it was, which is how [`charged_at`](Self::charged_at) learns of it.
    pub(crate) fn lessened(&self, booking: Receipt, units: u64) -> Receipt {
        Receipt { next: self.grid.later(TAT.of(booking.next), units.wrapping_neg()), ..booking }
    }

    /// Whether the key owes at least what it owed after this booking.
    pub(crate) fn still_owes(&self, word: u64, booking: &Receipt, now: Tick) -> bool {
        let floor = self.grid.floor(now);
        self.debt(word, floor) >= self.debt(booking.next, floor)
    }

    /// Moves `cells` of the earlier charges to `now`, behind all other charges. Returns the state, and the debt
    /// that this adds, as a time.
    pub(crate) fn deferred(&self, word: u64, cells: u64, now: Tick) -> (u64, Duration) {
        let floor = self.grid.floor(now);
        let (debt, cost) = (self.debt(word, floor), self.cost(cells));
        let next = self.grid.later(floor, debt.max(cost));
        (next, self.grid.span(cost.saturating_sub(debt)))
    }
}

impl Refund for GcraParams {
    /// # Why a refund is never too large
    ///
    /// Let `A` be the TAT, and `W` the TAT without all cells that are refunded, now or later. For a
    /// charge of `k` cells at `a`, of which `u` are not spent, let `r(t)` be the units that may be
    /// refunded at `t`: `min(u, k - (t - a))`, but not below 0. The invariant is
    /// `max(A, t) >= max(W, t) + sum of r(t)`.
    ///
    /// - A charge moves `A` by `k` and `W` by `k - u`, and adds `u` to the sum.
    /// - A refund of `r(t)` takes as much from `A` as from the sum.
    /// - While `t` is before `W`, time moves neither `A` nor `W`, and the sum does not grow.
    /// - From `W` on, `max(W, t)` grows with `t`. Every `r` that is not 0 shrinks as fast, because `t`
    ///   is past `a + k - u`, the end of the charge's spent part, which is no later than `W`. So the
    ///   right side does not grow while the sum is not 0, and once it is 0, the right side is `t`.
    ///
    /// So the state after all refunds is never better than `W`.
    ///
    /// A charge ahead of its turn may be refunded as one that is made when its turn comes. Until then the key owes
    /// more than the burst, so no other request can charge behind it. That turn is not after what the key owed before
    /// the charge. So until then none of the charge counts as restored, unless others are refunded meanwhile: see
    /// [`charged_at`](GcraParams::charged_at).
    fn refund(&self, word: u64, receipt: &Receipt, now: Tick, n: u64) -> u64 {
        let floor = self.grid.floor(now);
        let passed = floor.saturating_sub(self.grid.floor(receipt.at));
        let owed = self.cost(receipt.cells).saturating_sub(passed);
        match self.debt(word, floor) {
            0 => TAT.of(word),
            debt => self.grid.later(floor, debt - debt.min(self.cost(n)).min(owed)),
        }
    }

    fn add(&self, word: u64, now: Tick, n: u64) -> u64 {
        let floor = self.grid.floor(now);
        match self.debt(word, floor) {
            0 => TAT.of(word),
            debt => self.grid.later(floor, debt.saturating_sub(self.cost(n))),
        }
    }

    fn overdrawn(&self) -> Self {
        self.with_capacity(self.grid.reach())
    }

    fn turn(&self, word: u64, now: Tick) -> Duration {
        let floor = self.grid.floor(now);
        let ahead = self.debt(word, floor).saturating_sub(self.capacity);
        self.grid.scale(now, floor).span(ahead)
    }
}

impl PerKey for GcraParams {
    /// The cost of a cell is rounded up to a whole number of units.
    fn with_quota(&self, quota: &Quota) -> Result<Self, QuotaError> {
        quota.validate()?;
        let (units, nanos) = self.grid.ratio();
        let exact = u128::from(quota.period_nanos()) * u128::from(units);
        let shares = u128::from(quota.limit()) * u128::from(nanos);
        let cell = exact.div_ceil(shares);
        if (cell * shares - exact) * PLAN_PRECISION > exact {
            return Err(QuotaError::PlanTooFast);
        }
        let leases = self.lease_cells;
        if leases > quota.burst_cells() / 2 {
            return Err(QuotaError::LeaseCellsTooMany);
        }
        let burst = NonZeroU64::new(quota.burst_cells() - leases).ok_or(QuotaError::ZeroBurst)?;
        let capacity = cell.checked_mul(u128::from(burst.get()));
        let fits = capacity.is_some_and(|capacity| capacity <= u128::from(self.grid.reach()));
        let cell = u64::try_from(cell).ok().and_then(NonZeroU64::new).filter(|_| fits);
        let cell = cell.ok_or(QuotaError::PlanTooLong)?;
        Ok(Self { lease_cells: leases, ..Self::on(self.grid, cell, burst, self.first_debt > 0) })
    }

    fn to_plan_params(&self) -> PlanParams {
        PlanParams::Gcra(*self)
    }

    fn of_plan_params(params: &PlanParams) -> Option<&Self> {
        match params {
            PlanParams::Gcra(params) => Some(params),
            _ => None,
        }
    }
}

impl Ahead for GcraParams {
    fn within(&self, now: Tick, wait: Duration) -> Self {
        let floor = self.grid.floor(now);
        // A turn is the beginning of a unit, at the latest of this one.
        let last = self.grid.floor(now.saturating_add(wait));
        let capacity = self.capacity.saturating_add(last - floor);
        self.with_capacity(capacity.min(self.grid.reach()))
    }
}

/// The rate and the burst of a bucket's configuration; `burst_is` says what the burst may do.
pub(in crate::algo) fn write_bucket(
    config: &Config,
    burst_is: &str,
    f: &mut Formatter<'_>,
) -> fmt::Result {
    let Config([_, _, cell, burst, _, leased, ..]) = *config;
    let burst = burst.saturating_add(leased);
    write!(f, "1 every {:?}, {burst} {burst_is}", config.span(cell))
}

impl Numbered for GcraParams {
    const NUMBER: u64 = 1;

    fn write_quota(config: &Config, f: &mut Formatter<'_>) -> fmt::Result {
        write_bucket(config, "at once", f)
    }
}

impl Rebase for GcraParams {
    fn algorithm(&self) -> u64 {
        Self::NUMBER
    }

    fn config_words(&self, _: u64) -> [u64; CONFIG_WORDS] {
        let (units, nanos) = self.grid.ratio();
        let (cell, burst) = (self.cell.get(), self.burst.get());
        [units, nanos, cell, burst, self.first_debt, self.lease_cells, 0, 0]
    }

    fn rebase(&self, word: u64, _: &mut [u64], change: &ClockChange) -> Option<u64> {
        match change.left(&self.grid, TAT.of(word)) {
            (0, _) => None,
            (debt, _) => Some(self.grid.later_in(TAT, change.now(), debt)),
        }
    }
}
