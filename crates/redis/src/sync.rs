//! The only file that knows about loom: atomics come from here.
//!
//! Under `--cfg tollgate_loom` they are those of `tollgate`, whose every access is a point where
//! the models in `loom-tests/` interleave.

#[cfg(not(tollgate_loom))]
pub(crate) use core::sync::atomic::{AtomicU64, Ordering};
#[cfg(tollgate_loom)]
pub(crate) use tollgate::internals::model_words::{AtomicU64, Ordering};

/// A count that is no part of any protocol, so that loom need not explore it.
#[derive(Debug, Default)]
pub(crate) struct RelaxedCounter(core::sync::atomic::AtomicU64);

impl RelaxedCounter {
    pub(crate) const fn new() -> Self {
        Self(core::sync::atomic::AtomicU64::new(0))
    }

    /// The count before.
    pub(crate) fn add(&self, more: u64) -> u64 {
        self.0.fetch_add(more, core::sync::atomic::Ordering::Relaxed)
    }

    pub(crate) fn subtract(&self, less: u64) {
        self.0.fetch_sub(less, core::sync::atomic::Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> u64 {
        self.0.load(core::sync::atomic::Ordering::Relaxed)
    }

    /// Whether it was that count, and is now the new one.
    pub(crate) fn exchange(&self, old: u64, new: u64) -> bool {
        let relaxed = core::sync::atomic::Ordering::Relaxed;
        self.0.compare_exchange(old, new, relaxed, relaxed).is_ok()
    }

    pub(crate) fn put(&self, count: u64) {
        self.0.store(count, core::sync::atomic::Ordering::Relaxed);
    }
}

/// A mistake that the models must catch. None exists outside of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(tollgate_loom), allow(unreachable_pub, reason = "public to the models"))]
pub enum PlantedFault {
    /// Cells are spent by a store after a load.
    SpentByStore,
    /// Cells are spent however old they are.
    EndUnchecked,
    /// A call begins without a look at whether another has begun by then.
    CallByStore,
    /// Cells are put in by a store after a load.
    DepositedByStore,
    /// A call ends by a store after a load.
    FinishedByStore,
    /// What was on its way is taken off before it is in what is used.
    LandedFirst,
    /// Who has a tab in hand is not told that it is given up.
    GivenUpUnmarked,
}

/// Whether a model has planted this fault.
#[cfg(not(tollgate_loom))]
#[inline]
pub(crate) const fn planted(_: PlantedFault) -> bool {
    false
}

#[cfg(tollgate_loom)]
mod model {
    use super::PlantedFault;
    use std::cell::Cell;

    std::thread_local! {
        static PLANTED: Cell<Option<PlantedFault>> = const { Cell::new(None) };
    }

    pub(crate) fn planted(fault: PlantedFault) -> bool {
        PLANTED.get() == Some(fault)
    }

    /// Plants a fault for the rest of this test.
    pub fn plant_in_front(fault: PlantedFault) {
        PLANTED.set(Some(fault));
    }
}

#[cfg(tollgate_loom)]
pub use model::plant_in_front;
#[cfg(tollgate_loom)]
pub(crate) use model::planted;
