//! Policies over limiters: several at once, penalties, shadows, and quotas that change while in
//! use.

pub(crate) mod composite;
pub(crate) mod dynamic;
pub(crate) mod penalty;
pub mod shadow;
