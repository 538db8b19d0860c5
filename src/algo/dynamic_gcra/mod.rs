//! A token bucket whose quota can change while it is in use.
//!
//! # Word
//!
//! ```text
//! bits 52..0  theoretical arrival time (TAT), in fractions of a cell
//! ```
//!
//! It is [`gcra`] with a virtual clock, which counts the cells that flow in, in fractions, instead
//! of time: at `limit` cells a period, the clock advances by the units of `limit` cells in every
//! period. A debt is then a number of cells, not a time. When the quota changes, only the rate of
//! the clock changes: no word is written (but see *Wear*), and no charge is lost.
//!
//! # Inheritance
//!
//! A word's meaning is its distance from the clock, in units of a fixed number to a cell. So a
//! change can only set the clock and the value of a unit:
//!
//! | [`Inherit`] | the clock is set | units in a cell |
//! |---|---|---|
//! | as is | back by the growth of the burst, or forward by its reduction | the same |
//! | additive | as for *as is*, but never back | the same |
//! | spent | not at all | the same |
//! | proportional | not at all | in inverse proportion to the burst |
//! | reset | forward, by the largest possible debt | the same |
//!
//! # Wear
//!
//! The clock runs on a ring. A state that the clock has left behind by nearly the whole ring reads
//! as one in debt. Time alone needs months for that, but each reset, and each additive change to a
//! smaller burst, sets the clock forward at once. The clock is *worn* when it is more than an
//! eighth of the ring ahead of where it was when states were last renewed. A change that would
//! leave it worn first renews every idle state: the state becomes idle since now. Renewing takes
//! time for each slot. A reset sets the clock forward by at most 16 bursts, so an ordinary quota
//! renews once in thousands of resets, and one that takes months to fill up once in dozens.
//!
//! # Before the quota held
//!
//! An instant before the last change is decided as the instant of the change. The times in the
//! answer then count from the caller's own instant.
//!
//! Source: the virtual clock of L. Zhang, "VirtualClock: a new traffic control algorithm for packet
//! switching networks" (1990), with one clock for all keys; the inheritances are Bucket4j's.
//!
//! # Guarded by
//!
//! `loom-tests/tests/dynamic_quota.rs`, run by `ci/check.sh loom`, with models of a torn quota, of a version's number
//! that is loaded late, and of a renewal that overwrites a charge; and the histories of `ci/check.sh shuttle`.
//! `ci/check.sh proofs dynamic_gcra` proves the step.

use core::num::NonZeroU64;
use core::time::Duration;

use super::gcra::{self, GcraParams};
use super::grid::Grid;
#[cfg(feature = "std")]
use super::oracle::Level;
use super::{
    Ahead, Liveness, PAYLOAD_BITS, Receipt, Refund, Ring, StateMachine, Step, sealed::Sealed,
};
use crate::decision::{Denied, Permit};
use crate::quota::{Quota, QuotaError};
use crate::time::Tick;
use crate::word::Field;

/// The theoretical arrival time.
const TAT: Field = Field::new(0, PAYLOAD_BITS);
/// The largest burst in units.
const BURST_UNITS_MAX: u64 = 1 << (PAYLOAD_BITS - 6);
/// The largest debt in units.
const REACH_MAX: u64 = 1 << (PAYLOAD_BITS - 3);
/// How far the clock may be set from where it was when states were last renewed.
#[cfg(feature = "std")]
const WORN_MAX: u64 = 1 << (PAYLOAD_BITS - 3);
/// The clock at the last renewal is stored without this many low bits, above the base in the base's word.
#[cfg(feature = "std")]
const RENEWED_COARSE_BITS: u32 = 2 * PAYLOAD_BITS - u64::BITS;
#[cfg(feature = "std")]
const RENEWED: Field = TAT.above(u64::BITS - PAYLOAD_BITS);
/// The factor by which the rate may grow, if a nanosecond leaves that much.
const HEADROOM: u64 = 32;
/// Units in a cell, if the headroom leaves that many.
const UNITS_IN_CELL: u64 = 1_000;
/// With fewer units in a cell, a proportion would be too coarse.
const UNITS_IN_CELL_MIN: u128 = 100;

