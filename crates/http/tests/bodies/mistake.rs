//! Mistakes planted between a body and what it judges: each has to be found, or the body judges
//! nothing. Each is of a kind that only one of the body's checks can find.

use std::cell::Cell;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// A list is read as if everybody in it were trusted.
    AllTrusted,
    /// The header is read though nobody who is trusted has sent it.
    StrangerBelieved,
    /// What the outermost proxy appended is not sent.
    EntryLost,
    /// The key is an address, where it should be its network.
    PrefixLeftOut,
    /// Who is connected is not known.
    PeerLost,
    /// A limit is not told.
    ReadingLost,
    /// A limit is told that is greater by one.
    LimitOff,
    /// A cell less is told than is left.
    RemainingOff,
    /// A time is told that is a second too long.
    ResetOff,
    /// `Retry-After` is a second too short.
    PatienceOff,
    /// A field lacks its first quote.
    QuoteLost,
}

thread_local! {
    static PLANTED: Cell<Option<Mistake>> = const { Cell::new(None) };
}

pub(crate) fn planted(mistake: Mistake) -> bool {
    PLANTED.get() == Some(mistake)
}

/// For this thread, until another is planted, or none.
pub(crate) fn plant(mistake: Option<Mistake>) {
    PLANTED.set(mistake);
}
