//! What a composite needs of a limit of requests in flight: answers of one request, as other limits give
//! them, and charges without a guard.

use core::hash::Hash;

use crate::algo::StateMachine;
use crate::charge::refund::RefundableCharge;
use crate::concurrency::counting::Taken;
use crate::concurrency::direct::DirectConcurrency;
use crate::concurrency::guard::{Entry, sealed::Enter as _};
use crate::concurrency::{ConcurrencyDenied, ConcurrencyLimiter, WhenFull};
use crate::decision::{Decision, Denied};
use crate::table::Probe;
use crate::time::{Clock, Tick};

impl<K: Hash + ?Sized, C: Clock> ConcurrencyLimiter<K, C> {
    pub(crate) fn take_one(&self, probe: Probe, now: Tick) -> Taken {
        self.counting.taken(self.enter_probe(probe, 1, Some(now)), probe)
    }

    pub(crate) fn give_back(&self, charge: &RefundableCharge) {
        self.leave(&Entry::of_charge(charge));
    }

    pub(crate) fn peek_probe(&self, probe: Probe, now: Tick, n: u64) -> Decision {
        let machine = self.counting.machine();
        let view = self.table.peek(probe, &machine, now, n);
        machine.answer(view.unwrap_or_else(|| machine.unseen()), now, n)
    }

    /// Returns the denial if one more would be denied, for its count or for want of a slot. It is counted
    /// like that of an entry.
    pub(crate) fn precheck(&self, probe: Probe, now: Tick) -> Result<(), Denied> {
        self.would_enter(probe, now, 1).map_err(|denied| {
            self.count(false);
            if denied.found_no_slot {
                self.count_denied_full();
            }
            self.counting.machine().denied_at(denied.cells_taken())
        })
    }

    /// Answers as an entry would, and counts nothing.
    pub(super) fn would_enter(
        &self,
        probe: Probe,
        now: Tick,
        n: u64,
    ) -> Result<(), ConcurrencyDenied> {
        let machine = self.counting.machine();
        let view = self.table.peek(probe, &machine, now, n);
        machine.answer(view.unwrap_or_else(|| machine.unseen()), now, n).map(drop)?;
        let wants_slot = view.is_none() && n > 0;
        let has_place = || self.table.has_place(probe, &machine, now).is_ok();
        match &self.when_full {
            WhenFull::Admit => Ok(()),
            _ if !wants_slot || has_place() => Ok(()),
            WhenFull::Deny => Err(ConcurrencyDenied::no_slot(machine.limit)),
            WhenFull::Share(shared) => {
                let machine = self.counting.machine_of(shared.0);
                let view = shared.1.cell().read(&machine, now, n);
                Ok(machine.answer(view, now, n).map(drop)?)
            }
        }
    }
}

impl<C: Clock> DirectConcurrency<C> {
    pub(crate) fn take_one(&self, now: Tick) -> Taken {
        self.counting().taken(self.enter_cells(&(), 1, Some(now)), Probe::default())
    }

    pub(crate) fn give_back(&self, charge: &RefundableCharge) {
        self.leave(&Entry::of_charge(charge));
    }

    pub(crate) fn peek_at(&self, now: Tick, n: u64) -> Decision {
        let machine = self.counting().machine();
        machine.answer(self.cell().read(&machine, now, n), now, n)
    }
}