/// The cells that a key has left when the quota changes.
///
/// The state of a key that has all its cells is nearly that of a key that was never seen. So it may have all its
/// cells after a change, too.
///
/// ```
/// use tollgate::dynamic::{DynamicGcra, Inherit};
/// use tollgate::{Direct, ManualClock, Quota};
///
/// let clock = ManualClock::new();
/// let left_after = |inherit| {
///     let builder = Direct::builder(Quota::per_hour(10)).algorithm(DynamicGcra::new());
///     let gate = builder.clock(&clock).build()?;
///     assert_eq!(gate.check_n(6).unwrap().remaining(), 4);
///     gate.set_quota(Quota::per_hour(20), inherit)?;
///     Ok::<_, tollgate::QuotaError>(gate.check_n(0).unwrap().remaining())
/// };
/// assert_eq!(left_after(Inherit::AsIs)?, 4);
/// assert_eq!(left_after(Inherit::Additive)?, 14);
/// assert_eq!(left_after(Inherit::Spent)?, 14);
/// assert_eq!(left_after(Inherit::Proportional)?, 8);
/// assert_eq!(left_after(Inherit::Reset)?, 20);
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Inherit {
    /// The same number of cells as before, but no more than the new burst.
    AsIs,
    /// The same number of cells as before, and the growth of the burst. If the burst shrinks, as
    /// [`AsIs`](Self::AsIs).
    Additive,
    /// The new burst less the cells that the key has spent and that have not come back: of 1,000 cells,
    /// 5 spent, a burst of 10 leaves 5. A key that has spent more than the new burst is denied until
    /// the excess has come back at the new rate.
    ///
    /// **Guarantee.** However often the quota changes in this way, no key that keeps its slot is
    /// granted more within any span than the largest of the bursts, the cells that the rates in
    /// force bring within the span, and the unit that [`DynamicGcra`](crate::dynamic::DynamicGcra) states.
    Spent,
    /// The same share of the burst, rounded to a [unit](crate::dynamic::DynamicGcra), which such a change may make
    /// coarser for good.
    Proportional,
    /// All cells of the new burst. A key that was seen has its whole burst afterwards, also if buckets start empty.
    Reset,
}

/// A token bucket with a quota that applies from some instant on.
///
/// ```
/// use tollgate::internals::StateMachine;
/// use tollgate::internals::dynamic_gcra::GcraEpoch;
/// use tollgate::dynamic::Inherit;
/// use tollgate::{Quota, Tick};
///
/// let params = GcraEpoch::new(&Quota::per_second(10), false)?;
/// let halved = params.change(&Quota::per_second(5), Inherit::AsIs, Tick::from_nanos(1))?;
/// assert!(halved.answer(halved.fresh(Tick::ZERO), Tick::ZERO, 6).is_err());
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GcraEpoch {
    /// On a clock that begins at [`since`](Self::since), for words less [`base`](Self::base).
    gcra: GcraParams,
    since: Tick,
    /// The offset that is subtracted from words, and its value when states were last renewed.
    ///
    /// ```text
    /// bits 63..53 upper bits of the base at the last renewal | bits 52..0 base
    /// ```
    base: u64,
}

/// [`GcraEpoch`] as words that can be stored one by one.
#[cfg(feature = "std")]
pub(crate) const GCRA_EPOCH_WORDS: usize = gcra::WORDS + 2;

/// Words that describe a [`GcraEpoch`] and its quota.
#[cfg(feature = "shared-memory")]
pub(crate) const QUOTA_WORDS: usize = 8;

impl GcraEpoch {
    /// A bucket that starts full, or empty, with this quota from the clock's origin on.
    ///
    /// # Errors
    ///
    /// The quota is out of range; the error says what to change.
    ///
    /// ```
    /// use tollgate::Quota;
    /// use tollgate::internals::dynamic_gcra::GcraEpoch;
    /// assert!(GcraEpoch::new(&Quota::per_second(0), false).is_err());
    /// ```
    pub fn new(quota: &Quota, start_empty: bool) -> Result<Self, QuotaError> {
        quota.validate()?;
        let interval_nanos = quota.period_nanos() / quota.limit();
        let cell = gcra::units_in_cell(quota, 1)
            .get()
            .max(UNITS_IN_CELL.min(interval_nanos / HEADROOM))
            .min(BURST_UNITS_MAX / quota.burst_cells());
        let gcra = bucket(quota, cell, 0, start_empty)?;
        Ok(Self { gcra, since: Tick::ZERO, base: 0 })
    }

