//! Rebasing: a state that was saved by one clock is expressed by another.
//!
//! Instants in a word count from the origin of the limiter's clock, which is lost at a restart. A
//! [`Restart`] relates the old clock to the new one, and [`Rebase::rebase`] turns a state of the
//! old clock into a state of the new one that holds the same debt.
//!
//! # Rounding
//!
//! The two origins need not differ by a whole number of units. Let them differ by `s` units.
//! `floor(t + s) <= floor(t) + ceil(s)`, so an instant that is moved by `ceil(s)` units is at any
//! time at least as far ahead as it would have been by the old clock, and at most one unit farther.
//! If `s` is a whole number, nothing is rounded, and every later decision is the one that the old
//! clock would have made.

use core::time::Duration;

use super::StateMachine;
use super::grid::Grid;
use crate::time::Tick;
#[cfg(feature = "shared-memory")]
use crate::time::wall::WallClock;

/// The number of values that distinguish two machines.
pub const CONFIG_WORDS: usize = 8;

/// An instant by a clock, and the clock's origin.
///
/// ```
/// use tollgate::Tick;
/// use tollgate::internals::Moment;
///
/// let moment = Moment { tick: Tick::ZERO, unix_origin_nanos: 0 };
/// assert_eq!(moment.tick.as_nanos(), 0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "tests of an algorithm make them")]
pub struct Moment {
    /// The instant.
    pub tick: Tick,
    /// The Unix time of the clock's [`Tick::ZERO`], in nanoseconds.
    pub unix_origin_nanos: u64,
}

/// The relation of two clocks: `now` is `elapsed` after `then`.
///
/// ```
/// use std::time::Duration;
/// use tollgate::Tick;
/// use tollgate::internals::{Moment, Restart};
///
/// let then = Moment { tick: Tick::from_nanos(7_000), unix_origin_nanos: 0 };
/// let now = Moment { tick: Tick::ZERO, unix_origin_nanos: 9_000 };
/// let restart = Restart { then, elapsed: Duration::from_nanos(2_000), now };
/// assert_eq!(restart.elapsed.as_nanos(), 2_000);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "tests of an algorithm make them")]
pub struct Restart {
    /// The instant at which the state was saved, by the clock that it was written by.
    pub then: Moment,
    /// The time that has passed since.
    pub elapsed: Duration,
    /// The present, by the clock that the state will be read by.
    pub now: Moment,
}

#[cfg(test)]
impl Restart {
    /// A restart that takes no time and keeps the clock.
    pub(crate) fn at(tick: Tick) -> Self {
        let moment = Moment { tick, unix_origin_nanos: 0 };
        Self { then: moment, elapsed: Duration::ZERO, now: moment }
    }
}

/// A [`Restart`] on the time grid of a machine.
///
/// ```
/// use std::time::Duration;
/// use tollgate::algorithm::Algorithm;
/// use tollgate::internals::{Moment, Rebase, Restart};
/// use tollgate::{Gcra, Quota, Tick};
///
/// let params = Gcra::new().params(&Quota::per_second(10), 0)?;
/// let moment = Moment { tick: Tick::ZERO, unix_origin_nanos: 0 };
/// let change = params.clock_change(&Restart { then: moment, elapsed: Duration::ZERO, now: moment });
/// assert_eq!(params.rebase(params.fresh(Tick::ZERO), &mut [], &change), None);
/// # use tollgate::internals::StateMachine;
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockChange {
    /// The units that have begun, by the old clock and by the new one.
    then: u64,
    now: u64,
    /// Units to add to what is left of a span, rounded up; below 0, since time has passed.
    gain: i128,
    /// Whether that was rounded.
    rounded: bool,
}

