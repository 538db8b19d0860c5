//! Mistakes planted between a body and what it judges: each has to be found, or the body judges
//! nothing.

use std::cell::Cell;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// What was admitted is not written.
    ChargeLost,
    /// A denied request may come back a nanosecond too early.
    WaitTooShort,
    /// The upper bits of a cost are lost.
    CostCut,
    /// A key that was reset is as before.
    ResetLeftOut,
    /// What a reservation gives back is given twice.
    GivenBackTwice,
    /// A restored limiter lacks a key.
    RowLost,
    /// A key is decided about by a quota of before.
    ChangeMissed,
}

thread_local! {
    static PLANTED: Cell<Option<Mistake>> = const { Cell::new(None) };
}

pub(crate) fn planted(mistake: Mistake) -> bool {
    PLANTED.get() == Some(mistake)
}

/// For this thread, until another is planted, or none.
pub(crate) fn plant(mistake: Option<Mistake>) {
    PLANTED.set(mistake);
}
