//! A node, its bucket, and its entries in the lists of servers.

/// A node, or room for one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Slot {
    pub(crate) node: Option<Node>,
    /// By the server; by its replica, or its disk; by the server that was deposed.
    pub(crate) listed: Option<Ages>,
    pub(crate) copied: Option<Ages>,
    pub(crate) at_deposed: Option<Ages>,
    /// A heartbeat of a dead node may still arrive.
    pub(crate) stray: bool,
    /// How much earlier than it should the node may have its first part.
    pub(crate) early: u8,
}

/// How long ago by the server's clock. Negative after that clock was set back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Ages {
    pub(crate) came: i8,
    pub(crate) heard: i8,
}

impl Ages {
    pub(crate) fn advance_clock(&mut self, by: i8, max: Self) {
        self.came = (self.came + by).min(max.came);
        self.heard = (self.heard + by).min(max.heard);
    }
}

/// A process, and the bucket that it grants from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Node {
    /// The number of nodes that its last part was divided by. 0: it never had a part.
    pub(crate) live: u8,
    /// How much longer it may use that part. Negative: how long ago the part ended.
    pub(crate) left: i8,
    /// The cells that the bucket lacks.
    pub(crate) owed: u8,
    /// An answer in flight that gives a part.
    pub(crate) reply: Option<Reply>,
    /// It sends heartbeats to the server that was deposed.
    pub(crate) asks_deposed: bool,
    /// The deposed server gave it its part.
    pub(crate) is_of_deposed: bool,
}

/// The answer to a heartbeat that was sent this long ago by the node's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Reply {
    pub(crate) ago: i8,
    pub(crate) live: u8,
    pub(crate) of_deposed: bool,
}

/// The cells that a bucket lacks after its size changed by `Inherit::AsIs`: its cells stay, as far as they
/// fit. A bucket that lacks nothing equals an absent one, and so is full.
#[must_use]
pub fn lacks(owed: u8, old: u8, new: u8) -> u8 {
    if owed == 0 { 0 } else { (owed + new).saturating_sub(old) }
}
