//! Plain atomics, and the mistakes that the included files can be made to have.

use core::cell::Cell;

pub(crate) use core::sync::atomic::{AtomicU64, Ordering};

/// As in the crate. A model of one step after the other cannot tell the others from what is right.
#[allow(dead_code, reason = "as in the crate")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlantedFault {
    SpentByStore,
    EndUnchecked,
    CallByStore,
    DepositedByStore,
    FinishedByStore,
    LandedFirst,
    GivenUpUnmarked,
}

std::thread_local! {
    static PLANTED: Cell<Option<PlantedFault>> = const { Cell::new(None) };
}

pub(crate) fn planted(fault: PlantedFault) -> bool {
    PLANTED.get() == Some(fault)
}

/// Plants it, on this thread, until the next call.
pub(crate) fn plant(fault: Option<PlantedFault>) {
    PLANTED.set(fault);
}
