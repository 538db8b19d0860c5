//! Windows follow the wall clock: a published mapping from a limiter's clock to the wall clock, read anew
//! at each edge.
//!
//! # Protocol
//!
//! The [mapping](WallEdges) is in a [`VersionedCell`] (a seqlock with copies). A decision reads one version,
//! and places its instant by that version alone. Most instants lie before the version's next edge. The
//! thread whose instant does not reads the wall clock, and replaces the mapping by the next one.
//!
//! - A thread publishes only if its own reading of the clock has passed the edge of the version that it
//!   replaces. So of two threads that meet at an edge, the second takes the mapping of the first.
//! - A thread that finds another in the middle of a replacement works out the next mapping itself, from the
//!   version that it has read, and uses it for this decision only. No thread waits for another.
//! - A caller's instant may lie ahead of the limiter's clock. It is placed by the wall clock of now, in the
//!   same way, and nothing is published for it: the edges in between are still to come.
//!
//! In a block that several processes map, a thread replaces the mapping only while it holds the block's lock,
//! for which it does not wait. So it can take over from a process that was killed in the middle of a
//! replacement.
//!
//! A window that is held because the wall clock was set back needs no state of its own. The next mapping is
//! a function of the one before, which says which window was in force.
//!
//! # Guarded by
//!
//! `loom-tests/tests/wall_clock.rs`, run by `ci/check.sh loom`, with models of a torn mapping, and of a
//! mapping that forgets the window in force.

mod edges;
#[cfg(all(test, not(any(tollgate_loom, tollgate_shuttle))))]
mod tests;

use std::sync::Arc;

pub(crate) use edges::WallPosition;
use edges::{WORDS, WallEdges};

#[cfg(feature = "shared-memory")]
use crate::sync::InBlock;
use crate::sync::{Fault, SharedValue, VersionedCell, planted};
use crate::time::{Clock, Tick};

const SECOND: i128 = 1_000_000_000;

/// A reading of both clocks that takes longer is repeated, up to [`ATTEMPTS`] readings in all.
const READING_NANOS_MAX: u64 = 1_000;
const ATTEMPTS: usize = 3;

/// The wall clock as one limiter's windows follow it. Clones share it.
#[derive(Clone, Debug)]
#[allow(unreachable_pub, reason = "in a trait that is public and hidden")]
pub struct WallClock(Arc<Followed>);

#[derive(Debug)]
struct Followed {
    words: Words,
    period: u64,
    /// Wall time less Unix time, by the first offset.
    base: i128,
    first_offset_secs: i32,
}

/// The words that threads replace.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct WallWords {
    edges: VersionedCell<WORDS>,
    /// The offset in force from the next edge on, in two's complement.
    offset_secs: SharedValue,
}

#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "there is one of them, on the heap")]
enum Words {
    Own(WallWords),
    #[cfg(feature = "shared-memory")]
    Block(Box<dyn InBlock<WallWords>>),
}

impl core::ops::Deref for Words {
    type Target = WallWords;

    #[inline(always)]
    fn deref(&self) -> &WallWords {
        match self {
            Self::Own(words) => words,
            #[cfg(feature = "shared-memory")]
            Self::Block(words) => words.get(),
        }
    }
}

impl Words {
    /// Replaces the mapping by `next` of it, unless that is `None` or another thread is replacing it.
    fn replace(&self, mut next: impl FnMut(WallEdges) -> Option<WallEdges>) {
        let mut next = |words: &[u64; WORDS]| {
            next(WallEdges::from_words(*words)).map(WallEdges::to_words).ok_or(())
        };
        // A thread that finds another one at work publishes nothing.
        match self {
            Self::Own(words) => drop(words.edges.replace(&mut next)),
            #[cfg(feature = "shared-memory")]
            Self::Block(words) => {
                if let Some(_alone) = words.try_lock() {
                    let _ = words.get().edges.replace_after_death(&mut next);
                }
            }
        }
    }
}

