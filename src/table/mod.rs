//! The keyed table: buckets of slots, and the generation protocol that gives a key its slot.
//!
//! This is the table that serves every algorithm, of two words a slot. Where a key and its state
//! fit one word, there is [`compact`]; [`Table`] is either of them.
//!
//! # Layout
//!
//! A slot is two words: `owner` says whose it is, `head` holds the state.
//!
//! ```text
//! owner  bits 63..10 fingerprint of the key | bits 9..0 generation
//! head   bits 63..54 generation | bit 53 provisional | bits 52..0 state
//! ```
//!
//! Eight slots are a bucket of two cache lines. A key has two buckets; its slot is in one of
//! them, and is looked for first where the hash prefers it. Memory never moves or grows.
//!
//! An algorithm that needs more than a word gives every slot a ring of words, which stand apart
//! from the buckets: a lookup goes through no more lines than without them, and a decision that
//! the head alone can make touches none of them. What keeps them true to the head stands in
//! [`cell`](crate::cell).
//!
//! # What a slot's words say
//!
//! | owner and head | provisional | the slot is |
//! |---|---|---|
//! | fingerprint 0 | no | vacant: never used |
//! | generations differ | no | vacant: given up by its last key |
//! | generations differ | yes | taken, but nobody's yet: the next owner written has it |
//! | generations agree | yes | claimed by the owner, nothing charged yet |
//! | generations agree | no | the owner's |
//!
//! # Protocol
//!
//! A charge is one compare-and-swap on `head`, which names the generation, so it fails if the
//! slot has changed hands. To claim a slot for a key (the cold path):
//!
//! 1. CAS `head` to (generation + 1, provisional, now). The last owner has lost the slot from
//!    here on. Skipped where the slot is nobody's yet.
//! 2. CAS `owner` to (fingerprint, the head's generation). Exactly one claimant wins a
//!    generation, because the owner word it expects is used up.
//! 3. Fence, and survey all candidates for the key. If it has a committed slot, every claim of it
//!    is given up (CAS `head` to the next generation, not provisional). If it has several
//!    claims, all but the first in probing order are given up. After any such step, survey again.
//! 4. Commit: CAS `head` from provisional to the charged state.
//!
//! Any thread that works for the key may do steps 3 and 4 for any claim of it, after its own
//! fence, as long as it had written the claim's owner, or read it, *before* that fence. A claim
//! first seen in the survey is surveyed for again. No step waits for another thread.
//!
//! # Why a key never has two live slots
//!
//! Say two claims of a key are committed in different slots, each by a thread that surveyed after
//! a sequentially consistent fence and, after that fence, saw its own claim and not the other.
//! Before its fence, each thread had written its claim's owner, or read it. One fence comes first
//! in the total order of fences. The thread of the later fence must then see the owner that the
//! thread of the earlier one had written or read. It saw the other claim, so it would have given
//! one up, by a CAS on the very head that the other's commit names: only one of the two can
//! succeed. `loom-tests/` explores this, with models that fail without the survey and without
//! the generation.
//!
//! # Claims of others
//!
//! Another key's claim holds nothing that could be lost, so it may be displaced: its thread finds that
//! its commit fails, and claims again. It is done where nothing is vacant or idle, and once in a
//! request, so that two threads cannot displace each other for ever; who may not do it again evicts a
//! live key, if it may, or has found no place.
//!
//! # Recurrence
//!
//! A head's old value can come back only if the slot changes hands a multiple of 1,024 times and
//! ends with the same state, to the unit of time, while a thread is between its load and its CAS.
//! Taking an idle slot always moves its time forward, so all of those would have to be forced
//! evictions. The charge would then fall on the new owner. In the same way, what a life left in a
//! ring is taken for that of the life 1,024 later only if both are of one unit of time (one
//! sub-window: those are cleared when a claim is committed).

mod claim;
mod compact;
mod counters;
mod either;
mod hot_keys;
mod layout;
#[cfg(not(tollgate_loom))]
mod memory;
#[cfg(tollgate_loom)]
#[path = "memory_loom.rs"]
mod memory;
mod probe;
mod snapshot;
#[cfg(all(test, not(any(tollgate_loom, tollgate_shuttle))))]
mod tests;

use core::time::Duration;

use claim::Outcome;
pub(crate) use counters::{Counters, Event, Tally};
pub(crate) use either::{Attempt, Lookup, Table};
pub(crate) use hot_keys::{Place, Shares};
pub(crate) use memory::{HugePages, OutOfMemory};
pub(crate) use probe::Probe;
use probe::SlotRef;
pub(crate) use snapshot::{Misplaced, Row, TRIES};

use crate::algo::{Refund, Standing, StateMachine};
use crate::cell::{Cells, Charge, Head, Paid};
use crate::decision::{Decision, Denied, OutOfLine};
use crate::sync::{AtomicU64, MODEL};
use crate::time::Tick;
use layout::{BUCKET, Slot};
use memory::{LINE_WORDS, RingWords, Slots};