    /// The same words with another quota, from `now` on.
    ///
    /// # Errors
    ///
    /// The quota is out of range; the error says what to change.
    ///
    /// ```
    /// # use tollgate::dynamic::Inherit;
    /// # use tollgate::{Quota, QuotaError, Tick};
    /// # use tollgate::internals::dynamic_gcra::GcraEpoch;
    /// let params = GcraEpoch::new(&Quota::per_second(10), false)?;
    /// let changed = params.change(&Quota::per_second(1_000_000_000), Inherit::AsIs, Tick::ZERO);
    /// assert_eq!(changed, Err(QuotaError::ChangeTooFast));
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    pub fn change(&self, quota: &Quota, inherit: Inherit, now: Tick) -> Result<Self, QuotaError> {
        quota.validate()?;
        let since = now.max(self.since);
        let here = self.absolute(self.gcra.instant(self.elapsed(since)));
        let (cell, old, new) = (self.gcra.cell(), self.gcra.burst(), quota.burst_cells());
        let grown = new.wrapping_sub(old).wrapping_mul(cell);
        let mut reach = self.gcra.grid().reach();
        let (cell, base) = match inherit {
            Inherit::Spent => (cell, here),
            Inherit::Additive if new > old => (cell, here),
            Inherit::AsIs | Inherit::Additive => {
                // The largest possible debt grows as well.
                reach = reach.saturating_add(new.saturating_sub(old).saturating_mul(cell));
                (cell, here.wrapping_sub(grown))
            }
            Inherit::Proportional => (in_proportion(cell, old, new)?, here),
            Inherit::Reset => {
                let base = here.wrapping_add(reach);
                // No debt of the previous quota is left.
                reach = 0;
                (cell, base)
            }
        };
        let gcra = bucket(quota, cell, reach.min(REACH_MAX), self.gcra.starts_in_debt())?;
        Ok(Self { gcra, since, base: TAT.set(self.base, TAT.of(base)) })
    }

    /// Whether states must be [renewed](Self::renewed) before this quota may apply.
    #[cfg(feature = "std")]
    pub(crate) fn is_worn(&self) -> bool {
        let renewed_at = RENEWED.of(self.base) << RENEWED_COARSE_BITS;
        let passed = TAT.of(self.base.wrapping_sub(renewed_at));
        // A distance of nearly the whole ring means that the clock was set back, by a burst that
        // grew.
        let is_set_back = TAT.max() - passed <= BURST_UNITS_MAX;
        passed > WORN_MAX && !is_set_back
    }

    /// A state that is idle at `instant` becomes idle since then, which is the same for every clock
    /// that is not behind `instant`. Any other state does not change.
    #[cfg(feature = "std")]
    pub(crate) fn renewed(&self, word: u64, instant: u64) -> u64 {
        match self.liveness(word, instant) {
            Liveness::Idle { .. } => TAT.of(instant),
            Liveness::Live { .. } => TAT.of(word),
        }
    }

    /// The same quota after all states were renewed by `earlier`, a quota that applied before it or
    /// still does.
    #[cfg(feature = "std")]
    pub(crate) fn renewed_by(self, earlier: &Self) -> Self {
        // One less, since for clocks that are behind, idle states are further behind.
        let renewed_at = (TAT.of(earlier.base) >> RENEWED_COARSE_BITS).wrapping_sub(1);
        Self { base: RENEWED.set(self.base, renewed_at & RENEWED.max()), ..self }
    }

    /// The words that [`from_words`](Self::from_words) reads.
    #[cfg(feature = "std")]
    pub(crate) fn to_words(self) -> [u64; GCRA_EPOCH_WORDS] {
        let mut words = [0; GCRA_EPOCH_WORDS];
        words[..gcra::WORDS].copy_from_slice(&self.gcra.to_words());
        words[gcra::WORDS..].copy_from_slice(&[self.since.as_nanos(), self.base]);
        words
    }

    #[cfg(feature = "std")]
    #[inline]
    pub(crate) fn from_words(words: &[u64; GCRA_EPOCH_WORDS]) -> Self {
        let gcra = words.first_chunk().expect("they come first");
        Self {
            gcra: GcraParams::from_words(gcra),
            since: Tick::from_nanos(words[gcra::WORDS]),
            base: words[gcra::WORDS + 1],
        }
    }

    /// The words from which [`described`](Self::described) works out these parameters again, with their quota.
    #[cfg(feature = "shared-memory")]
    pub(crate) fn describe(&self, quota: &Quota) -> [u64; QUOTA_WORDS] {
        [
            quota.limit(),
            quota.period_nanos(),
            self.gcra.burst(),
            self.gcra.cell(),
            self.gcra.grid().reach(),
            self.gcra.starts_in_debt().into(),
            self.since.as_nanos(),
            self.base,
        ]
    }

