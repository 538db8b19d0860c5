//! The keyed table: a key's hash names a few slots, and the key has one of them.
//!
//! Slots are [wide], for every algorithm, or [compact], where a key and its state fit one word. Both
//! kinds share the [claim protocol](claim), which gives a key its slot, and all of [`SlotTable`].
//! They differ in what [`SlotKind`] states: lookup and ranking.
//!
//! Eight slots are a bucket. A key has two buckets (two-choice hashing), and its slot is in one of
//! them. Memory never moves or grows.
//!
//! # Guarded by
//!
//! `loom-tests/tests/`: `claim.rs`, `take_over.rs`, `ring_take_over.rs` and `hot_key_leases.rs`, run by
//! `ci/check.sh loom`, and the histories of `ci/check.sh shuttle`.

#[cfg(feature = "shared-memory")]
pub(crate) mod block;
#[cfg(feature = "shared-memory")]
mod block_view;
mod choice;
mod claim;
mod compact;
mod counters;
mod hot_keys;
#[cfg(not(tollgate_loom))]
mod memory;
#[cfg(tollgate_loom)]
#[path = "memory_loom.rs"]
mod memory;
mod one_bucket;
mod placed;
mod probe;
mod ranking;
mod request;
mod slack;
mod slot_kind;
mod slot_table;
mod snapshot;
mod source;
#[cfg(all(test, not(any(tollgate_loom, tollgate_shuttle))))]
mod tests;
mod wide;

use core::time::Duration;

#[cfg(feature = "shared-memory")]
pub(crate) use block_view::{BlockView, TableForm};
use compact::CompactSlots;
pub(crate) use counters::{Counters, Event, Tally};
pub(crate) use hot_keys::{ChargedAhead, HotKeyLeases, LeaseRef};
use memory::TableCounters;
pub(crate) use memory::{HugePages, OutOfMemory};
pub(crate) use one_bucket::OneBucket;
pub(crate) use placed::Placed;
pub(crate) use probe::Probe;
pub(crate) use request::{Attempt, Charged, Full, KeyRequest};
use slot_kind::{FoundSlot, SlotKind};
use slot_table::SlotTable;
pub(crate) use slot_table::TakeOver;
pub(crate) use snapshot::{Misplaced, Row, SavedSlot, TRIES};
pub(crate) use source::Source;
pub(crate) use wide::RingLayout;
use wide::WideSlots;

use crate::algo::{Refund, StateMachine};
use crate::cell::{Answer, ChargeReceipt, CompactWord, Head, MaxAhead, Request};
use crate::decision::Permit;
use crate::sync::MODEL;
use crate::time::Tick;

/// Slots in a bucket. A model has fewer.
const BUCKET: usize = if MODEL { 2 } else { 8 };

/// Slots that a key may have: those of two buckets.
const CANDIDATES: usize = 2 * BUCKET;

/// Live keys that fit in a table, as a share of its slots: 55 %.
const LOAD_PERCENT: u64 = 55;

/// A key has two buckets. A model makes do with one.
const BUCKETS_MIN: u128 = if MODEL { 1 } else { 2 };

/// Cache lines in a megabyte, about what an L2 cache holds.
const NEAR_LINES_MAX: usize = (1 << 20) / 64;

/// The keyed table, of one kind of slot.
pub(crate) struct Table {
    /// The buckets that the capacity needs.
    stated_buckets: u32,
    /// The buckets that there are.
    buckets: u32,
    kind: Kind,
}

enum Kind {
    Wide(SlotTable<WideSlots>),
    Compact(SlotTable<CompactSlots>),
}

/// The result of a first look for a key, and its table.
#[derive(Clone, Copy)]
pub(crate) struct Lookup<'a>(Found<'a>);

#[derive(Clone, Copy)]
enum Found<'a> {
    Wide(&'a SlotTable<WideSlots>, Option<FoundSlot<'a, Head>>),
    Compact(&'a SlotTable<CompactSlots>, Option<FoundSlot<'a, CompactWord>>),
}

impl Table {
    pub(crate) fn wide(
        buckets: u32,
        ring: RingLayout,
        take_over: TakeOver,
        source: &Source,
    ) -> Result<Self, OutOfMemory> {
        let counters = TableCounters::zeroed(source)?;
        let slots = WideSlots::new(buckets, ring, source)?;
        let (stated_buckets, buckets) = (buckets, slots.bucket_count());
        Ok(Self {
            stated_buckets,
            buckets,
            kind: Kind::Wide(SlotTable::new(slots, take_over, counters)),
        })
    }

