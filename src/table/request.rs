//! A request to a table, and its answers other than a decision.

use super::Probe;
use crate::cell::{ChargeReceipt, Request};
use crate::decision::{Denied, Permit};

/// A request, the key that it is for, and the machine that decides it.
#[derive(Debug)]
pub(crate) struct KeyRequest<'a, M> {
    pub(crate) probe: Probe,
    pub(crate) machine: &'a M,
    pub(crate) request: Request,
}

impl<M> Clone for KeyRequest<'_, M> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for KeyRequest<'_, M> {}

/// All candidate slots of a key hold live keys, and none may be evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full {
    /// The state that is nearest to idle.
    pub(crate) nearest_idle: u64,
}

/// The result of a charge that can be refunded.
#[derive(Debug)]
pub(crate) enum Charged {
    Admitted(ChargeReceipt),
    Denied(Denied),
    Full(Full),
}

/// The result of a first try.
pub(crate) enum Attempt {
    Admitted(Permit),
    /// Another thread has charged the key in between.
    Raced,
    /// Denied, or the key has no slot.
    Undecided,
}