    /// The parameters that [`describe`](Self::describe) has described. `None`: these words describe none.
    #[cfg(feature = "shared-memory")]
    pub(crate) fn described(words: &[u64; QUOTA_WORDS]) -> Option<Self> {
        let &[.., cell, reach, start_empty, since, base] = words;
        let quota = Self::quota_described(words);
        quota.validate().ok()?;
        let gcra = bucket(&quota, cell, reach.min(REACH_MAX), start_empty != 0).ok()?;
        Some(Self { gcra, since: Tick::from_nanos(since), base })
    }

    /// The quota of the parameters that [`describe`](Self::describe) has described.
    #[cfg(feature = "shared-memory")]
    pub(crate) fn quota_described(&[limit, period, burst, ..]: &[u64; QUOTA_WORDS]) -> Quota {
        Quota::new(limit, Duration::from_nanos(period)).burst(burst)
    }

    /// The grid that can tell the shortest spans apart, of all grids that a quota may come to have:
    /// no unit is shorter than a nanosecond, and none reaches further.
    #[cfg(feature = "std")]
    pub(crate) fn min_grid() -> Grid {
        Grid::wrapping(1, 1, TAT.max(), REACH_MAX)
    }

    /// The horizon on that grid, less the eighth of the ring that changes may have used up.
    #[cfg(feature = "std")]
    pub(crate) fn min_horizon() -> Option<Duration> {
        let grid = Self::min_grid();
        grid.horizon().map(|horizon| horizon.saturating_sub(grid.span(WORN_MAX)))
    }

    /// Cells that the bucket holds.
    #[cfg(feature = "std")]
    pub(crate) fn burst(&self) -> u64 {
        self.gcra.burst()
    }

    /// The instant on a clock that begins when this quota does.
    #[inline(always)]
    fn elapsed(&self, now: Tick) -> Tick {
        Tick::from_nanos(now.as_nanos().saturating_sub(self.since.as_nanos()))
    }

    /// The nanoseconds from an instant to the beginning of the quota, if it is earlier.
    #[inline(always)]
    fn gap(&self, now: Tick) -> u64 {
        self.since.as_nanos().saturating_sub(now.as_nanos())
    }

    #[inline(always)]
    fn relative(&self, word: u64) -> u64 {
        TAT.of(word.wrapping_sub(self.base))
    }

    #[inline(always)]
    fn absolute(&self, word: u64) -> u64 {
        TAT.of(word.wrapping_add(self.base))
    }

    /// The same with other parameters of the bucket.
    fn with(self, gcra: GcraParams) -> Self {
        Self { gcra, ..self }
    }
}

/// The bucket of a valid quota with `cell` units to a cell, which reaches at least `reach` units.
fn bucket(
    quota: &Quota,
    cell: u64,
    reach: u64,
    start_empty: bool,
) -> Result<GcraParams, QuotaError> {
    let burst = NonZeroU64::new(quota.burst_cells()).ok_or(QuotaError::ZeroBurst)?;
    let cell = NonZeroU64::new(cell).ok_or(QuotaError::InheritTooFar)?;
    let units = quota.limit().checked_mul(cell.get());
    let units = units.filter(|&units| units <= quota.period_nanos());
    let units = units.ok_or(QuotaError::ChangeTooFast)?;
    let capacity = burst.get().checked_mul(cell.get());
    let capacity = capacity.filter(|&capacity| capacity <= BURST_UNITS_MAX);
    let capacity = capacity.ok_or(QuotaError::ChangeBurstTooLarge)?;
    let debt = gcra::debt_units(capacity, BURST_UNITS_MAX).max(reach);
    let grid = Grid::wrapping(units, quota.period_nanos(), TAT.max(), debt);
    Ok(GcraParams::on(grid, cell, burst, start_empty))
}

/// Units in a cell such that the same units are the same share of another burst.
fn in_proportion(cell: u64, old: u64, new: u64) -> Result<u64, QuotaError> {
    let whole = u128::from(cell) * u128::from(old);
    let scaled = whole / u128::from(new);
    let exact = whole.is_multiple_of(u128::from(new));
    match u64::try_from(scaled) {
        Ok(cell) if exact || scaled >= UNITS_IN_CELL_MIN => Ok(cell),
        Ok(_) => Err(QuotaError::InheritTooFar),
        Err(_) => Err(QuotaError::ChangeTooFast),
    }
}