    pub(crate) fn compact(
        buckets: u32,
        take_over: TakeOver,
        source: &Source,
    ) -> Result<Self, OutOfMemory> {
        let counters = TableCounters::zeroed(source)?;
        let slots = CompactSlots::new(buckets, source)?;
        let (stated_buckets, buckets) = (buckets, slots.bucket_count());
        Ok(Self {
            stated_buckets,
            buckets,
            kind: Kind::Compact(SlotTable::new(slots, take_over, counters)),
        })
    }

    /// Buckets for `capacity` live keys; `None` if they are too many to number.
    pub(crate) fn buckets_for(capacity: u64) -> Option<u32> {
        let slots = u128::from(capacity) * 100 / u128::from(LOAD_PERCENT) + 1;
        u32::try_from(slots.div_ceil(BUCKET as u128).max(BUCKETS_MIN)).ok()
    }

    /// The part of a block that a table takes; as much as there can be, if it is too large.
    #[cfg(feature = "shared-memory")]
    pub(crate) fn block_bytes(is_compact: bool, buckets: u32, ring: RingLayout) -> usize {
        let slots = match is_compact {
            true => CompactSlots::block_bytes(buckets),
            false => WideSlots::block_bytes(buckets, ring),
        };
        slots.saturating_add(block::piece_bytes::<Counters>(1))
    }

    /// Whether the slots are larger than the L2 cache.
    #[inline(always)]
    pub(crate) fn is_far(&self) -> bool {
        let lines = match &self.kind {
            Kind::Wide(_) => 2,
            Kind::Compact(_) => 1,
        };
        self.buckets as usize * lines > NEAR_LINES_MAX
    }

    /// Asks for the cache line that [`find_at_once`](Self::find_at_once) reads.
    #[inline(always)]
    pub(crate) fn prefetch(&self, probe: Probe) {
        match &self.kind {
            Kind::Wide(table) => table.slots.prefetch(probe),
            Kind::Compact(table) => table.slots.prefetch(probe),
        }
    }

    pub(crate) fn bucket_count(&self) -> u32 {
        self.buckets
    }

    pub(crate) fn slot_count(&self) -> usize {
        self.buckets as usize * BUCKET
    }

    /// Live keys that there is room for: the capacity, rounded up to whole buckets.
    pub(crate) fn capacity(&self) -> usize {
        (u64::from(self.stated_buckets) * BUCKET as u64 * LOAD_PERCENT / 100) as usize
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        match &self.kind {
            Kind::Wide(table) => table.slots.memory_bytes(),
            Kind::Compact(table) => table.slots.memory_bytes(),
        }
    }

    pub(crate) fn counters(&self) -> &Counters {
        match &self.kind {
            Kind::Wide(table) => &table.counters,
            Kind::Compact(table) => &table.counters,
        }
    }

    pub(crate) fn skew(&self) -> Duration {
        match &self.kind {
            Kind::Wide(table) => table.take_over.skew,
            Kind::Compact(table) => table.take_over.skew,
        }
    }

    /// Whether nearly every key is in the slot it prefers.
    pub(crate) fn has_slack(&self) -> bool {
        match &self.kind {
            Kind::Wide(table) => table.slots.has_slack(),
            Kind::Compact(table) => table.slots.has_slack(),
        }
    }

