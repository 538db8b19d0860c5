//! Mistakes planted between the reader and the checks, to show that the checks find mistakes. Each kind
//! of mistake is visible to one check only.

use crate::log::format::Format;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// The last line of a log is lost.
    LineLost,
    /// The last line of a packed log is lost.
    PackedLineLost,
    /// A line printed in the format reads back with another path.
    Misread(Format),
    /// A Unix time reads back one nanosecond later.
    UnixOff,
}

include!("../../../../tests/bodies/planted.rs");
