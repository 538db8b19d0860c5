//! A table of one kind of slot: everything that does not depend on the kind.

use core::time::Duration;

use super::claim::Outcome;
use super::memory::TableCounters;
use super::probe::Probe;
use super::request::{Charged, Full, KeyRequest};
use super::slot_kind::{FoundSlot, SlotKind, SlotRef};
use crate::algo::{Liveness, Receipt, Refund, StateMachine};
use crate::cell::{Answer, ChargeReceipt, LostRace, Request, StateCell, StateWord};
use crate::decision::OutOfLine;
use crate::time::Tick;

/// Slots, and what the [claim protocol](super::claim) needs besides.
pub(super) struct SlotTable<K> {
    pub(super) slots: K,
    pub(super) take_over: TakeOver,
    pub(super) counters: TableCounters,
}

/// When an absent key may take the slot of another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TakeOver {
    /// How much older than the deciding thread's clock another thread's clock may be: a key that is idle
    /// by both has lost nothing with its slot.
    pub(crate) skew: Duration,
    /// Whether a live key may lose its slot.
    pub(crate) may_evict: bool,
}

impl<K: SlotKind> SlotTable<K> {
    pub(super) fn new(slots: K, take_over: TakeOver, counters: TableCounters) -> Self {
        Self { slots, take_over, counters }
    }

    /// Answers a request of a key, of which a first look has found `found`.
    ///
    /// A path that is rare makes one call, of a function that decides the request in full. Across that call the
    /// caller keeps only the values that it needs for the answer.
    #[inline(always)]
    pub(super) fn answer<M: StateMachine, A: Answer>(
        &self,
        found: Option<FoundSlot<'_, K::Word>>,
        asked: KeyRequest<'_, M>,
    ) -> Result<A::Out, Full> {
        let KeyRequest { probe, machine, request } = asked;
        let OutOfLine(outcome) = match found {
            None => self.charge_elsewhere(probe, machine, request),
            Some(FoundSlot { cell, seen }) => {
                let ring = || self.slots.ring::<M>(cell);
                match cell.try_answer::<M, A>(seen, ring, machine, request) {
                    Ok(Some(answer)) => return Ok(answer),
                    Ok(None) => self.charge_elsewhere(probe, machine, request),
                    Err(actual) => {
                        let race = LostRace { first: seen.word(), actual };
                        self.charge_after_race(probe, machine, request, (cell, race))
                    }
                }
            }
        };
        outcome.map(|ruling| A::of(ruling, machine, request))
    }

    /// Charges after a first try has lost a race for the word of `cell`.
    #[cold]
    #[inline(never)]
    fn charge_after_race<M: StateMachine>(
        &self,
        probe: Probe,
        machine: &M,
        request: Request,
        (cell, race): (&StateCell<K::Word>, LostRace<K::Word>),
    ) -> OutOfLine<Outcome<M::View>> {
        let ring = self.slots.ring::<M>(cell);
        let OutOfLine(ruling) = cell.charge_again(race, ring, machine, request);
        match ruling {
            Some(ruling) => OutOfLine(Ok(ruling)),
            None => self.charge_elsewhere(probe, machine, request),
        }
    }

    /// Charges a key that a first look has not found, or whose slot has changed hands.
    ///
    /// Its parameters fit registers. A [`KeyRequest`] would have to be written to memory on the hot path.
    #[inline(never)]
    fn charge_elsewhere<M: StateMachine>(
        &self,
        probe: Probe,
        machine: &M,
        request: Request,
    ) -> OutOfLine<Outcome<M::View>> {
        let found = self.slots.find_elsewhere(probe);
        if let Some(slot) = found
            && !slot.word.is_provisional()
            && let loaded = self.slots.loaded::<M>(slot)
            && let Some(ruling) = slot.cell.charge(loaded, machine, request)
        {
            return OutOfLine(Ok(ruling));
        }
        let asked = KeyRequest { probe, machine, request };
        OutOfLine(self.claim_and_charge(&asked, found).0)
    }