/// Live keys that fit in a table, as a share of its slots: 55 %.
pub(crate) const LOAD_PERCENT: u64 = 55;

/// A key has two buckets. A model makes do with one.
const BUCKETS_MIN: u128 = if MODEL { 1 } else { 2 };

/// The keyed table of two words a slot. See the [module](self).
pub(crate) struct Wide {
    slots: Slots,
    ring_words: RingWords,
    ring: RingLayout,
    /// How much older than its judge's another thread's clock may be.
    skew: Duration,
    counters: Counters,
}

/// The ring beside each slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RingLayout {
    cells: usize,
    /// Those that are part of the state: all but the note.
    kept_cells: usize,
}

impl RingLayout {
    pub(crate) fn of<A: StateMachine>(algo: &A) -> Self {
        let cells = algo.ring_cells();
        Self { cells, kept_cells: cells - usize::from(algo.has_note()) }
    }
}

impl Wide {
    pub(crate) fn new(
        buckets: u32,
        ring: RingLayout,
        skew: Duration,
        huge_pages: HugePages,
    ) -> Result<Self, OutOfMemory> {
        let slots = Slots::zeroed(buckets, huge_pages)?;
        let slot_count = buckets as usize * BUCKET;
        let words = slot_count.checked_mul(ring.cells).ok_or(OutOfMemory)?;
        let ring_words = RingWords::zeroed(words, huge_pages)?;
        Ok(Self { slots, ring_words, ring, skew, counters: Counters::default() })
    }

    /// Buckets for `capacity` live keys; `None` where they are too many to number.
    pub(crate) fn buckets_for(capacity: u64) -> Option<u32> {
        let slots = u128::from(capacity) * 100 / u128::from(LOAD_PERCENT) + 1;
        u32::try_from(slots.div_ceil(BUCKET as u128).max(BUCKETS_MIN)).ok()
    }

    fn slot_count(&self) -> usize {
        self.slots.bucket_count() as usize * BUCKET
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.slot_count() * (size_of::<Slot>() + self.ring.cells * size_of::<u64>())
    }