/// A machine whose states can be rebased from one clock to another, as
/// [`Limiter::snapshot`](crate::Limiter::snapshot) needs.
///
/// Every algorithm of this crate implements it except [`DynamicGcra`](crate::dynamic::DynamicGcra): its
/// quota is no part of what it was built from, so nothing shows under which quota a state was
/// saved.
///
/// ```
/// use std::time::Duration;
/// use tollgate::algorithm::Algorithm;
/// use tollgate::internals::{Moment, NoRing, Rebase, Restart, StateMachine, Step};
/// use tollgate::{Gcra, Quota, Tick};
///
/// let params = Gcra::new().params(&Quota::per_second(10), 0)?;
/// let then = Moment { tick: Tick::from_nanos(77_000_000_000), unix_origin_nanos: 0 };
/// let now = Moment { tick: Tick::ZERO, unix_origin_nanos: 78_000_000_000 };
/// let Step::Admit { next } = params.step(params.fresh(then.tick), then.tick, 10) else { panic!() };
/// // Half a second later, by a new clock: half of the ten cells have come back.
/// let change = params.clock_change(&Restart { then, elapsed: Duration::from_millis(500), now });
/// let word = params.rebase(next, &mut [], &change).unwrap();
/// let view = params.read(word, NoRing, now.tick, 0);
/// assert_eq!(params.answer(view, now.tick, 0).unwrap().remaining(), 5);
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
pub trait Rebase: StateMachine {
    /// The number of the algorithm, which no other algorithm has.
    fn algorithm(&self) -> u64;

    /// The number of ring cells that are part of a state: all but the note, which is a hint.
    fn kept_cells(&self) -> usize {
        self.ring_cells() - usize::from(self.has_note())
    }

    /// The values that determine how a state is read: equal in two machines that read states alike.
    /// `unix_origin_nanos` is that of the clock that the machine was made for.
    fn config_words(&self, unix_origin_nanos: u64) -> [u64; CONFIG_WORDS];

    /// How far wall time is ahead of the clock, if windows follow the wall clock.
    fn wall_ahead_nanos(&self) -> i64 {
        0
    }

    /// The wall clock that windows follow, if they do.
    #[cfg(feature = "shared-memory")]
    #[doc(hidden)]
    fn wall_clock_mut(&mut self) -> Option<&mut WallClock> {
        None
    }

    /// By how much the clock's origin counts as earlier, if windows follow the wall clock.
    fn wall_shift_nanos(&self) -> u64 {
        0
    }

    /// The moment that this machine, as it was built, places in the same windows as `still` places `moment`. For
    /// machines that follow no wall clock, it is `moment`.
    fn unstepped(&self, still: &Self, moment: Moment) -> Moment {
        let stepped = still.wall_ahead_nanos().saturating_sub(self.wall_ahead_nanos());
        let tick = moment.tick.as_nanos().saturating_add_signed(stepped);
        let origin = moment.unix_origin_nanos.saturating_sub(self.wall_shift_nanos());
        Moment { tick: Tick::from_nanos(tick), unix_origin_nanos: origin }
    }

    /// Computes once what [`rebase`](Self::rebase) needs for every word. The machine must have been
    /// made for the clock of [`Restart::now`].
    fn clock_change(&self, restart: &Restart) -> ClockChange {
        ClockChange::on(self.grid(), restart)
    }

    /// Expresses the debt of `word` by the new clock, less what time has restored; `None` if no debt is
    /// left. The new state never holds less debt than that, and at most one unit of the grid more. Every
    /// word has an answer.
    ///
    /// `ring` holds the [kept cells](Self::kept_cells) on entry, and those of the new state on
    /// return: all instants are moved by the same number of units. Every ring has an answer.
    fn rebase(&self, word: u64, ring: &mut [u64], change: &ClockChange) -> Option<u64>;
}

impl ClockChange {
    /// By real time, on a grid that counts from the clock's origin.
    pub(super) fn on(grid: &Grid, restart: &Restart) -> Self {
        let Restart { then, elapsed, now } = restart;
        // The present by the old clock. Past the last tick, a state counts as younger than it is.
        let here = then.tick.saturating_add(*elapsed);
        let (units, nanos) = grid.ratio();
        // Below 2^64 nanoseconds, and less than 2^63 units in one of them.
        let distance = i128::from(now.tick.as_nanos()) - i128::from(here.as_nanos());
        let scaled = distance * i128::from(units);
        let rounded = scaled.rem_euclid(i128::from(nanos)) != 0;
        let shift = scaled.div_euclid(i128::from(nanos)) + i128::from(rounded);
        let (then, now) = (grid.floor(then.tick), grid.floor(now.tick));
        Self { then, now, gain: i128::from(then) + shift - i128::from(now), rounded }
    }

    /// In whole units: `then` and `now` have begun, `passed` units apart.
    pub(super) fn of_units(then: u64, now: u64, passed: i128) -> Self {
        Self { then, now, gain: -passed, rounded: false }
    }

