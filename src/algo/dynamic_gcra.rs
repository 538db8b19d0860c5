//! A token bucket whose quota can change while it is in use.
//!
//! # Word
//!
//! ```text
//! bits 52..0  theoretical arrival time (TAT), in fractions of a cell
//! ```
//!
//! It is [`gcra`] by a clock of its own, which does not count time but the cells that
//! flow in, in fractions: at `limit` cells a period it moves on by `limit` cells' worth of units in
//! every period. A debt is then a number of cells, and not a time; and when the quota changes, only
//! the clock changes its pace: no word is touched, whatever their number, and no charge is lost.
//!
//! # Inheritance
//!
//! What a word means is its distance from the clock, in units of which so many are a cell. So the
//! clock's hand and the worth of a unit are all that there is to change:
//!
//! | [`Inherit`] | the clock is put | units in a cell |
//! |---|---|---|
//! | as is | back by what the burst grows, or on by what it shrinks | the same |
//! | additive | as is, but never back | the same |
//! | spent | not at all | the same |
//! | proportional | not at all | in inverse proportion to the burst |
//! | reset | on, by the largest debt there may be | the same |
//!
//! # Wear
//!
//! The clock runs on a ring. A state that the clock has left behind by nearly all of the ring is taken
//! for one that owes something. Time alone needs months for that, but each reset, and each additive
//! change to a smaller burst, puts the clock on at once. The clock is worn when it is more than an eighth
//! of the ring ahead of where it was when states were last renewed. A change that would leave it so first
//! renews every idle state: the state becomes idle since now. Renewing takes time for each slot. A reset
//! puts the clock on by at most 16 bursts, so the ordinary quota renews once in thousands of resets, and
//! one that takes months to fill up once in dozens.
//!
//! # Before the quota held
//!
//! An instant from before the last change is judged as that of the change, and the times that are told
//! then count from the caller's own instant.
//!
//! Source: the virtual clock of L. Zhang, "VirtualClock: a new traffic control algorithm for packet
//! switching networks" (1990), with one clock for all keys; the inheritances are Bucket4j's.

use core::num::NonZeroU64;
use core::time::Duration;

use super::gcra::{self, GcraParams};
use super::grid::Grid;
#[cfg(feature = "std")]
use super::oracle::Level;
use super::{
    Ahead, PAYLOAD_BITS, Receipt, Refund, Ring, Standing, StateMachine, Step, sealed::Sealed,
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
/// How far the clock may be put from where it was when states were last renewed.
#[cfg(feature = "std")]
const WORN_MAX: u64 = 1 << (PAYLOAD_BITS - 3);
/// Where the clock was then is kept without this many low bits, above the base in its word.
#[cfg(feature = "std")]
const RENEWED_COARSE_BITS: u32 = 2 * PAYLOAD_BITS - u64::BITS;
#[cfg(feature = "std")]
const RENEWED: Field = TAT.above(u64::BITS - PAYLOAD_BITS);
/// The rate may grow by this much, if a nanosecond leaves it so much.
const HEADROOM: u64 = 32;
/// Units in a cell, if the headroom leaves so many.
const UNITS_IN_CELL: u64 = 1_000;
/// Fewer units in a cell would make too much of a proportion.
const UNITS_IN_CELL_MIN: u128 = 100;

/// What becomes of the cells that are left to a key when the quota changes.
///
/// A key that has all its cells is hardly told from one that was never seen: it may have all its cells
/// afterwards, too.
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
    /// As many as there were, but no more than the new burst.
    AsIs,
    /// As many as there were, and what the burst has grown by. If it has shrunk, as [`AsIs`](Self::AsIs).
    Additive,
    /// The new burst less the cells that the key has spent and that have not come back: of 1,000 cells,
    /// 5 spent, a burst of 10 leaves 5. A key that has spent more than the new burst is denied until
    /// the excess has come back at the new rate.
    ///
    /// **Guarantee.** However often the quota changes in this way, no key that keeps its place is granted
    /// more within any span than the largest of the bursts, the cells that the rates in force bring
    /// within the span, and the unit that [`DynamicGcra`](crate::dynamic::DynamicGcra) states.
    Spent,
    /// The same share of the burst.
    Proportional,
    /// All: it is as if no key had ever been seen.
    Reset,
}

