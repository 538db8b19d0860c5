use core::ops::Deref;

/// A machine for a decision at one instant: it follows no wall clock.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Still<'a, M> {
    /// It is always the same.
    AsBuilt(&'a M),
    /// As it is at the instant.
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
