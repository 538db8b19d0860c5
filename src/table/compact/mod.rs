//! The compact table: a key and its state in one word, eight of them to a cache line.
//!
//! # Layout
//!
//! ```text
//! bits 63..38 fingerprint of the key | bit 37 provisional | bits 36..0 state, or a nonce
//! ```
//!
//! Zero is vacant. Eight words are a bucket of one cache line, and a key has two buckets. No place
//! in a bucket is preferred: all eight are compared at once. Buckets, load and policies are those
//! of the [table of two words](super).
//!
//! # Protocol
//!
//! A charge is one compare-and-swap on the word. It names the key itself, so it fails once the
//! slot has changed hands; and if the key should have come back in between, to the very same
//! state, the charge is as right as it was. To claim a slot for a key (the cold path):
//!
//! 1. CAS the word of an idle key, or none's, to (fingerprint, provisional, nonce).
//! 2. Fence, and survey all candidates for the key. If it has a committed slot, every claim of it
//!    is given up (CAS to vacant). If it has several claims, all but the first in probing order
//!    are given up. After any such step, survey again.
//! 3. Commit: CAS the claim to (fingerprint, charged state), the state being fresh for the clock
//!    of whoever commits.
//!
//! Any thread that works for the key may do steps 2 and 3 for any claim of it, as long as it had
//! written the claim or read it *before* its fence. A claim first seen in the survey is surveyed
//! for again. No step waits for another thread.
//!
//! # Why a key never has two live slots
//!
//! Say two claims of a key are committed in different slots, by two threads. Each had written or
//! read its claim before its fence, and after it did not see the other's claim, or what became of
//! it. One fence comes first in the total order of sequentially consistent fences. The thread of
//! the later fence then sees the claim that the other had written or read before, or something
//! newer in that slot. If it sees the claim, it gives one of the two up, by a CAS on the very word
//! that its commit names: only one of them can succeed. If it sees the committed state, it gives
//! its own claim up. And if it sees what came after that, the first of the two slots is no longer
//! live.
//!
//! Where a claim is just seen in the survey, the reader may have passed a slot that another
//! thread claims and commits, without having seen that claim either: `loom-tests/` has a model
//! that fails so, beside those without the survey, the fence and the nonce.
//!
//! # Claims of others
//!
//! Another key's claim holds nothing that could be lost, so it may be displaced: its thread finds
//! that its commit fails, and claims again. It is done where nothing is vacant or idle, and once
//! in a request, so that two threads cannot displace each other for ever; who may not do it again
//! has found no place.
//!
//! # Recurrence
//!
//! Vacant words, and those of idle keys, recur, and it does no harm: what makes them free to take
//! is all there in the word. (An idle word seen long ago, when the time field has come round, is
//! beyond the clock skew that a limiter allows.) A claim must not recur: a thread that has
//! surveyed for one and then sleeps would commit a later claim of the key in the same slot,
//! although the key has another slot by then. So each claim has a nonce: a count, striped over
//! the threads, that comes round after 2^34 claims by the threads of one stripe. For a wrong
//! commit all of those would have to fall between one thread's survey and its commit, and the
//! claim with the same number be of the same key and in the same slot.

mod claim;
mod snapshot;

use core::time::Duration;

use super::claim::Outcome;
use super::layout::BUCKET;
use super::memory::{Lines, prefetch};
use super::{Counters, HugePages, OutOfMemory, Probe, scaled_up};
use crate::algo::{NoRing, Refund, Standing, StateMachine};
use crate::cell::{Charge, Fingerprint, Paid, Word, WordCell};
use crate::decision::{Decision, Denied, OutOfLine, Permit};
use crate::time::Tick;
use claim::Request;

type Bucket = [WordCell; BUCKET];

/// The keyed table of one word a slot. See the [module](self).
pub(crate) struct Compact {
    lines: Lines,
    buckets: u32,
    /// How much older than its judge's another thread's clock may be.
    skew: Duration,
    counters: Counters,
}

/// A slot, and its word as it was when it was found.
#[derive(Clone, Copy)]
pub(crate) struct SlotRef<'a> {
    cell: &'a WordCell,
    word: Word,
}

impl SlotRef<'_> {
    fn is(&self, other: &Self) -> bool {
        core::ptr::eq(self.cell, other.cell) && self.word == other.word
    }

    /// Admits `n` cells if a first try does; `None` leaves all else to be decided anew.
    #[inline(always)]
    pub(super) fn admit<A: StateMachine>(&self, algo: &A, now: Tick, n: u64) -> Option<Permit> {
        self.cell.admit(self.word, algo, now, n)
    }
}

impl Compact {
    pub(crate) fn new(
        buckets: u32,
        skew: Duration,
        huge_pages: HugePages,
    ) -> Result<Self, OutOfMemory> {
        let lines = Lines::zeroed(buckets, huge_pages)?;
        Ok(Self { lines, buckets, skew, counters: Counters::default() })
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.buckets as usize * size_of::<Bucket>()
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    pub(crate) fn skew(&self) -> Duration {
        self.skew
    }

    /// Asks for the cache line that [`find_at_once`](Self::find_at_once) looks at.
    #[inline(always)]
    pub(crate) fn prefetch(&self, probe: Probe) {
        prefetch(self.lines.bucket(probe.first()));
    }

    /// The key's committed slot, if it is in its first bucket.
    #[inline(always)]
    pub(crate) fn find_at_once(&self, probe: Probe) -> Option<SlotRef<'_>> {
        find_in(self.lines.bucket(probe.first()), Fingerprint::of(probe.hash()))
    }