/// A token bucket with a quota that holds from some instant on.
///
/// ```
/// use tollgate::internals::StateMachine;
/// use tollgate::internals::dynamic_gcra::PacedParams;
/// use tollgate::dynamic::Inherit;
/// use tollgate::{Quota, Tick};
///
/// let params = PacedParams::new(&Quota::per_second(10), false)?;
/// let halved = params.change(&Quota::per_second(5), Inherit::AsIs, Tick::from_nanos(1))?;
/// assert!(halved.answer(halved.fresh(Tick::ZERO), Tick::ZERO, 6).is_err());
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacedParams {
    /// By a clock that begins at [`since`](Self::since), on words less [`base`](Self::base).
    gcra: GcraParams,
    since: Tick,
    /// What words are less by, and where that was when states were last renewed.
    ///
    /// ```text
    /// bits 63..53 upper bits of the base of then | bits 52..0 base
    /// ```
    base: u64,
}

/// [`PacedParams`] as words that can be stored one by one.
#[cfg(feature = "std")]
pub(crate) const PACED_WORDS: usize = gcra::WORDS + 2;

impl PacedParams {
    /// A bucket that starts full, or empty, with this quota from the clock's origin on.
    ///
    /// # Errors
    ///
    /// What is out of range, with advice.
    ///
    /// ```
    /// use tollgate::Quota;
    /// use tollgate::internals::dynamic_gcra::PacedParams;
    /// assert!(PacedParams::new(&Quota::per_second(0), false).is_err());
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

    /// The same words under another quota, from `now` on.
    ///
    /// # Errors
    ///
    /// What is out of range, with advice.
    ///
    /// ```
    /// # use tollgate::dynamic::Inherit;
    /// # use tollgate::{Quota, QuotaError, Tick};
    /// # use tollgate::internals::dynamic_gcra::PacedParams;
    /// let params = PacedParams::new(&Quota::per_second(10), false)?;
    /// let changed = params.change(&Quota::per_second(1_000_000_000), Inherit::AsIs, Tick::ZERO);
    /// assert_eq!(changed, Err(QuotaError::LiveTooFast));
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
                // The largest debt there may be has grown as well.
                reach = reach.saturating_add(new.saturating_sub(old).saturating_mul(cell));
                (cell, here.wrapping_sub(grown))
            }
            Inherit::Proportional => (in_proportion(cell, old, new)?, here),
            Inherit::Reset => {
                let base = here.wrapping_add(reach);
                // No debt is left that the last quota allowed.
                reach = 0;
                (cell, base)
            }
        };
        let gcra = bucket(quota, cell, reach.min(REACH_MAX), self.gcra.starts_in_debt())?;
        Ok(Self { gcra, since, base: TAT.set(self.base, TAT.of(base)) })
    }

    /// Whether states have to be [renewed](Self::renewed) before this quota may hold.
    #[cfg(feature = "std")]
    pub(crate) fn is_worn(&self) -> bool {
        let renewed_at = RENEWED.of(self.base) << RENEWED_COARSE_BITS;
        let passed = TAT.of(self.base.wrapping_sub(renewed_at));
        // What is as good as all of the ring was put back, by a burst that grew.
        let put_back = TAT.max() - passed <= BURST_UNITS_MAX;
        passed > WORN_MAX && !put_back
    }

    /// A state that is idle at `instant` made idle since then, which is the same to every clock that is
    /// not behind `instant`; any other as it is.
    #[cfg(feature = "std")]
    pub(crate) fn renewed(&self, word: u64, instant: u64) -> u64 {
        match self.standing(word, instant) {
            Standing::Idle { .. } => TAT.of(instant),
            Standing::Live { .. } => TAT.of(word),
        }
    }

    /// The same quota, with all states renewed by `earlier`, one that held before it or still does.
    #[cfg(feature = "std")]
    pub(crate) fn renewed_by(self, earlier: &Self) -> Self {
        // One less: for clocks that are behind, states are idle that are further behind.
        let renewed_at = (TAT.of(earlier.base) >> RENEWED_COARSE_BITS).wrapping_sub(1);
        Self { base: RENEWED.set(self.base, renewed_at & RENEWED.max()), ..self }
    }

    /// What [`from_words`](Self::from_words) reads.
    #[cfg(feature = "std")]
    pub(crate) fn to_words(self) -> [u64; PACED_WORDS] {
        let mut words = [0; PACED_WORDS];
        words[..gcra::WORDS].copy_from_slice(&self.gcra.to_words());
        words[gcra::WORDS..].copy_from_slice(&[self.since.as_nanos(), self.base]);
        words
    }

    #[cfg(feature = "std")]
    #[inline]
    pub(crate) fn from_words(words: &[u64; PACED_WORDS]) -> Self {
        let gcra = words.first_chunk().expect("they come first");
        Self {
            gcra: GcraParams::from_words(gcra),
            since: Tick::from_nanos(words[gcra::WORDS]),
            base: words[gcra::WORDS + 1],
        }
    }

    /// The grid that tells least apart, of all that a quota may come to have: no unit is shorter than a
    /// nanosecond, and none reaches further.
    #[cfg(feature = "std")]
    pub(crate) fn least_grid() -> Grid {
        Grid::wrapping(1, 1, TAT.max(), REACH_MAX)
    }

    /// The horizon on that grid, of which changes may have used up an eighth of the ring.
    #[cfg(feature = "std")]
    pub(crate) fn least_horizon() -> Option<Duration> {
        let grid = Self::least_grid();
        grid.horizon().map(|horizon| horizon.saturating_sub(grid.span(WORN_MAX)))
    }

    /// Cells that the bucket holds.
    #[cfg(feature = "std")]
    pub(crate) fn burst(&self) -> u64 {
        self.gcra.burst()
    }

    /// The instant by a clock that begins when this quota does.
    #[inline(always)]
    fn elapsed(&self, now: Tick) -> Tick {
        Tick::from_nanos(now.as_nanos().saturating_sub(self.since.as_nanos()))
    }

    /// How many nanoseconds an instant is before the quota held.
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

    /// The same with another way to admit.
    fn with(self, gcra: GcraParams) -> Self {
        Self { gcra, ..self }
    }
}

