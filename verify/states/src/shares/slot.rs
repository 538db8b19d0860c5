//! A node, what servers know of it, and its bucket.

/// A node, or room for one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Slot {
    pub(crate) node: Option<Node>,
    /// By the server; by its replica, or its disk; by the server that was deposed.
    pub(crate) listed: Option<Ages>,
    pub(crate) copied: Option<Ages>,
    pub(crate) at_deposed: Option<Ages>,
    /// A beat of a node that died may arrive yet.
    pub(crate) stray: bool,
    /// By how much sooner than it should it may have its first part.
    pub(crate) early: u8,
}

/// How long ago by the server's clock. Less than nothing, after that was set back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Ages {
    pub(crate) came: i8,
    pub(crate) heard: i8,
}

impl Ages {
    pub(crate) fn go_on(&mut self, by: i8, max: Self) {
        self.came = (self.came + by).min(max.came);
        self.heard = (self.heard + by).min(max.heard);
    }
}

/// A process, and the bucket that it grants from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Node {
    /// Nodes that the quota was divided by when it had a part last; 0: it never had one.
    pub(crate) live: u8,
    /// For how much longer it may use that. Less than nothing: so long ago it ended.
    pub(crate) left: i8,
    /// What the bucket lacks.
    pub(crate) owed: u8,
    /// An answer that gives a part, on its way.
    pub(crate) reply: Option<Reply>,
    /// It beats at the server that was deposed.
    pub(crate) asks_deposed: bool,
    /// That one gave it its part.
    pub(crate) is_of_deposed: bool,
}

/// The answer to a beat that was sent so long ago by the node's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Reply {
    pub(crate) ago: i8,
    pub(crate) live: u8,
    pub(crate) of_deposed: bool,
}

/// What a bucket lacks after its size changed, by `Inherit::AsIs`: what is there stays, unless there is
/// no room for it; and one that lacks nothing is the same as none, and so full.
#[must_use]
pub fn lacks(owed: u8, old: u8, new: u8) -> u8 {
    if owed == 0 { 0 } else { (owed + new).saturating_sub(old) }
}
