//! States that outlive their clock: what a word means is said again by another clock.
//!
//! Instants in a word count from the origin of the limiter's clock, which is gone after a restart.
//! So a [`Restart`] says how the two clocks lie to each other, and a state of the old one becomes
//! the state of the new one that holds the same against its key.
//!
//! # Rounding
//!
//! The two origins need not differ by a whole number of units. Say they differ by `s`, in units.
//! `floor(t + s) <= floor(t) + ceil(s)`, so an instant that is moved by `ceil(s)` units is never
//! less far ahead, at any time, than it would have been by the old clock, and by no more than one
//! unit farther. Where `s` is a whole number, nothing is rounded, and every later decision is the
//! one that would have been made.

use core::time::Duration;

use super::StateMachine;
use super::grid::Grid;
use crate::time::Tick;

/// How many figures tell one machine from another.
pub const FIGURES: usize = 8;

/// An instant by a clock, and what is known of that clock.
///
/// ```
/// use tollgate::Tick;
/// use tollgate::internals::Moment;
///
/// let moment = Moment { tick: Tick::ZERO, unix_origin_nanos: 0 };
/// assert_eq!(moment.tick.as_nanos(), 0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "whoever tests an algorithm makes them")]
pub struct Moment {
    /// The instant.
    pub tick: Tick,
    /// The Unix time of the clock's [`Tick::ZERO`], in nanoseconds.
    pub unix_origin_nanos: u64,
}

/// From one clock to another: `now` is `elapsed` after `then`.
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
#[allow(clippy::exhaustive_structs, reason = "whoever tests an algorithm makes them")]
pub struct Restart {
    /// When the state was saved, by the clock that it was written by.
    pub then: Moment,
    /// Time that has passed since.
    pub elapsed: Duration,
    /// The present, by the clock that it is to be read by.
    pub now: Moment,
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
/// let passage = params.passage(&Restart { then: moment, elapsed: Duration::ZERO, now: moment });
/// assert_eq!(params.rebase(params.fresh(Tick::ZERO), &mut [], &passage), None);
/// # use tollgate::internals::StateMachine;
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rebased {
    /// The units that have begun, by the one clock and by the other.
    then: u64,
    now: u64,
    /// Units that come to what is left of a span; below 0, since time has passed. Rounded up.
    gain: i128,
    /// Whether that was rounded.
    rounded: bool,
}

/// A machine whose states can be carried from one clock to another, as
/// [`Limiter::snapshot`](crate::Limiter::snapshot) asks for.
///
/// Every algorithm of this crate has one but [`Live`](crate::dynamic::DynamicGcra): its quota is no part of what it
/// was built from, so nothing tells by which quota a state was saved.
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
/// let passage = params.passage(&Restart { then, elapsed: Duration::from_millis(500), now });
/// let word = params.rebase(next, &mut [], &passage).unwrap();
/// let seen = params.read(word, NoRing, now.tick, 0);
/// assert_eq!(params.answer(seen, now.tick, 0).unwrap().remaining(), 5);
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
pub trait Rebase: StateMachine {
    /// Which algorithm it is: a number that means the same in every version of this crate.
    fn algorithm(&self) -> u64;

    /// Cells of a ring that are part of a state: all but the note, which is a guess.
    fn kept_cells(&self) -> usize {
        self.ring_cells() - usize::from(self.has_note())
    }

    /// What decides how a state is read; the same in two machines that read it alike.
    /// `unix_origin_nanos` is that of the clock that the machine was made for.
    fn figures(&self, unix_origin_nanos: u64) -> [u64; FIGURES];

    /// Works out what [`rebase`](Self::rebase) needs, once for all words. The machine must have been
    /// made for the clock of [`Restart::now`].
    fn passage(&self, restart: &Restart) -> Rebased {
        Rebased::on(self.grid(), restart)
    }