    /// Looks at the slot that the key prefers. `None`: the key is not there.
    #[inline(always)]
    pub(crate) fn find_preferred(&self, probe: Probe) -> Option<Lookup<'_>> {
        Some(Lookup(match &self.kind {
            Kind::Wide(table) => Found::Wide(table, Some(table.slots.find_preferred(probe)?)),
            Kind::Compact(table) => Found::Compact(table, Some(table.slots.find_preferred(probe)?)),
        }))
    }

    /// As [`find_at_once`](Self::find_at_once), without slack or where the key is not in the slot it prefers.
    #[inline(always)]
    pub(crate) fn find_in_line(&self, probe: Probe) -> Lookup<'_> {
        Lookup(match &self.kind {
            Kind::Wide(table) => Found::Wide(table, table.slots.find_in_line(probe)),
            Kind::Compact(table) => Found::Compact(table, table.slots.find_in_line(probe)),
        })
    }

    /// Looks where the key would first be put.
    #[inline(always)]
    pub(crate) fn find_at_once(&self, probe: Probe) -> Lookup<'_> {
        Lookup(match &self.kind {
            Kind::Wide(table) => Found::Wide(table, table.slots.find_at_once(probe)),
            Kind::Compact(table) => Found::Compact(table, table.slots.find_at_once(probe)),
        })
    }

    /// Reads the view by which `n` cells would be decided; `None` if the key has no state.
    pub(crate) fn peek<M: StateMachine>(
        &self,
        probe: Probe,
        machine: &M,
        now: Tick,
        n: u64,
    ) -> Option<M::View> {
        let request = Request { now, cells: n };
        match &self.kind {
            Kind::Wide(table) => table.peek(probe, machine, request),
            Kind::Compact(table) => table.peek(probe, machine, request),
        }
    }

    /// Whether a key without a slot would get one without an eviction.
    pub(crate) fn has_place<M: StateMachine>(
        &self,
        probe: Probe,
        machine: &M,
        now: Tick,
    ) -> Result<(), Full> {
        match &self.kind {
            Kind::Wide(table) => table.has_place(probe, machine, now),
            Kind::Compact(table) => table.has_place(probe, machine, now),
        }
    }

    /// Charges a request so that it can be refunded.
    pub(crate) fn charge<M: Refund>(&self, asked: &KeyRequest<'_, M>) -> Charged {
        match &self.kind {
            Kind::Wide(table) => table.charge(asked),
            Kind::Compact(table) => table.charge(asked),
        }
    }

    /// Looks once for the key's slot, and tries one compare-and-swap to charge it refundably. `Err` is the denial.
    /// `None`: nothing was charged, and [`charge`](Self::charge) decides.
    #[inline(always)]
    pub(crate) fn charge_found<M: Refund>(
        &self,
        asked: KeyRequest<'_, M>,
    ) -> Option<Result<ChargeReceipt, M::View>> {
        match &self.kind {
            Kind::Wide(table) => table.charge_found(asked),
            Kind::Compact(_) => None,
        }
    }

    /// Replaces the state that was charged by `next` of it, if the key still has the slot that was
    /// charged; `false` if not. Compact slots do not tell one life of a key from another: there, if it
    /// has a slot.
    #[inline]
    pub(crate) fn revise_charged(
        &self,
        probe: Option<Probe>,
        paid: &ChargeReceipt,
        next: impl Fn(u64) -> u64,
    ) -> bool {
        match &self.kind {
            Kind::Wide(table) => table.revise_charged(probe, paid, next),
            Kind::Compact(table) => table.revise_charged(probe, paid, next),
        }
    }

    /// Replaces the state of every key by `next` of it.
    pub(crate) fn revise_all(&self, next: impl Fn(u64) -> u64) {
        match &self.kind {
            Kind::Wide(table) => table.revise_all(next),
            Kind::Compact(table) => table.revise_all(next),
        }
    }

    /// Adds `n` cells that were never charged, if the key has a slot.
    pub(crate) fn add<M: Refund>(&self, probe: Probe, machine: &M, now: Tick, n: u64) {
        self.revise(probe, |state| machine.add(state, now, n));
    }

    /// Replaces the state of a key by `next` of it, if the key has a slot.
    pub(crate) fn revise(&self, probe: Probe, next: impl Fn(u64) -> u64) {
        match &self.kind {
            Kind::Wide(table) => table.revise(probe, next),
            Kind::Compact(table) => table.revise(probe, next),
        }
    }

    /// Tries once to charge `n` cells of a key that has its slot.
    #[cfg_attr(not(any(debug_assertions, tollgate_loom)), inline(always))]
    pub(crate) fn attempt<M: StateMachine>(
        &self,
        probe: Probe,
        machine: &M,
        now: Tick,
        n: u64,
    ) -> Attempt {
        let Kind::Wide(table) = &self.kind else { return Attempt::Undecided };
        let Some(slot) = table.slots.find_committed(probe) else { return Attempt::Undecided };
        let request = Request { now, cells: n };
        match slot.cell.admit(table.slots.loaded::<M>(slot), machine, request) {
            Some(permit) => Attempt::Admitted(permit),
            None if slot.cell.load() == slot.word => Attempt::Undecided,
            None => Attempt::Raced,
        }
    }

    /// Charges more cells than the request's, of a key that has its slot: see
    /// [`StateCell::charge_ahead`](crate::cell::StateCell::charge_ahead).
    pub(crate) fn charge_ahead<M: StateMachine>(
        &self,
        probe: Probe,
        machine: &M,
        request: Request,
        max: MaxAhead,
    ) -> Option<(u64, u64)> {
        let Kind::Wide(table) = &self.kind else { return None };
        let slot = table.slots.find_committed(probe)?;
        slot.cell.charge_ahead(table.slots.loaded::<M>(slot), machine, request, max)
    }

    /// Gives up the key's slot, if it has one.
    pub(crate) fn forget(&self, probe: Probe) {
        match &self.kind {
            Kind::Wide(table) => table.forget(probe),
            Kind::Compact(table) => table.forget(probe),
        }
    }

    /// Words that a [`Row`] has for each slot.
    pub(crate) fn words_in_slot(&self) -> usize {
        match &self.kind {
            Kind::Wide(_) => 2,
            Kind::Compact(_) => 1,
        }
    }

    /// The live slots, bucket by bucket.
    pub(crate) fn rows<M: StateMachine>(
        &self,
        machine: &M,
        instant: u64,
    ) -> impl Iterator<Item = Row> {
        (0..self.buckets).map(move |bucket| match &self.kind {
            Kind::Wide(table) => table.slots.row(bucket, machine, instant),
            Kind::Compact(table) => table.slots.row(bucket, machine, instant),
        })
    }

    /// Restores a key into a slot of a table that no other thread shares yet, with the state that
    /// `rebase` makes of its own and of its ring: bucket after bucket, in ascending order, and each
    /// slot once.
    pub(crate) fn restore<M: StateMachine>(
        &self,
        saved: SavedSlot<'_>,
        machine: &M,
        instant: u64,
        rebase: impl Fn(u64, &mut [u64]) -> Option<u64>,
    ) -> Result<(), Misplaced> {
        if saved.bucket >= self.buckets || saved.place >= BUCKET {
            return Err(Misplaced);
        }
        match &self.kind {
            Kind::Wide(table) => table.slots.restore(saved, machine, instant, rebase),
            Kind::Compact(table) => table.slots.restore(saved, machine, instant, rebase),
        }
    }

    /// How many keys have a live state: counted in `sample` buckets, spread evenly, and scaled up.
    pub(crate) fn estimate_live<M: StateMachine>(
        &self,
        machine: &M,
        now: Tick,
        sample: u32,
    ) -> usize {
        match &self.kind {
            Kind::Wide(table) => table.estimate_live(machine, now, sample),
            Kind::Compact(table) => table.estimate_live(machine, now, sample),
        }
    }
}

