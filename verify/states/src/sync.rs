//! Plain atomics, and the faults that can be planted in the included files.

use core::cell::Cell;

pub(crate) use core::sync::atomic::{AtomicU64, Ordering};

/// The crate's planted faults. A model of one step at a time cannot tell the others from correct code.
#[allow(dead_code, reason = "the same as in the crate")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlantedFault {
    SpentByStore,
    EndUnchecked,
    CallByStore,
    DepositedByStore,
    FinishedByStore,
    AcknowledgedFirst,
    RetiredUnmarked,
    InFlightCountedTwice,
    DenialUnchecked,
}

std::thread_local! {
    static PLANTED: Cell<Option<PlantedFault>> = const { Cell::new(None) };
}

pub(crate) fn planted(fault: PlantedFault) -> bool {
    PLANTED.get() == Some(fault)
}

/// Plants a fault on this thread, until the next call.
pub(crate) fn plant(fault: Option<PlantedFault>) {
    PLANTED.set(fault);
}