impl WallClock {
    /// Windows of `period` nanoseconds, above 0, by this offset from UTC. `ahead` is the wall time at the
    /// clock's origin, which has this Unix time.
    pub(crate) fn new(period: u64, ahead: i64, unix_origin_nanos: u64, offset_secs: i32) -> Self {
        let base = i128::from(ahead) - i128::from(unix_origin_nanos);
        let edges = VersionedCell::new(&WallEdges::unread(ahead).to_words());
        let words = Words::Own(WallWords { edges, offset_secs: SharedValue::new(0) });
        let wall = Self(Arc::new(Followed { words, period, base, first_offset_secs: offset_secs }));
        wall.set_offset_secs(offset_secs);
        wall
    }

    /// The words of a wall clock that was not read yet.
    #[cfg(feature = "shared-memory")]
    pub(crate) fn unread_words(&self) -> WallWords {
        let ahead = WallEdges::from_words(self.0.words.edges.read()).ahead();
        let edges = VersionedCell::new(&WallEdges::unread(ahead).to_words());
        let offset_secs = SharedValue::new(self.0.words.offset_secs.read());
        WallWords { edges, offset_secs }
    }

    /// The same wall clock with words in a block.
    #[cfg(feature = "shared-memory")]
    pub(crate) fn move_to(&mut self, words: Box<dyn InBlock<WallWords>>) {
        let Followed { period, base, first_offset_secs, .. } = *self.0;
        let words = Words::Block(words);
        self.0 = Arc::new(Followed { words, period, base, first_offset_secs });
    }

    /// Whether this is a clone of the other.
    #[inline]
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Changes the offset from UTC, from the next edge on.
    pub(crate) fn set_offset_secs(&self, offset_secs: i32) {
        self.0.words.offset_secs.set(i64::from(offset_secs).cast_unsigned());
    }

    /// Whole periods that are added to wall time: the clock's origin counts as so much earlier.
    pub(crate) fn shift_nanos(&self) -> u64 {
        WallEdges::from_words(self.0.words.edges.read()).shift()
    }

    /// Where `now` lies; if it has passed an edge, by the clock's present wall time.
    #[inline(always)]
    pub(crate) fn place(&self, now: Tick, clock: &impl Clock) -> WallPosition {
        let edges = WallEdges::from_words(self.0.words.edges.read());
        if now.as_nanos() < edges.until() {
            return edges.place(now.as_nanos(), self.0.period);
        }
        self.0.follow(edges, now.as_nanos(), clock)
    }
}

impl Followed {
    /// Reads the wall clock, publishes the next mapping if it is time, and places `now`.
    #[cold]
    #[inline(never)]
    fn follow(&self, seen: WallEdges, now: u64, clock: &impl Clock) -> WallPosition {
        let (here, ahead) = self.read(clock);
        let next = |edges: WallEdges, now| {
            edges.next(now, ahead, self.period, !planted(Fault::WindowNotHeld))
        };
        let mut edges = seen;
        self.words.replace(|current| {
            edges = current;
            if here < edges.until() {
                return None;
            }
            edges = next(edges, here);
            Some(edges)
        });
        if now >= edges.until() {
            edges = next(edges, now);
        }
        edges.place(now, self.period)
    }

    /// Reads both clocks: an instant of the limiter's clock, and how far wall time is ahead of it.
    fn read(&self, clock: &impl Clock) -> (u64, i128) {
        let attempt = || {
            let before = clock.now().as_nanos();
            let unix = clock.unix_now_nanos();
            let after = clock.now().as_nanos().max(before);
            (after - before, before, unix)
        };
        let mut best = attempt();
        for _ in 1..ATTEMPTS {
            if best.0 <= READING_NANOS_MAX {
                break;
            }
            best = best.min(attempt());
        }
        let (took, before, unix) = best;
        let ahead = i128::from(unix) - i128::from(before + took / 2) + self.base + self.moved();
        (before, ahead)
    }

    /// By how much the offset moves the windows: whole periods move nothing.
    fn moved(&self) -> i128 {
        let offset_secs = i128::from(self.words.offset_secs.read().cast_signed());
        (offset_secs - i128::from(self.first_offset_secs)) * SECOND % i128::from(self.period)
    }
}

/// Two are equal if their windows have the same period and first offset. The wall clock's readings do not count.
impl PartialEq for WallClock {
    fn eq(&self, other: &Self) -> bool {
        self.0.period == other.0.period && self.0.first_offset_secs == other.0.first_offset_secs
    }
}

impl Eq for WallClock {}