/// Known when compiled: for a machine that is never compact, the code for a compact table is this
/// assertion.
#[inline(always)]
fn assert_may_be_compact<M: StateMachine>() {
    assert!(M::MAY_BE_COMPACT, "built for an algorithm of one narrow word");
}

impl Lookup<'_> {
    /// Answers a request of the key that was looked for.
    #[cfg_attr(not(any(debug_assertions, tollgate_loom)), inline(always))]
    pub(crate) fn answer<M: StateMachine, A: Answer>(
        self,
        asked: KeyRequest<'_, M>,
    ) -> Result<A::Out, Full> {
        match self.0 {
            Found::Wide(table, found) => table.answer::<M, A>(found, asked),
            Found::Compact(table, found) => {
                assert_may_be_compact::<M>();
                table.answer::<M, A>(found, asked)
            }
        }
    }

    /// Admits `n` cells if the key was found and a first try does; `None`: the caller decides anew.
    #[cfg_attr(not(any(debug_assertions, tollgate_loom)), inline(always))]
    pub(crate) fn admit<M: StateMachine>(self, machine: &M, now: Tick, n: u64) -> Option<Permit> {
        let request = Request { now, cells: n };
        match self.0 {
            Found::Wide(table, Some(found)) => {
                found.cell.admit(table.slots.loaded::<M>(found.slot()), machine, request)
            }
            Found::Compact(table, Some(found)) => {
                found.cell.admit(table.slots.loaded::<M>(found.slot()), machine, request)
            }
            Found::Wide(_, None) | Found::Compact(_, None) => None,
        }
    }
}

impl core::fmt::Debug for Table {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let kind = match self.kind {
            Kind::Wide(_) => "wide",
            Kind::Compact(_) => "compact",
        };
        f.debug_struct("Table")
            .field("kind", &format_args!("{kind}"))
            .field("slots", &self.slot_count())
            .finish_non_exhaustive()
    }
}