    /// Charges a request so that it can be refunded.
    pub(super) fn charge<M: Refund>(&self, asked: &KeyRequest<'_, M>) -> Charged {
        let &KeyRequest { probe, machine, request } = asked;
        let first = self.slots.find_at_once(probe).map(FoundSlot::slot);
        let mut slot = first.or_else(|| self.slots.find_elsewhere(probe));
        let ruling = slot
            .filter(|slot| !slot.word.is_provisional())
            .and_then(|slot| slot.cell.charge(self.slots.loaded::<M>(slot), machine, request));
        let ruling = match ruling {
            Some(ruling) => ruling,
            None => {
                let (outcome, charged) = self.claim_and_charge(asked, slot);
                slot = charged;
                match outcome {
                    Ok(ruling) => ruling,
                    Err(full) => return Charged::Full(full),
                }
            }
        };
        // Without a slot nothing was charged.
        let (generation, place) =
            slot.map_or((ChargeReceipt::NO_LIFE, 0), |slot| self.slots.place_of(slot));
        match ruling.receipt(machine, request, generation, place) {
            Ok(paid) => Charged::Admitted(paid),
            Err(denied) => Charged::Denied(denied),
        }
    }

    /// Looks once for the key's slot, and tries one compare-and-swap to charge it refundably. `Err` is the denial.
    /// `None`: nothing was charged, and [`charge`](Self::charge) decides.
    #[inline(always)]
    pub(super) fn charge_found<M: Refund>(
        &self,
        asked: KeyRequest<'_, M>,
    ) -> Option<Result<ChargeReceipt, M::View>> {
        let KeyRequest { probe, machine, request } = asked;
        let FoundSlot { cell, seen } = self.slots.find_at_once(probe)?;
        match cell.charge_once(seen, machine, request)? {
            Ok(next) => {
                let charge = Receipt { cells: request.cells, at: request.now, next };
                let slot = SlotRef { cell, word: seen.word() };
                let (generation, place) = self.slots.place_of(slot);
                Some(Ok(ChargeReceipt { charge, generation, place }))
            }
            Err(view) => Some(Err(view)),
        }
    }

    /// Replaces the state that was charged, if the key still has that slot, by `next` of it; `false`
    /// if not.
    pub(super) fn revise_charged(
        &self,
        probe: Option<Probe>,
        paid: &ChargeReceipt,
        next: impl Fn(u64) -> u64,
    ) -> bool {
        let slot = self.slots.charged_slot(probe, paid);
        slot.is_some_and(|SlotRef { cell, word }| cell.revise(word, next))
    }

    /// Replaces the state of a key, if it has one, by `next` of it.
    pub(super) fn revise(&self, probe: Probe, next: impl Fn(u64) -> u64) {
        if let Some(SlotRef { cell, word }) = self.slots.find_committed(probe) {
            cell.revise(word, next);
        }
    }

    /// Replaces the state of every key by `next` of it. A slot that changes hands meanwhile, or
    /// that no key has, stays as it is.
    pub(super) fn revise_all(&self, next: impl Fn(u64) -> u64) {
        for bucket in 0..self.slots.bucket_count() {
            for SlotRef { cell, word } in self.slots.committed_in(bucket) {
                cell.revise(word, &next);
            }
        }
    }

    /// Reads the view by which the request would be decided; `None` if the key has no state.
    pub(super) fn peek<M: StateMachine>(
        &self,
        probe: Probe,
        machine: &M,
        request: Request,
    ) -> Option<M::View> {
        loop {
            let slot = self.slots.find_committed(probe)?;
            let view = slot.cell.peek(self.slots.loaded::<M>(slot), machine, request);
            if view.is_some() {
                return view;
            }
        }
    }

    /// Gives up the key's slot, if it has one.
    pub(super) fn forget(&self, probe: Probe) {
        while let Some(SlotRef { cell, word }) = self.slots.find_committed(probe) {
            if cell.swap(word, K::vacated(word)).is_ok() {
                return;
            }
        }
    }

    /// How many keys have a live state: counted in `sample` buckets, spread evenly, and scaled up.
    pub(super) fn estimate_live<M: StateMachine>(
        &self,
        machine: &M,
        now: Tick,
        sample: u32,
    ) -> usize {
        let instant = machine.instant(now);
        let is_live = |slot: &SlotRef<'_, K::Word>| {
            matches!(machine.liveness(slot.word.state(), instant), Liveness::Live { .. })
        };
        let buckets = self.slots.bucket_count();
        let step = buckets.div_ceil(sample.max(1)).max(1);
        let visited = (0..buckets).step_by(step as usize);
        let (mut counted, all, some) = (0, u128::from(buckets), visited.len() as u128);
        for bucket in visited {
            counted += self.slots.committed_in(bucket).filter(is_live).count() as u128;
        }
        usize::try_from(counted * all / some).unwrap_or(usize::MAX)
    }
}
