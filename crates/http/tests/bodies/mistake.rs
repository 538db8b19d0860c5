//! Mistakes planted between a body and the crate. If a body did not find each, it would check nothing.
//! Only one check of the body can find each of them.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// Every node of a list is trusted.
    AllTrusted,
    /// The header of an untrusted peer is read.
    StrangerBelieved,
    /// The entry of the outermost proxy is missing.
    EntryLost,
    /// The key is the address instead of its prefix.
    PrefixLeftOut,
    /// The address of the peer is missing.
    PeerLost,
    /// An element that should be empty has an entry.
    EmptyCounted,
    /// A limit is missing in the report.
    ReadingLost,
    /// A limit is greater by one.
    LimitOff,
    /// The remaining cells are fewer by one.
    RemainingOff,
    /// A time is a second too long.
    ResetOff,
    /// `Retry-After` is a second too short.
    PatienceOff,
    /// A field lacks its first quote.
    QuoteLost,
}

include!("../../../../tests/bodies/planted.rs");
