//! The operations that a composite needs of a limit of requests in flight: answers to one request, as other
//! limits give them, and charges without a guard.

use core::hash::Hash;

use crate::algo::StateMachine;
use crate::charge::refund::RefundableCharge;
use crate::concurrency::counting::Taken;
use crate::concurrency::direct::DirectConcurrency;
use crate::concurrency::guard::{Entry, sealed::Enter as _};
use crate::concurrency::{ConcurrencyDenied, ConcurrencyLimiter, WhenFull};
use crate::decision::{Decision, Denied};
use crate::table::{Event, Probe};
use crate::time::{Clock, Tick};

impl<K: Hash + ?Sized, C: Clock> ConcurrencyLimiter<K, C> {
    pub(crate) fn take_one(&self, probe: Probe, now: Tick) -> Taken {
        match self.enter_probe(probe, 1, Some(now)) {
            Ok(entry) => Ok(self.counting.taken(&entry, probe, self.limit_of(&entry))),
            Err(denied) => Err(self.counting.denied_of(&denied)),
        }
    }

    /// The limit that has admitted an entry.
    fn limit_of(&self, entry: &Entry) -> u64 {
        match &self.when_full {
            WhenFull::Share(shared) if !entry.is_in_slot() => shared.0,
            _ => self.counting.limit(),
        }
    }

    pub(crate) fn refund(&self, charge: &RefundableCharge) {
        self.leave(&Entry::of_charge(charge));
    }

    /// The answer to `n` cells, 0 or 1, also of a key that finds no slot. Nothing is counted.
    pub(crate) fn peek_probe(&self, probe: Probe, now: Tick, n: u64) -> Decision {
        let machine = self.counting.machine();
        if let Err((denied, Some(_))) = self.would_enter_by(probe, now, 1) {
            return Err(self.counting.denied_of(&denied));
        }
        let view = self.table.peek(probe, &machine, now, n);
        machine.answer(view.unwrap_or_else(|| machine.unseen()), now, n)
    }

    /// Returns the denial if one more would be denied, for its count or for lack of a slot. It is counted
    /// like that of an entry.
    pub(crate) fn precheck(&self, probe: Probe, now: Tick) -> Result<(), Denied> {
        self.would_enter_by(probe, now, 1).map_err(|(denied, without_slot)| {
            self.count(false);
            if let Some(event) = without_slot {
                self.table.counters().count(event);
            }
            self.counting.denied_of(&denied)
        })
    }

    /// Answers as an entry would, and counts nothing.
    pub(super) fn would_enter(
        &self,
        probe: Probe,
        now: Tick,
        n: u64,
    ) -> Result<(), ConcurrencyDenied> {
        self.would_enter_by(probe, now, n).map_err(|(denied, _)| denied)
    }

    /// The same. A denial has what an entry would count if the key finds no slot.
    fn would_enter_by(
        &self,
        probe: Probe,
        now: Tick,
        n: u64,
    ) -> Result<(), (ConcurrencyDenied, Option<Event>)> {
        let machine = self.counting.machine();
        let view = self.table.peek(probe, &machine, now, n);
        let of_key = machine.answer(view.unwrap_or_else(|| machine.unseen()), now, n);
        of_key.map(drop).map_err(|denied| (denied.into(), None))?;
        let wants_slot = view.is_none() && n > 0;
        let has_place = || self.table.has_place(probe, &machine, now).is_ok();
        match &self.when_full {
            WhenFull::Admit => Ok(()),
            _ if !wants_slot || has_place() => Ok(()),
            WhenFull::Deny => {
                Err((ConcurrencyDenied::no_slot(machine.limit), Some(Event::DeniedFull)))
            }
            WhenFull::Share(shared) => {
                let machine = self.counting.machine_of(shared.0);
                let answer = machine.answer(shared.1.cell().read(&machine, now, n), now, n);
                answer.map(drop).map_err(|denied| (denied.into(), Some(Event::Overflowed)))
            }
        }
    }
}

impl<C: Clock> DirectConcurrency<C> {
    pub(crate) fn take_one(&self, now: Tick) -> Taken {
        let counting = self.counting();
        match self.enter_cells(&(), 1, Some(now)) {
            Ok(entry) => Ok(counting.taken(&entry, Probe::default(), counting.limit())),
            Err(denied) => Err(counting.denied_of(&denied)),
        }
    }

    pub(crate) fn refund(&self, charge: &RefundableCharge) {
        self.leave(&Entry::of_charge(charge));
    }

    pub(crate) fn peek_at(&self, now: Tick, n: u64) -> Decision {
        let machine = self.counting().machine();
        machine.answer(self.cell().read(&machine, now, n), now, n)
    }
}