    /// The state that holds against its key by the new clock what `word` held by the old one, less
    /// what time has forgiven; `None` if that is nothing. It never holds less, and at most one unit
    /// of the grid more. Any word gives an answer.
    ///
    /// `ring` is what stands in the [kept cells](Self::kept_cells), as many as they are, and becomes
    /// what stands there with the new state: all instants are moved by the same number of units.
    /// Any cells give an answer.
    fn rebase(&self, word: u64, ring: &mut [u64], passage: &Rebased) -> Option<u64>;
}

impl Rebased {
    /// By real time, on a grid that counts from the clock's origin.
    pub(super) fn on(grid: &Grid, restart: &Restart) -> Self {
        let Restart { then, elapsed, now } = restart;
        // The present by the old clock. Beyond the end of time a state is not so old as it is.
        let here = then.tick.saturating_add(*elapsed);
        let (units, nanos) = grid.ratio();
        // Below 2^64 nanoseconds, and less than 2^63 units in one of them.
        let apart = i128::from(now.tick.as_nanos()) - i128::from(here.as_nanos());
        let scaled = apart * i128::from(units);
        let rounded = scaled.rem_euclid(i128::from(nanos)) != 0;
        let shift = scaled.div_euclid(i128::from(nanos)) + i128::from(rounded);
        let (then, now) = (grid.floor(then.tick), grid.floor(now.tick));
        Self { then, now, gain: i128::from(then) + shift - i128::from(now), rounded }
    }

    /// By whole units: `then` and `now` have begun, `passed` of them apart.
    pub(super) fn of_units(then: u64, now: u64, passed: u64) -> Self {
        Self { then, now, gain: -i128::from(passed), rounded: false }
    }

    /// On a grid that counts from the beginning of a period of the wall clock: its windows are the
    /// same by any clock. By the new one the period began `ahead_nanos` before the origin, or whole
    /// periods later than that.
    pub(super) fn on_wall_clock(
        grid: &Grid,
        period_nanos: u64,
        ahead_nanos: u64,
        restart: &Restart,
    ) -> Self {
        let Restart { then, now, .. } = restart;
        let period = i128::from(period_nanos);
        let (begun, ahead_now) = (ahead_nanos / period_nanos * period_nanos, ahead_nanos);
        let apart = i128::from(then.unix_origin_nanos) - i128::from(now.unix_origin_nanos);
        let (begun, ahead_now) = (i128::from(begun), i128::from(ahead_now));
        let ahead_then = (ahead_now + apart).rem_euclid(period) + begun;
        // What is between the two clocks' first periods is whole ones.
        let periods = (apart + ahead_now - ahead_then) / period;
        let (units, nanos) = grid.ratio();
        let units_in_period = period * i128::from(units) / i128::from(nanos);
        let floor = |tick: Tick, ahead: i128| {
            let ahead = Duration::from_nanos(u64::try_from(ahead).unwrap_or(0));
            grid.floor(tick.saturating_add(ahead))
        };
        let (then, now) = (floor(then.tick, ahead_then), floor(now.tick, ahead_now));
        let passed = i128::from(now) - i128::from(then) - periods * units_in_period;
        // If the wall clock was set back, the window that was open is taken for the one that is.
        Self::of_units(then, now, u64::try_from(passed).unwrap_or(0))
    }

    /// The same, where instants count from so many units before the origin, by either clock.
    pub(super) fn counted_before(self, units: u64) -> Self {
        let (then, now) = (self.then.wrapping_add(units), self.now.wrapping_add(units));
        Self { then, now, ..self }
    }

    /// The unit that had begun by the old clock.
    pub(super) fn then(&self) -> u64 {
        self.then
    }

    /// The unit that has begun by the new clock.
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

    /// How many units of `instant` are left by the new clock, rounded up, and how many rounded
    /// down; 0 where none are.
    pub(super) fn left(&self, grid: &Grid, instant: u64) -> (u64, u64) {
        let ahead = grid.ahead(instant, self.then);
        if ahead == 0 {
            return (0, 0);
        }
        let left = u64::try_from(i128::from(ahead) + self.gain).unwrap_or(0);
        // As much as is still told from what is past.
        let left = grid.ahead_at_most(left);
        (left, left.saturating_sub(self.rounded.into()))
    }
}

#[cfg(test)]
mod tests;
