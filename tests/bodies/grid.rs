//! The promises of a grid, computed from its public interface.

use std::time::Duration;

use tollgate::Quota;
use tollgate::internals::StateMachine;

use super::choice::Choice;

pub(crate) fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// Units of a bucket's grid in a cell.
pub(crate) fn units_in_cell<P: StateMachine>(params: &P, quota: &Quota) -> u64 {
    whole_units(params, quota, u128::from(quota.limit()))
}

/// Units of a window's grid in a window.
pub(crate) fn units_in_window<P: StateMachine>(params: &P, quota: &Quota) -> u64 {
    whole_units(params, quota, 1)
}

pub(super) fn units_within<P: StateMachine>(params: &P, span: Duration) -> u64 {
    let (units, per_nanos) = params.grid().ratio();
    let within = span.as_nanos() * u128::from(units) / u128::from(per_nanos);
    u64::try_from(within).expect("what fits a word")
}

/// The units in a period divided by `divisor`. The division is exact: grids are chosen for that.
fn whole_units<P: StateMachine>(params: &P, quota: &Quota, divisor: u128) -> u64 {
    let (units, per_nanos) = params.grid().ratio();
    let in_period = u128::from(units) * quota.period().as_nanos();
    let divisor = u128::from(per_nanos) * divisor;
    assert_eq!(in_period % divisor, 0, "a cell, or a window, is a whole number of units");
    u64::try_from(in_period / divisor).expect("what fits a word")
}

/// The nanoseconds of some units, rounded down.
fn nanos_in<P: StateMachine>(params: &P, units: u128) -> u64 {
    let (in_nanos, per_nanos) = params.grid().ratio();
    let nanos = units * u128::from(per_nanos) / u128::from(in_nanos);
    u64::try_from(nanos).unwrap_or(u64::MAX)
}

/// The units within which a wrapping grid distinguishes past from future; all of time, if the grid
/// is endless.
fn units_told_apart<P: StateMachine>(params: &P, reach: u64) -> Option<u128> {
    let tolerance = params.grid().skew_tolerance()?;
    let (units, per_nanos) = params.grid().ratio();
    let ring = u128::from(params.grid().ring().expect("a grid with a tolerance wraps"));
    let tolerance = (tolerance.as_nanos() + 1) * u128::from(units) / u128::from(per_nanos);
    Some(ring - u128::from(reach) - tolerance - 2)
}

/// The first and the last instant that a word distinguishes from a state written at `written`, by
/// its own account; all instants, if nothing bounds them.
pub(crate) fn horizon<P: StateMachine>(params: &P, written: u64) -> (u64, u64) {
    let behind = params.skew_tolerance().map_or(u64::MAX, nanos);
    let ahead = params.horizon().map_or(u64::MAX, nanos);
    (written.saturating_sub(behind), written.saturating_add(ahead))
}

/// The last instant at which a cell written into a ring at `first` is distinguished from a later
/// one.
pub(crate) fn ring_horizon<P: StateMachine>(
    params: &P,
    choice: Choice,
    quota: &Quota,
    first: u64,
) -> u64 {
    let told_apart = units_told_apart(params, choice.reach(params, quota));
    let units = choice.ring_units(told_apart);
    units.map_or(u64::MAX, |units| first.saturating_add(nanos_in(params, units)))
}

/// The last instant at which waits from `now` can be tried: while the word is distinguished, and
/// while the choice allows them.
pub(crate) fn waits_end<P: StateMachine>(
    params: &P,
    choice: Choice,
    quota: &Quota,
    now: u64,
) -> u64 {
    choice.waits_end(params, quota).min(horizon(params, now).1)
}