impl Sealed for GcraEpoch {}

impl StateMachine for GcraEpoch {
    #[cfg(feature = "std")]
    type Oracle = Level;
    type View = u64;

    #[inline]
    fn fresh(&self, now: Tick) -> u64 {
        self.absolute(self.gcra.fresh(self.elapsed(now)))
    }

    fn starts_in_debt(&self) -> bool {
        self.gcra.starts_in_debt()
    }

    #[inline(always)]
    fn read<R: Ring>(&self, word: u64, _: R, _: Tick, _: u64) -> u64 {
        self.relative(word)
    }

    #[inline(always)]
    fn step(&self, view: u64, now: Tick, n: u64) -> Step {
        match self.gcra.step(view, self.elapsed(now), n) {
            Step::Admit { next } => Step::Admit { next: self.absolute(next) },
            denied => denied,
        }
    }

    #[inline(always)]
    fn permit(&self, view: u64, now: Tick, n: u64) -> Permit {
        self.gcra.permit(view, self.elapsed(now), n).seen_before(self.gap(now))
    }

    #[inline(always)]
    fn denied(&self, view: u64, now: Tick, n: u64) -> Denied {
        self.gcra.denied(view, self.elapsed(now), n).seen_before(self.gap(now))
    }

    /// Before the quota applied, as if it had applied then: the table asks how long ago a state
    /// became idle.
    #[inline]
    fn instant(&self, now: Tick) -> u64 {
        let before = self.gap(now);
        let passed = self.gcra.instant(self.elapsed(now));
        match before {
            0 => self.absolute(passed),
            before => {
                let units = self.gcra.instant(Tick::from_nanos(before)).saturating_add(1);
                self.absolute(0_u64.wrapping_sub(units))
            }
        }
    }

    #[inline]
    fn liveness(&self, word: u64, instant: u64) -> Liveness {
        self.gcra.liveness(word, instant)
    }

    fn no_slot(&self, word: u64, now: Tick, skew: Duration) -> Denied {
        let denied = self.gcra.no_slot(self.relative(word), self.elapsed(now), skew);
        denied.seen_before(self.gap(now))
    }

    fn grid(&self) -> &Grid {
        self.gcra.grid()
    }

    #[cfg(feature = "std")]
    fn oracle(&self) -> Level {
        self.gcra.oracle()
    }
}

impl Refund for GcraEpoch {
    /// A charge from before the quota changed is not refunded: how much of it time has restored
    /// since is not known any more.
    ///
    /// The old quota may also charge at the instant of the change, while that is under way, or by a clock that is
    /// ahead. If such a charge left less debt than its cells cost by this quota, it is not refunded either: a
    /// reset has forgiven it, or a cell is a larger share of a smaller burst.
    fn refund(&self, word: u64, receipt: &Receipt, now: Tick, n: u64) -> u64 {
        let left = match self.liveness(receipt.next, self.instant(receipt.at)) {
            Liveness::Live { debt } => debt,
            Liveness::Idle { .. } => 0,
        };
        if receipt.at < self.since || left < self.gcra.cost(receipt.cells) {
            return TAT.of(word);
        }
        let receipt = Receipt { at: self.elapsed(receipt.at), ..*receipt };
        let word = self.relative(word);
        self.absolute(self.gcra.refund(word, &receipt, self.elapsed(now), n))
    }

    fn add(&self, word: u64, now: Tick, n: u64) -> u64 {
        self.absolute(self.gcra.add(self.relative(word), self.elapsed(now), n))
    }

    fn overdrawn(&self) -> Self {
        self.with(self.gcra.overdrawn())
    }

    fn turn(&self, word: u64, now: Tick) -> Duration {
        match self.gcra.turn(self.relative(word), self.elapsed(now)) {
            Duration::ZERO => Duration::ZERO,
            turn => turn.saturating_add(Duration::from_nanos(self.gap(now))),
        }
    }
}

impl Ahead for GcraEpoch {
    fn within(&self, now: Tick, wait: Duration) -> Self {
        let wait = wait.saturating_sub(Duration::from_nanos(self.gap(now)));
        self.with(self.gcra.within(self.elapsed(now), wait))
    }
}

#[cfg(test)]
mod tests;
