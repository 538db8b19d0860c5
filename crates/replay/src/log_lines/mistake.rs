//! Mistakes planted between the reading of logs and what judges it: each has to be found, or the body
//! judges nothing. Each is of a kind that only one of the body's checks can find.

use std::cell::Cell;

use crate::log::format::Format;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mistake {
    /// The last line of a log is lost.
    LineLost,
    /// The last line of a packed log is lost.
    PackedLineLost,
    /// A line printed in the format is read as if its request had been for another path.
    Misread(Format),
    /// A Unix time is read as a nanosecond later.
    UnixOff,
}

thread_local! {
    static PLANTED: Cell<Option<Mistake>> = const { Cell::new(None) };
}

pub(super) fn planted(mistake: Mistake) -> bool {
    PLANTED.get() == Some(mistake)
}

/// For this thread, until another is planted, or none.
#[cfg(test)]
pub(super) fn plant(mistake: Option<Mistake>) {
    PLANTED.set(mistake);
}
