//! Policies over limiters: several at once, penalties, shadows, and quotas that differ by key or
//! change while in use.

pub(crate) mod composite;
pub(crate) mod dynamic;
pub(crate) mod penalty;
pub(crate) mod plan;
pub mod shadow;
