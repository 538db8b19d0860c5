//! What a grid promises, worked out from its public face.

use std::time::Duration;

use tollgate::Quota;
use tollgate::algo::Machine;

use super::choice::Choice;

pub(crate) fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// Units that the algorithm may write ahead of its clock: a bucket's burst, or a window.
pub(crate) fn reach<P: Machine>(params: &P, choice: Choice, quota: &Quota) -> u64 {
    match choice {
        Choice::Bucket(_) | Choice::Queue(_) => units_in_cell(params, quota) * quota.burst_cells(),
        Choice::Window(_) => units_in_window(params, quota),
        Choice::WarmUp(pace) => {
            let parts = 2 * (5 + u64::from(pace.cold_factor));
            let spans = units_within(params, pace.period * 2 + pace.max_wait) + 2;
            units_in_cell(params, quota) * quota.burst_cells() + spans + parts
        }
    }
}

/// Units of a bucket's grid in a cell.
pub(crate) fn units_in_cell<P: Machine>(params: &P, quota: &Quota) -> u64 {
    whole_units(params, quota, u128::from(quota.limit()))
}

/// Units of a window's grid in a window.
pub(crate) fn units_in_window<P: Machine>(params: &P, quota: &Quota) -> u64 {
    whole_units(params, quota, 1)
}

fn units_within<P: Machine>(params: &P, span: Duration) -> u64 {
    let (units, per_nanos) = params.grid().ratio();
    let within = span.as_nanos() * u128::from(units) / u128::from(per_nanos);
    u64::try_from(within).expect("what fits a word")
}

/// Units in a period divided by `divisor`, which is exact: that is what the grids are for.
fn whole_units<P: Machine>(params: &P, quota: &Quota, divisor: u128) -> u64 {
    let (units, per_nanos) = params.grid().ratio();
    let in_period = u128::from(units) * quota.period().as_nanos();
    let divisor = u128::from(per_nanos) * divisor;
    assert_eq!(in_period % divisor, 0, "a cell, or a window, is a whole number of units");
    u64::try_from(in_period / divisor).expect("what fits a word")
}

/// The least and the latest instant that a grid still tells apart from a state written at
/// `written`, as its documentation says. All instants, where the grid is endless.
pub(crate) fn horizon<P: Machine>(params: &P, reach: u64, written: u64) -> (u64, u64) {
    let Some(tolerance) = params.grid().skew_tolerance() else { return (0, u64::MAX) };
    let (units, per_nanos) = params.grid().ratio();
    let (units, per_nanos) = (u128::from(units), u128::from(per_nanos));
    let ring = u128::from(params.grid().ring().expect("a grid with a tolerance wraps"));
    let ahead_max = u128::from(reach) + (tolerance.as_nanos() + 1) * units / per_nanos;
    let idle_nanos = (ring - ahead_max - 2) * per_nanos / units;
    let idle_nanos = u64::try_from(idle_nanos).unwrap_or(u64::MAX);
    (written.saturating_sub(nanos(tolerance)), written.saturating_add(idle_nanos))
}
