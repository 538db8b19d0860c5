//! Charges that are more than a check: those that may be refunded, cells taken ahead, and debts.

pub(crate) mod ask_lease;
pub(crate) mod chargeable;
mod debt;
pub(crate) mod lease;
pub(crate) mod lender;
mod locate;
pub(crate) mod refund;
pub(crate) mod reservation;
#[cfg(all(test, not(tollgate_loom)))]
mod tests;