/// The bucket of a valid quota with `cell` units to a cell, which may reach so far at least.
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
    let units = units.ok_or(QuotaError::LiveTooFast)?;
    let capacity = burst.get().checked_mul(cell.get());
    let capacity = capacity.filter(|&capacity| capacity <= BURST_UNITS_MAX);
    let capacity = capacity.ok_or(QuotaError::LiveBurstTooLarge)?;
    let debt = gcra::debt_units(capacity, BURST_UNITS_MAX).max(reach);
    let grid = Grid::wrapping(units, quota.period_nanos(), TAT.max(), debt);
    Ok(GcraParams::on(grid, cell, burst, start_empty))
}

/// Units in a cell where the same units are to be the same share of another burst.
fn in_proportion(cell: u64, old: u64, new: u64) -> Result<u64, QuotaError> {
    let whole = u128::from(cell) * u128::from(old);
    let scaled = whole / u128::from(new);
    let exact = whole.is_multiple_of(u128::from(new));
    match u64::try_from(scaled) {
        Ok(cell) if exact || scaled >= UNITS_IN_CELL_MIN => Ok(cell),
        Ok(_) => Err(QuotaError::InheritTooFar),
        Err(_) => Err(QuotaError::LiveTooFast),
    }
}

impl Sealed for PacedParams {}

impl StateMachine for PacedParams {
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
    fn step(&self, seen: u64, now: Tick, n: u64) -> Step {
        match self.gcra.step(seen, self.elapsed(now), n) {
            Step::Admit { next } => Step::Admit { next: self.absolute(next) },
            denied => denied,
        }
    }

    #[inline(always)]
    fn permit(&self, seen: u64, now: Tick, n: u64) -> Permit {
        self.gcra.permit(seen, self.elapsed(now), n).seen_before(self.gap(now))
    }

    #[inline(always)]
    fn denied(&self, seen: u64, now: Tick, n: u64) -> Denied {
        self.gcra.denied(seen, self.elapsed(now), n).seen_before(self.gap(now))
    }

    /// Before the quota held, as if it had held then: it is asked for how long ago a state became
    /// idle.
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
    fn standing(&self, word: u64, instant: u64) -> Standing {
        self.gcra.standing(word, instant)
    }

    fn no_place(&self, word: u64, now: Tick, skew: Duration) -> Denied {
        let denied = self.gcra.no_place(self.relative(word), self.elapsed(now), skew);
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

impl Refund for PacedParams {
    /// What was charged before the quota changed is not given back: how much of it time has restored
    /// since is not known any more.
    fn refund(&self, word: u64, receipt: &Receipt, now: Tick, n: u64) -> u64 {
        if receipt.at < self.since {
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

impl Ahead for PacedParams {
    fn within(&self, now: Tick, wait: Duration) -> Self {
        let wait = wait.saturating_sub(Duration::from_nanos(self.gap(now)));
        self.with(self.gcra.within(self.elapsed(now), wait))
    }
}

#[cfg(test)]
mod tests;
