//! A request of a key that finds no slot: all candidates hold live keys of others, and none may be evicted.

use core::hash::Hash;
use core::time::Duration;

use super::peek::unseen;
use crate::algo::{Algorithm, StateMachine, WithinDelay};
use crate::cell::InFull;
use crate::decision::{Decision, OutOfLine, Permit};
use crate::limiter::{Limiter, WhenFull};
use crate::table::Event;
use crate::time::{Clock, Tick};

impl<K: Hash + ?Sized, A: Algorithm, C: Clock> Limiter<K, A, C> {
    /// As [`at_full_table`](Self::at_full_table), for callers that treat [`WhenFull::Share`] in their own way.
    pub(crate) fn without_slot(&self, nearest_idle: u64, n: u64, now: Tick) -> Decision {
        let OutOfLine(decision) = self.at_full_table(nearest_idle, n, now, None);
        decision
    }

    /// Decides where all candidate slots hold live keys of others, and none may be evicted.
    #[cold]
    #[inline(never)]
    pub(super) fn at_full_table(
        &self,
        nearest_idle: u64,
        n: u64,
        now: Tick,
        max_delay: Option<Duration>,
    ) -> OutOfLine<Decision> {
        let counters = self.table.counters();
        OutOfLine(match &self.when_full {
            WhenFull::Evict | WhenFull::Deny => {
                counters.count(Event::DeniedFull);
                let algo = self.still(&self.params, now);
                Err(algo.no_slot(nearest_idle, now, self.table.skew()))
            }
            WhenFull::Admit => {
                counters.count(Event::AdmittedFull);
                self.admit_untracked(n, now)
            }
            WhenFull::Share(shared) => {
                counters.count(Event::Overflowed);
                let (params, bucket) = &**shared;
                let cell = bucket.cell();
                let algo = self.still(params, now);
                match max_delay {
                    Some(bound) => {
                        cell.answer::<_, InFull>(&WithinDelay::new(&*algo, bound), now, n)
                    }
                    None => cell.answer::<_, InFull>(&*algo, now, n),
                }
            }
        })
    }

    /// Admits, and answers as if the key were fresh.
    fn admit_untracked(&self, n: u64, now: Tick) -> Decision {
        let algo = self.still(&self.params, now);
        match algo.answer(unseen(&*algo, n, now), now, n) {
            Err(denied) if !denied.is_final() => Ok(Permit::despite(denied)),
            decision => decision,
        }
    }
}
