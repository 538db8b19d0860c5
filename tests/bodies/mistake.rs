//! Mistakes planted between a body and the code under test. A body that does not find each of them
//! tests nothing.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// An admitted charge is not written.
    ChargeLost,
    /// The wait of a denial is a nanosecond too short.
    WaitTooShort,
    /// The upper bits of a cost are lost.
    CostCut,
    /// A reset has no effect.
    ResetLeftOut,
    /// The refund of a reservation is made twice.
    RefundedTwice,
    /// A restored limiter lacks a key.
    RowLost,
    /// A key is decided by an earlier quota.
    ChangeMissed,
}

include!("planted.rs");
