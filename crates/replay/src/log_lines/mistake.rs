//! Mistakes planted between the reader and the checks, to show that the checks find mistakes. Each kind
//! of mistake is visible to one check only.

use std::cell::Cell;

use crate::log::format::Format;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mistake {
    /// The last line of a log is lost.
    LineLost,
    /// The last line of a packed log is lost.
    PackedLineLost,
    /// A line printed in the format reads back with another path.
    Misread(Format),
    /// A Unix time reads back one nanosecond later.
    UnixOff,
}

thread_local! {
    static PLANTED: Cell<Option<Mistake>> = const { Cell::new(None) };
}

pub(super) fn planted(mistake: Mistake) -> bool {
    PLANTED.get() == Some(mistake)
}

/// Plants a mistake for this thread, or removes it.
#[cfg(test)]
pub(super) fn plant(mistake: Option<Mistake>) {
    PLANTED.set(mistake);
}