    /// On a grid that counts from the beginning of a period of the wall clock, where both clocks
    /// have the same windows. By the new clock, the period began `ahead_nanos` before the origin,
    /// or whole periods later.
    ///
    /// A step of the wall clock, or a suspension, while the old clock ran counts as time that has passed, unless
    /// `passed_max` says how much has. Units then begin at other times by the old clock than by the new one, and a
    /// state keeps for up to a unit more what it would lose too early.
    pub(super) fn on_wall_clock(
        grid: &Grid,
        period_nanos: u64,
        ahead_nanos: u64,
        restart: &Restart,
        passed_max: Option<Duration>,
    ) -> Self {
        let Restart { then, now, .. } = restart;
        let period = i128::from(period_nanos);
        let (begun, ahead_now) = (ahead_nanos / period_nanos * period_nanos, ahead_nanos);
        let distance = i128::from(then.unix_origin_nanos) - i128::from(now.unix_origin_nanos);
        let (begun, ahead_now) = (i128::from(begun), i128::from(ahead_now));
        let ahead_then = (ahead_now + distance).rem_euclid(period) + begun;
        // The two clocks' first periods are whole periods apart.
        let periods = (distance + ahead_now - ahead_then) / period;
        let (units, nanos) = grid.ratio();
        let units_in_period = period * i128::from(units) / i128::from(nanos);
        let aligned = |tick: Tick, ahead: i128| {
            tick.saturating_add(Duration::from_nanos(u64::try_from(ahead).unwrap_or(0)))
        };
        let end = passed_max.map(|passed| aligned(then.tick.saturating_add(passed), ahead_then));
        let (began, here) = (aligned(then.tick, ahead_then), aligned(now.tick, ahead_now));
        let (then, now) = (grid.floor(began), grid.floor(here));
        let passed = i128::from(now) - i128::from(then) - periods * units_in_period;
        // If the wall clock was set back, the window that was open counts as the current one.
        let passed = passed.max(0);
        let passed = end.map_or(passed, |end| {
            let early = i128::from(is_further_in_its_unit(grid, here, end));
            passed.min(i128::from(grid.floor(end)) - i128::from(then) - early)
        });
        Self::of_units(then, now, passed)
    }

    /// The same for instants that count from `units` before the origin, by either clock.
    pub(super) fn counted_before(self, units: u64) -> Self {
        let (then, now) = (self.then.wrapping_add(units), self.now.wrapping_add(units));
        Self { then, now, ..self }
    }

    /// The unit that had begun at `then`, by the old clock.
    pub(super) fn then(&self) -> u64 {
        self.then
    }

    /// The unit that has begun at `now`, by the new clock.
    pub(super) fn now(&self) -> u64 {
        self.now
    }

    /// How far an instant of the grid is ahead by the new clock (below 0: behind), rounded up.
    pub(super) fn ahead(&self, grid: &Grid, instant: u64) -> i128 {
        let ahead = match grid.ahead(instant, self.then) {
            0 => -i128::from(grid.behind(instant, self.then)),
            ahead => ahead.into(),
        };
        ahead + self.gain
    }

    /// The units until `instant` by the new clock, rounded up and rounded down; 0 if it has passed.
    pub(super) fn left(&self, grid: &Grid, instant: u64) -> (u64, u64) {
        let ahead = grid.ahead(instant, self.then);
        if ahead == 0 {
            return (0, 0);
        }
        let left = u64::try_from(i128::from(ahead) + self.gain).unwrap_or(0);
        // No more than can be told from a past instant.
        let left = grid.clamp_ahead(left);
        (left, left.saturating_sub(self.rounded.into()))
    }
}

/// Clocks that differ by no more show the same time: the default one may be so far off.
const OFF_MAX_NANOS: u64 = 1_000_000;

/// Whether more of its unit has passed at `one` than at `other`, by more than [`OFF_MAX_NANOS`] and more than a
/// thousandth of a unit.
fn is_further_in_its_unit(grid: &Grid, one: Tick, other: Tick) -> bool {
    let (units, unit_shares) = grid.ratio();
    let passed = |tick| grid.scale(tick, grid.floor(tick)).phase;
    let off_max = (unit_shares / 1_000).max(OFF_MAX_NANOS.saturating_mul(units));
    passed(one) > passed(other).saturating_add(off_max)
}

#[cfg(test)]
mod tests;
