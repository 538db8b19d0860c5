//! [`Still`]: a machine for a decision at one instant.

use core::ops::Deref;

/// A machine for a decision at one instant: see [`StateMachine::still`](super::StateMachine::still).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Still<'a, M> {
    /// The machine as it was built, which decides by the same parameters at every instant.
    AsBuilt(&'a M),
    /// A copy that has the windows of the instant.
    At(M),
}

impl<M> Deref for Still<'_, M> {
    type Target = M;

    #[inline(always)]
    fn deref(&self) -> &M {
        match self {
            Self::AsBuilt(machine) => machine,
            Self::At(machine) => machine,
        }
    }
}
