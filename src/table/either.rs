//! One table or the other, chosen when it is built.

use core::time::Duration;

use super::compact::{self, Compact};
use super::layout::BUCKET;
use super::{Counters, HugePages, Misplaced, OutOfMemory, Probe, RingLayout, Row, SlotRef, Wide};
use crate::algo::{Refund, StateMachine};
use crate::cell::Paid;
use crate::decision::{Decision, Denied, Permit};
use crate::time::Tick;

/// Cache lines in a megabyte, about what a core's second cache holds.
const NEAR_LINES_MAX: usize = (1 << 20) / 64;

/// What a first try came to.
pub(crate) enum Attempt {
    Admitted(Permit),
    /// Another thread has charged the key meanwhile.
    Raced,
    /// Denied, or the key has no slot.
    Undecided,
}

/// The keyed table, with slots of two words or of one.
pub(crate) struct Table {
    buckets: u32,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Wide(Wide),
    Compact(Compact),
}

/// What a first look for a key has found, and in which table.
#[derive(Clone, Copy)]
pub(crate) enum Lookup<'a> {
    Wide(&'a Wide, Option<SlotRef<'a>>),
    Compact(&'a Compact, Option<compact::SlotRef<'a>>),
}

impl Table {
    pub(crate) fn wide(
        buckets: u32,
        ring: RingLayout,
        skew: Duration,
        huge_pages: HugePages,
    ) -> Result<Self, OutOfMemory> {
        Ok(Self { buckets, kind: Kind::Wide(Wide::new(buckets, ring, skew, huge_pages)?) })
    }

    pub(crate) fn compact(
        buckets: u32,
        skew: Duration,
        huge_pages: HugePages,
    ) -> Result<Self, OutOfMemory> {
        Ok(Self { buckets, kind: Kind::Compact(Compact::new(buckets, skew, huge_pages)?) })
    }

    /// Whether the slots are more than what a core has close at hand.
    #[inline(always)]
    pub(crate) fn is_far(&self) -> bool {
        let lines = match &self.kind {
            Kind::Wide(_) => 2,
            Kind::Compact(_) => 1,
        };
        self.buckets as usize * lines > NEAR_LINES_MAX
    }

    /// Asks for the cache line that [`find_at_once`](Self::find_at_once) looks at.
    #[inline(always)]
    pub(crate) fn prefetch(&self, probe: Probe) {
        match &self.kind {
            Kind::Wide(table) => table.prefetch(probe),
            Kind::Compact(table) => table.prefetch(probe),
        }
    }

    /// Buckets for `capacity` live keys, of either kind; `None` where they are too many to
    /// number.
    pub(crate) fn buckets_for(capacity: u64) -> Option<u32> {
        Wide::buckets_for(capacity)
    }

    pub(crate) fn slot_count(&self) -> usize {
        self.buckets as usize * BUCKET
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        match &self.kind {
            Kind::Wide(table) => table.memory_bytes(),
            Kind::Compact(table) => table.memory_bytes(),
        }
    }

    pub(crate) fn counters(&self) -> &Counters {
        match &self.kind {
            Kind::Wide(table) => &table.counters,
            Kind::Compact(table) => table.counters(),
        }
    }

    pub(crate) fn skew(&self) -> Duration {
        match &self.kind {
            Kind::Wide(table) => table.skew,
            Kind::Compact(table) => table.skew(),
        }
    }

    #[inline(always)]
    pub(crate) fn probe(&self, hash: u64) -> Probe {
        Probe::new(hash, self.buckets)
    }

