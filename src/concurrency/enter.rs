//! Entering and leaving: the paths of a request through a [`ConcurrencyLimiter`].

use core::hash::Hash;

use crate::algo::Receipt;
use crate::cell::{ChargeReceipt, Request};
use crate::concurrency::guard::Entry;
use crate::concurrency::{ConcurrencyDenied, ConcurrencyLimiter, WhenFull};
use crate::sync::{Fault, planted};
use crate::table::{Charged, Event, KeyRequest, Probe};
use crate::time::{Clock, Tick};

impl<K: Hash + ?Sized, C: Clock> ConcurrencyLimiter<K, C> {
    #[inline]
    pub(crate) fn probe(&self, key: &K) -> Probe {
        Probe::new(self.hasher.hash_one(key))
    }

    #[inline]
    pub(crate) fn or_now(&self, at: Option<Tick>) -> Tick {
        self.counting.or_now(at)
    }

    /// Enters a key.
    #[inline(always)]
    pub(super) fn enter_probe(
        &self,
        probe: Probe,
        cells: u64,
        at: Option<Tick>,
    ) -> Result<Entry, ConcurrencyDenied> {
        let machine = self.counting.machine();
        let now = self.counting.if_needed(at);
        let asked = KeyRequest { probe, machine: &machine, request: Request { now, cells } };
        // Each branch makes its own answer, so that it is not copied through memory.
        match self.table.charge_found(asked) {
            Some(Ok(paid)) => {
                self.count(true);
                Ok(Entry::in_slot(paid))
            }
            Some(Err(view)) => {
                if planted(Fault::HolderTakenForLost) {
                    self.leave_for_others();
                }
                self.count(false);
                let (limit, in_flight) = (machine.limit, view.all());
                Err(ConcurrencyDenied { limit, in_flight, found_no_slot: false })
            }
            None => self.enter_elsewhere(probe, cells, at),
        }
    }

    /// The planted fault: refunds a cell of requests that may be under way.
    #[cold]
    fn leave_for_others(&self) {
        self.table.revise_all(|state| {
            let charge = Receipt { cells: 1, at: Tick::ZERO, next: state };
            self.counting.without(state, &ChargeReceipt { charge, generation: 0, place: 0 })
        });
    }

    /// Enters a key that a first look has not found, or whose first try has lost a race.
    #[cold]
    #[inline(never)]
    fn enter_elsewhere(
        &self,
        probe: Probe,
        cells: u64,
        at: Option<Tick>,
    ) -> Result<Entry, ConcurrencyDenied> {
        let machine = self.counting.machine();
        let request = Request { now: self.or_now(at), cells };
        let entry = match self.table.charge(&KeyRequest { probe, machine: &machine, request }) {
            // A key that asks for nothing may have no slot.
            Charged::Admitted(paid) if paid.generation == ChargeReceipt::NO_LIFE => {
                Ok(Entry::uncounted(cells))
            }
            Charged::Admitted(paid) => Ok(Entry::in_slot(paid)),
            Charged::Denied(denied) => Err(denied.into()),
            Charged::Full(_) => self.enter_without_slot(cells, at),
        };
        self.count(entry.is_ok());
        entry
    }

    /// Enters a key that finds no slot.
    #[cold]
    fn enter_without_slot(&self, cells: u64, at: Option<Tick>) -> Result<Entry, ConcurrencyDenied> {
        let counters = self.table.counters();
        match &self.when_full {
            WhenFull::Admit => {
                counters.count(Event::AdmittedFull);
                Ok(Entry::uncounted(cells))
            }
            WhenFull::Deny => {
                self.count_denied_full();
                Err(ConcurrencyDenied::no_slot(self.counting.limit()))
            }
            WhenFull::Share(shared) => {
                counters.count(Event::Overflowed);
                let machine = self.counting.machine_of(shared.0);
                let now = self.or_now(at);
                Ok(Entry::in_bucket(shared.1.cell().charge(&machine, now, cells)?))
            }
        }
    }

    #[inline]
    pub(super) fn count(&self, admitted: bool) {
        if let Some(tally) = &self.tally {
            tally.count(admitted);
        }
    }

    pub(super) fn count_denied_full(&self) {
        self.table.counters().count(Event::DeniedFull);
    }
}
