//! What a grid promises, worked out from its public face.

use std::time::Duration;

use tollgate::Quota;
use tollgate::internals::StateMachine;

use super::choice::Choice;

pub(crate) fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// Units that the algorithm may write ahead of its clock, or that end a state: a bucket's burst,
/// a window, a log's longest window, the sub-windows that count.
pub(crate) fn reach<P: StateMachine>(params: &P, choice: Choice, quota: &Quota) -> u64 {
    match choice {
        Choice::Bucket(_) | Choice::Queue(_) => units_in_cell(params, quota) * quota.burst_cells(),
        Choice::Window(_) => units_in_window(params, quota),
        Choice::WarmUp(pace) => {
            let parts = 2 * (5 + u64::from(pace.cold_factor));
            let spans = units_within(params, pace.period * 2 + pace.max_wait) + 2;
            units_in_cell(params, quota) * quota.burst_cells() + spans + parts
        }
        // A cell for each that counts, or some more.
        Choice::SubWindows(_) | Choice::Counter(_) => params.ring_cells() as u64,
        Choice::Log(rates) => {
            let windows = rates.all(quota).map(|rate| units_in_window(params, &rate));
            windows.max().expect("a rate")
        }
    }
}

/// Units of a bucket's grid in a cell.
pub(crate) fn units_in_cell<P: StateMachine>(params: &P, quota: &Quota) -> u64 {
    whole_units(params, quota, u128::from(quota.limit()))
}

/// Units of a window's grid in a window.
pub(crate) fn units_in_window<P: StateMachine>(params: &P, quota: &Quota) -> u64 {
    whole_units(params, quota, 1)
}

fn units_within<P: StateMachine>(params: &P, span: Duration) -> u64 {
    let (units, per_nanos) = params.grid().ratio();
    let within = span.as_nanos() * u128::from(units) / u128::from(per_nanos);
    u64::try_from(within).expect("what fits a word")
}

/// Units in a period divided by `divisor`, which is exact: that is what the grids are for.
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

/// Units for which a wrapping grid tells what was written from what is ahead; all of time, where
/// the grid is endless.
fn units_told_apart<P: StateMachine>(params: &P, reach: u64) -> Option<u128> {
    let tolerance = params.grid().skew_tolerance()?;
    let (units, per_nanos) = params.grid().ratio();
    let ring = u128::from(params.grid().ring().expect("a grid with a tolerance wraps"));
    let tolerance = (tolerance.as_nanos() + 1) * u128::from(units) / u128::from(per_nanos);
    Some(ring - u128::from(reach) - tolerance - 2)
}

/// The least and the latest instant that a word still tells apart from a state written at
/// `written`, as it says of itself. All instants, where nothing bounds them.
pub(crate) fn horizon<P: StateMachine>(params: &P, written: u64) -> (u64, u64) {
    let behind = params.skew_tolerance().map_or(u64::MAX, nanos);
    let ahead = params.horizon().map_or(u64::MAX, nanos);
    (written.saturating_sub(behind), written.saturating_add(ahead))
}

/// The latest instant at which a cell put into a ring at `first` is still told from a later one.
pub(crate) fn ring_horizon<P: StateMachine>(
    params: &P,
    choice: Choice,
    quota: &Quota,
    first: u64,
) -> u64 {
    let told_apart = units_told_apart(params, reach(params, choice, quota));
    let units = match choice {
        Choice::Bucket(_) | Choice::Queue(_) | Choice::Window(_) | Choice::WarmUp(_) => None,
        // 52 bits of time, of which half are before and half are after a life's beginning.
        Choice::Log(_) => Some(told_apart.unwrap_or(u128::MAX).min((1 << 51) - 2)),
        Choice::SubWindows(_) | Choice::Counter(_) => told_apart,
    };
    units.map_or(u64::MAX, |units| first.saturating_add(nanos_in(params, units)))
}

/// Until when waits from `now` can be tried: while the word is told apart, and the time of windows
/// of the wall clock, which ends less than a period before ours (of sub-windows: two), goes on. (A log's ring with
/// nothing in it began at the origin, and an event half of its time later seems to be before it.)
pub(crate) fn waits_end<P: StateMachine>(
    params: &P,
    choice: Choice,
    quota: &Quota,
    now: u64,
) -> u64 {
    let latest = match choice {
        Choice::Bucket(_) | Choice::Queue(_) | Choice::WarmUp(_) => u64::MAX,
        Choice::Log(_) => ring_horizon(params, choice, quota, 0),
        Choice::SubWindows(_) | Choice::Counter(_) => u64::MAX - 2 * nanos(quota.period()),
        _ => u64::MAX - nanos(quota.period()),
    };
    latest.min(horizon(params, now).1)
}