    /// The ring of a slot.
    #[inline(always)]
    pub(crate) fn cells<A: StateMachine>(&self, slot: &Slot) -> Cells<'_> {
        if !A::RINGED {
            return Cells::NONE;
        }
        let first = self.index_of(slot) * self.ring.cells;
        let cells = &self.ring_words.all()[first..first + self.ring.cells];
        Cells::new(cells)
    }

    /// The first and the last word of a slot's ring, if it has one of a line's length at most, which may
    /// lie in two.
    #[inline(always)]
    fn ends_of_short_ring(&self, slot: &Slot) -> Option<[&AtomicU64; 2]> {
        let RingLayout { cells, .. } = self.ring;
        if !(1..=LINE_WORDS).contains(&cells) {
            return None;
        }
        let first = self.index_of(slot) * cells;
        let words = self.ring_words.all();
        Some([words.get(first)?, words.get(first + cells - 1)?])
    }

    /// The judge's clock, put back by the allowed skew: what was idle then is idle for all.
    fn beyond_skew(&self, now: Tick) -> Tick {
        now.saturating_sub(self.skew)
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
        if let Some(SlotRef { slot, head }) = seat
            && let Some(decision) = slot.head.decide(head, self.cells::<A>(slot), algo, now, n)
        {
            return Ok(decision);
        }
        let OutOfLine(outcome) = self.decide_elsewhere(probe, algo, now, n, evict);
        match outcome {
            Outcome::Decided(ruling) => Ok(ruling.explain(algo, now, n)),
            Outcome::Full { nearest } => Err(nearest),
        }
    }

    /// As [`decide`](Self::decide), where nobody asks for more than yes or no.
    #[inline(always)]
    pub(crate) fn allow<A: StateMachine>(
        &self,
        probe: Probe,
        seat: Option<SlotRef<'_>>,
        algo: &A,
        now: Tick,
        n: u64,
        evict: bool,
    ) -> Result<bool, u64> {
        if let Some(SlotRef { slot, head }) = seat
            && let Some(allowed) = slot.head.allow(head, self.cells::<A>(slot), algo, now, n)
        {
            return Ok(allowed);
        }
        let OutOfLine(outcome) = self.decide_elsewhere(probe, algo, now, n, evict);
        match outcome {
            Outcome::Decided(ruling) => Ok(ruling.is_admitted()),
            Outcome::Full { nearest } => Err(nearest),
        }
    }

    /// The key is not where it would first be put.
    #[inline(never)]
    fn decide_elsewhere<A: StateMachine>(
        &self,
        probe: Probe,
        algo: &A,
        now: Tick,
        n: u64,
        evict: bool,
    ) -> OutOfLine<Outcome<A::View>> {
        let seat = self.find(probe);
        if let Some(SlotRef { slot, head }) = seat
            && !head.is_provisional()
            && let Charge::Decided(ruling) =
                slot.head.charge(head, self.cells::<A>(slot), algo, now, n)
        {
            return OutOfLine(Outcome::Decided(ruling));
        }
        OutOfLine(self.decide_cold(&probe, seat, algo, now, n, evict).0)
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
        let mut seat = self.find_at_once(probe).or_else(|| self.find(probe));
        let charged = seat
            .filter(|seat| !seat.head.is_provisional())
            .map(|seat| seat.slot.head.charge(seat.head, self.cells::<A>(seat.slot), algo, now, n));
        let ruling = match charged {
            Some(Charge::Decided(ruling)) => ruling,
            _ => {
                let (outcome, found) = self.decide_cold(&probe, seat, algo, now, n, evict);
                seat = found;
                match outcome {
                    Outcome::Decided(ruling) => ruling,
                    Outcome::Full { nearest } => return Err(nearest),
                }
            }
        };
        // Without a slot nothing was charged.
        let (generation, place) = match seat {
            Some(SlotRef { slot, head }) => (head.generation(), self.index_of(slot)),
            None => (Paid::NO_LIFE, 0),
        };
        Ok(ruling.receipt(algo, now, n, generation, place))
    }

    /// Replaces the state that was charged, if the key still lives in that slot, by what `next`
    /// makes of it.
    #[expect(clippy::cast_possible_truncation, reason = "below the number of buckets")]
    pub(crate) fn revise_charged(&self, paid: &Paid, next: impl Fn(u64) -> u64) {
        let bucket = self.slots.bucket((paid.place / BUCKET) as u32);
        bucket[paid.place % BUCKET].head.revise(paid.generation, next);
    }

    /// Replaces the state of a key, if it has one, by what `next` makes of it.
    pub(crate) fn revise(&self, probe: Probe, next: impl Fn(u64) -> u64) {
        if let Some(SlotRef { slot, head }) = self.find_committed(probe) {
            slot.head.revise(head.generation(), next);
        }
    }

    /// Replaces the state of every key by what `next` makes of it. A slot that changes hands
    /// meanwhile, or that no key has, is left as it is.
    pub(crate) fn revise_all(&self, next: impl Fn(u64) -> u64) {
        for slot in (0..self.slots.bucket_count()).flat_map(|bucket| self.slots.bucket(bucket)) {
            let owner = slot.owner();
            if owner.belongs() {
                slot.head.revise(owner.generation(), &next);
            }
        }
    }

    #[inline(always)]
    fn index_of(&self, slot: &Slot) -> usize {
        (std::ptr::from_ref(slot).addr() - self.slots.address()) / size_of::<Slot>()
    }

    /// What a decision about `n` cells would be judged by; `None` if the key has no state.
    pub(crate) fn peek<A: StateMachine>(
        &self,
        probe: Probe,
        algo: &A,
        now: Tick,
        n: u64,
    ) -> Option<A::View> {
        loop {
            let SlotRef { slot, head } = self.find_committed(probe)?;
            let seen = slot.head.peek(head, self.cells::<A>(slot), algo, now, n);
            if seen.is_some() {
                return seen;
            }
        }
    }

    /// Gives up the key's slot, if it has one.
    pub(crate) fn forget(&self, probe: Probe) {
        while let Some(SlotRef { slot, head }) = self.find_committed(probe) {
            if slot.head.swap(head, given_up(head)).is_ok() {
                return;
            }
        }
    }

    /// How many keys have a live state, counted over `sample` buckets spread evenly and scaled.
    pub(crate) fn estimate_live<A: StateMachine>(&self, algo: &A, now: Tick, sample: u32) -> usize {
        let instant = algo.instant(now);
        let is_live = |slot: &&Slot| {
            let (owner, head) = (slot.owner(), slot.head.load());
            let taken = owner.belongs() && owner.generation() == head.generation();
            let standing = algo.standing(head.payload(), instant);
            taken && !head.is_provisional() && matches!(standing, Standing::Live { .. })
        };
        let live_in = |bucket| self.slots.bucket(bucket).iter().filter(is_live).count();
        scaled_up(self.slots.bucket_count(), sample, live_in)
    }
}

/// A count over all buckets, from those in `sample` of them, spread evenly.
fn scaled_up(buckets: u32, sample: u32, count_in: impl Fn(u32) -> usize) -> usize {
    let step = buckets.div_ceil(sample.max(1)).max(1);
    let visited = (0..buckets).step_by(step as usize);
    let (mut counted, all, some) = (0, u128::from(buckets), visited.len() as u128);
    for bucket in visited {
        counted += count_in(bucket) as u128;
    }
    usize::try_from(counted * all / some).unwrap_or(usize::MAX)
}

/// The head that leaves a slot vacant.
fn given_up(head: Head) -> Head {
    Head::committed(head.next_generation(), head.payload())
}

impl core::fmt::Debug for Wide {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Wide").field("slots", &self.slot_count()).finish_non_exhaustive()
    }
}