    /// Looks where the key would first be put.
    #[inline(always)]
    pub(crate) fn find_at_once(&self, probe: Probe) -> Lookup<'_> {
        match &self.kind {
            Kind::Wide(table) => Lookup::Wide(table, table.find_at_once(probe)),
            Kind::Compact(table) => Lookup::Compact(table, table.find_at_once(probe)),
        }
    }

    pub(crate) fn peek<A: StateMachine>(
        &self,
        probe: Probe,
        algo: &A,
        now: Tick,
        n: u64,
    ) -> Option<A::View> {
        match &self.kind {
            Kind::Wide(table) => table.peek(probe, algo, now, n),
            Kind::Compact(table) => table.peek(probe, algo, now, n),
        }
    }

    /// Whether a key without a slot would get one without an eviction. `Err` holds the state nearest to
    /// idle.
    pub(crate) fn has_place<A: StateMachine>(
        &self,
        probe: Probe,
        algo: &A,
        now: Tick,
    ) -> Result<(), u64> {
        match &self.kind {
            Kind::Wide(table) => table.has_place(probe, algo, now),
            Kind::Compact(table) => table.has_place(probe, algo, now),
        }
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
        match &self.kind {
            Kind::Wide(table) => table.charge(probe, algo, now, n, evict),
            Kind::Compact(table) => table.charge(probe, algo, now, n, evict),
        }
    }

    /// Gives back `n` cells of a charge, if the key still lives in the slot that was charged; in
    /// compact slots, which do not tell one life of a key from another, if it has a slot.
    pub(crate) fn refund<A: Refund>(
        &self,
        probe: Probe,
        algo: &A,
        paid: &Paid,
        now: impl Fn() -> Tick,
        n: u64,
    ) {
        self.revise_charged(probe, paid, |state| algo.refund(state, &paid.receipt, now(), n));
    }

    /// Replaces the state that was charged by what `next` makes of it, under the same conditions.
    pub(crate) fn revise_charged(&self, probe: Probe, paid: &Paid, next: impl Fn(u64) -> u64) {
        match &self.kind {
            Kind::Wide(table) => table.revise_charged(paid, next),
            Kind::Compact(table) => table.revise(probe, next),
        }
    }

    /// Replaces the state of every key by what `next` makes of it, in a table of wide slots.
    pub(crate) fn revise_all(&self, next: impl Fn(u64) -> u64) {
        match &self.kind {
            Kind::Wide(table) => table.revise_all(next),
            Kind::Compact(_) => unreachable!("built for an algorithm of one narrow word"),
        }
    }

    /// Gives a key `n` cells that nobody has paid for, if it has a slot.
    pub(crate) fn add<A: Refund>(&self, probe: Probe, algo: &A, now: Tick, n: u64) {
        let next = |state| algo.add(state, now, n);
        match &self.kind {
            Kind::Wide(table) => table.revise(probe, next),
            Kind::Compact(table) => table.revise(probe, next),
        }
    }

    /// Tries once to charge `n` cells of a key that has its slot.
    #[inline(always)]
    pub(crate) fn attempt<A: StateMachine>(
        &self,
        probe: Probe,
        algo: &A,
        now: Tick,
        n: u64,
    ) -> Attempt {
        let Kind::Wide(table) = &self.kind else { return Attempt::Undecided };
        let Some(SlotRef { slot, head }) = table.find_committed(probe) else {
            return Attempt::Undecided;
        };
        match slot.head.admit(head, table.cells::<A>(slot), algo, now, n) {
            Some(permit) => Attempt::Admitted(permit),
            None if slot.head.load() == head => Attempt::Undecided,
            None => Attempt::Raced,
        }
    }

    /// Charges more than `n` cells of a key that has its slot, and returns how many, and the state
    /// that the charge left: see [`HeadCell::charge_ahead`](crate::cell::HeadCell::charge_ahead).
    pub(crate) fn charge_ahead<A: StateMachine>(
        &self,
        probe: Probe,
        algo: &A,
        now: Tick,
        n: u64,
        most: u64,
        or_just_n: bool,
    ) -> Option<(u64, u64)> {
        let Kind::Wide(table) = &self.kind else { return None };
        let SlotRef { slot, head } = table.find_committed(probe)?;
        slot.head.charge_ahead(head, algo, now, n, most, or_just_n)
    }

    /// Gives up the key's slot, if it has one.
    pub(crate) fn forget(&self, probe: Probe) {
        match &self.kind {
            Kind::Wide(table) => table.forget(probe),
            Kind::Compact(table) => table.forget(probe),
        }
    }

    pub(crate) fn bucket_count(&self) -> u32 {
        self.buckets
    }

    /// Words that a [`Row`] has for each slot.
    pub(crate) fn words_in_slot(&self) -> usize {
        match &self.kind {
            Kind::Wide(_) => 2,
            Kind::Compact(_) => 1,
        }
    }

    /// The live slots, bucket by bucket.
    pub(crate) fn rows<A: StateMachine>(
        &self,
        algo: &A,
        instant: u64,
    ) -> impl Iterator<Item = Row> {
        (0..self.buckets).map(move |bucket| match &self.kind {
            Kind::Wide(table) => table.row(bucket, algo, instant),
            Kind::Compact(table) => table.row(bucket, algo, instant),
        })
    }

    /// Puts a key back into a slot of a table nobody shares yet, with the state that `rebase` makes
    /// of its own and of what stands in its ring, which it replaces: bucket after bucket, in ascending
    /// order, and each slot once.
    pub(crate) fn put_back<A: StateMachine>(
        &self,
        bucket: u32,
        place: usize,
        (words, ring): (&[u64], &mut [u64]),
        algo: &A,
        instant: u64,
        rebase: impl Fn(u64, &mut [u64]) -> Option<u64>,
    ) -> Result<(), Misplaced> {
        if bucket >= self.buckets || place >= BUCKET {
            return Err(Misplaced);
        }
        match (&self.kind, words) {
            (Kind::Wide(table), [fingerprint, state]) => {
                table.put_back(bucket, place, ([*fingerprint, *state], ring), algo, instant, rebase)
            }
            (Kind::Compact(table), [word]) => {
                table.put_back(bucket, place, *word, algo, instant, rebase)
            }
            _ => Err(Misplaced),
        }
    }

    /// How many keys have a live state, counted over `sample` buckets spread evenly and scaled.
    pub(crate) fn estimate_live<A: StateMachine>(&self, algo: &A, now: Tick, sample: u32) -> usize {
        match &self.kind {
            Kind::Wide(table) => table.estimate_live(algo, now, sample),
            Kind::Compact(table) => table.estimate_live(algo, now, sample),
        }
    }
}

