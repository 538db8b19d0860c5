//! The only file that knows about loom. All other files take their atomics from here.
//!
//! The models in `loom-tests/` include this file and those that they explore. There, under
//! `--cfg tollgate_loom`, these are the atomics of `tollgate`: each access is a point at which threads
//! are interleaved.

#[cfg(not(tollgate_loom))]
pub(crate) use core::sync::atomic::{AtomicU64, Ordering};
#[cfg(tollgate_loom)]
pub(crate) use tollgate::internals::model_words::{AtomicU64, Ordering};

/// A counter that is part of no protocol, so loom need not explore it.
#[derive(Debug, Default)]
pub(crate) struct RelaxedCounter(core::sync::atomic::AtomicU64);

impl RelaxedCounter {
    pub(crate) const fn new() -> Self {
        Self(core::sync::atomic::AtomicU64::new(0))
    }

    /// Returns the value before the addition.
    pub(crate) fn add(&self, more: u64) -> u64 {
        self.0.fetch_add(more, core::sync::atomic::Ordering::Relaxed)
    }

    pub(crate) fn subtract(&self, less: u64) {
        self.0.fetch_sub(less, core::sync::atomic::Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> u64 {
        self.0.load(core::sync::atomic::Ordering::Relaxed)
    }

    /// Replaces `old` by `new`. Returns whether the value was `old`.
    pub(crate) fn exchange(&self, old: u64, new: u64) -> bool {
        let relaxed = core::sync::atomic::Ordering::Relaxed;
        self.0.compare_exchange(old, new, relaxed, relaxed).is_ok()
    }

    pub(crate) fn set(&self, count: u64) {
        self.0.store(count, core::sync::atomic::Ordering::Relaxed);
    }
}

/// A mistake that the models must catch. Mistakes exist in model builds only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(tollgate_loom), allow(unreachable_pub, reason = "the models use it"))]
pub enum PlantedFault {
    /// Cells are spent by a load and a store instead of a compare-and-swap.
    SpentByStore,
    /// Cells are spent without a check of their expiry.
    EndUnchecked,
    /// A call begins without a check whether another call has begun meanwhile.
    CallByStore,
    /// Cells are deposited by a load and a store instead of a compare-and-swap.
    DepositedByStore,
    /// A call ends by a load and a store instead of a compare-and-swap.
    FinishedByStore,
    /// In-flight cells are removed before they are counted in `used`.
    AcknowledgedFirst,
    /// Counts are retired without a mark, so threads that still hold them continue to use them.
    RetiredUnmarked,
    /// In-flight cells are added to a count that includes them.
    InFlightCountedTwice,
    /// A request is denied without a check whether the pending cells have changed meanwhile.
    DenialUnchecked,
}

/// Whether a model has planted this mistake.
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

    /// Plants a mistake for the rest of this test.
    pub fn plant(fault: PlantedFault) {
        PLANTED.set(Some(fault));
    }
}

#[cfg(tollgate_loom)]
pub use model::plant;
#[cfg(tollgate_loom)]
pub(crate) use model::planted;