    /// The key's committed slot, if it is in its second bucket.
    fn find_in_second(&self, probe: Probe) -> Option<SlotRef<'_>> {
        // A model has one bucket.
        if probe.second() == probe.first() {
            return None;
        }
        find_in(self.lines.bucket(probe.second()), Fingerprint::of(probe.hash()))
    }

    fn find(&self, probe: Probe) -> Option<SlotRef<'_>> {
        self.find_at_once(probe).or_else(|| self.find_in_second(probe))
    }

    /// Decides about `n` cells of a key, whose seat was looked for at once. `Err` holds the state
    /// nearest to idle, if the key finds no place.
    #[inline(always)]
    pub(crate) fn decide<A: StateMachine>(
        &self,
        probe: Probe,
        seat: Option<SlotRef<'_>>,
        algo: &A,
        now: Tick,
        n: u64,
        evict: bool,
    ) -> Result<Decision, u64> {
        // Known when compiled: the others' code for a compact table is this line.
        assert!(A::MAY_BE_COMPACT, "built for an algorithm of one narrow word");
        if let Some(SlotRef { cell, word }) = seat
            && let Some(decision) = cell.decide(word, algo, now, n)
        {
            return Ok(decision);
        }
        let OutOfLine(outcome) = self.decide_elsewhere(&Request { probe, algo, now, n, evict });
        match outcome {
            Outcome::Decided(ruling) => Ok(ruling.explain(algo, now, n)),
            Outcome::Full { nearest } => Err(nearest),
        }
    }

    /// The key is not in its first bucket.
    #[inline(never)]
    fn decide_elsewhere<A: StateMachine>(
        &self,
        request: &Request<'_, A>,
    ) -> OutOfLine<Outcome<A::View>> {
        let &Request { probe, algo, now, n, .. } = request;
        if let Some(SlotRef { cell, word }) = self.find_in_second(probe)
            && let Charge::Decided(ruling) = cell.charge(word, algo, now, n)
        {
            return OutOfLine(Outcome::Decided(ruling));
        }
        OutOfLine(self.decide_cold(request))
    }

    /// Charges `n` cells of a key in such a way that they may be given back. `Err` holds the state
    /// nearest to idle, if the key finds no place.
    pub(crate) fn charge<A: Refund>(
        &self,
        probe: Probe,
        algo: &A,
        now: Tick,
        n: u64,
        evict: bool,
    ) -> Result<Result<Paid, Denied>, u64> {
        let seat = self.find_at_once(probe);
        let charged = seat.map(|SlotRef { cell, word }| cell.charge(word, algo, now, n));
        let ruling = match charged {
            Some(Charge::Decided(ruling)) => ruling,
            _ => {
                let OutOfLine(outcome) =
                    self.decide_elsewhere(&Request { probe, algo, now, n, evict });
                match outcome {
                    Outcome::Decided(ruling) => ruling,
                    Outcome::Full { nearest } => return Err(nearest),
                }
            }
        };
        Ok(ruling.receipt(algo, now, n, 0, 0))
    }

    /// Replaces the state of a key, if it has one, by what `next` makes of it.
    pub(crate) fn revise(&self, probe: Probe, next: impl Fn(u64) -> u64) {
        if let Some(SlotRef { cell, word }) = self.find(probe) {
            cell.revise(word, next);
        }
    }

    /// What a decision about `n` cells would be judged by; `None` if the key has no state.
    pub(crate) fn peek<A: StateMachine>(
        &self,
        probe: Probe,
        algo: &A,
        now: Tick,
        n: u64,
    ) -> Option<A::View> {
        self.find(probe).map(|seat| algo.read(seat.word.state(), NoRing, now, n))
    }

    /// Gives up the key's slot, if it has one.
    pub(crate) fn forget(&self, probe: Probe) {
        while let Some(SlotRef { cell, word }) = self.find(probe) {
            if cell.swap(word, Word::VACANT).is_ok() {
                return;
            }
        }
    }

    /// How many keys have a live state, counted over `sample` buckets spread evenly and scaled.
    pub(crate) fn estimate_live<A: StateMachine>(&self, algo: &A, now: Tick, sample: u32) -> usize {
        let instant = algo.instant(now);
        let is_live = |cell: &&WordCell| {
            let word = cell.load();
            let standing = algo.standing(word.state(), instant);
            let nobodys = word.is_vacant() || word.is_provisional();
            !nobodys && matches!(standing, Standing::Live { .. })
        };
        let live_in = |bucket| self.lines.bucket(bucket).iter().filter(is_live).count();
        scaled_up(self.buckets, sample, live_in)
    }
}

/// The key's committed slot in a bucket.
///
/// Which of the eight it is cannot be predicted, so all but the last are compared without a
/// branch, and the last one is looked at if it is none of them.
#[inline(always)]
fn find_in(bucket: &Bucket, fingerprint: Fingerprint) -> Option<SlotRef<'_>> {
    // A load that decides nothing would only multiply a model's interleavings.
    if cfg!(tollgate_loom) {
        let seats = bucket.iter().map(|cell| SlotRef { cell, word: cell.load() });
        return seats.into_iter().find(|seat| seat.word.is_committed_of(fingerprint));
    }
    let mut bearers: usize = 1;
    for cell in bucket[..BUCKET - 1].iter().rev() {
        bearers = bearers * 2 + usize::from(cell.read_brief().is_committed_of(fingerprint));
    }
    let cell = &bucket[bearers.trailing_zeros() as usize % BUCKET];
    let word = cell.load();
    word.is_committed_of(fingerprint).then_some(SlotRef { cell, word })
}

impl core::fmt::Debug for Compact {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let slots = self.buckets as usize * BUCKET;
        f.debug_struct("Compact").field("slots", &slots).finish_non_exhaustive()
    }
}