impl Lookup<'_> {
    /// Decides about `n` cells of the key that was looked for. `Err` holds the state nearest to
    /// idle, if the key finds no place.
    #[inline(always)]
    pub(crate) fn decide<A: StateMachine>(
        self,
        probe: Probe,
        algo: &A,
        now: Tick,
        n: u64,
        evict: bool,
    ) -> Result<Decision, u64> {
        match self {
            Self::Wide(table, seat) => table.decide(probe, seat, algo, now, n, evict),
            Self::Compact(table, seat) => table.decide(probe, seat, algo, now, n, evict),
        }
    }
}

impl Lookup<'_> {
    /// As [`decide`](Self::decide), where nobody asks for more than yes or no.
    #[inline(always)]
    pub(crate) fn allow<A: StateMachine>(
        self,
        probe: Probe,
        algo: &A,
        now: Tick,
        n: u64,
        evict: bool,
    ) -> Result<bool, u64> {
        match self {
            Self::Wide(table, seat) => table.allow(probe, seat, algo, now, n, evict),
            Self::Compact(table, seat) => {
                table.decide(probe, seat, algo, now, n, evict).map(|decision| decision.is_ok())
            }
        }
    }

    /// Admits `n` cells if the key was found and a first try does; `None` leaves all else to be
    /// decided anew.
    #[inline(always)]
    pub(crate) fn admit<A: StateMachine>(self, algo: &A, now: Tick, n: u64) -> Option<Permit> {
        match self {
            Self::Wide(table, Some(SlotRef { slot, head })) => {
                slot.head.admit(head, table.cells::<A>(slot), algo, now, n)
            }
            Self::Compact(_, Some(seat)) => seat.admit(algo, now, n),
            Self::Wide(_, None) | Self::Compact(_, None) => None,
        }
    }
}

impl core::fmt::Debug for Table {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.kind.fmt(f)
    }
}
