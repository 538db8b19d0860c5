//! A request of a key that finds no slot: all candidates hold live keys of others, and none may be evicted.

use core::hash::Hash;
use core::time::Duration;

use super::peek::unseen;
use crate::algo::{Algorithm, StateMachine, WithinDelay};
use crate::cell::InFull;
use crate::decision::{Decision, Denied, OutOfLine, Permit};
use crate::limiter::{Limiter, WhenFull};
use crate::table::{Event, Full, Probe};
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
        let decision = match &self.when_full {
            WhenFull::Evict | WhenFull::Deny => Err(self.no_slot(nearest_idle, now)),
            WhenFull::Admit => self.admit_untracked(n, now),
            WhenFull::Share(shared) => {
                let (params, bucket) = &**shared;
                let cell = bucket.cell();
                let algo = self.still(params, now);
                match max_delay {
                    Some(bound) if A::Params::MAY_DELAY => {
                        cell.answer::<_, InFull>(&WithinDelay::new(&*algo, bound), now, n)
                    }
                    _ => cell.answer::<_, InFull>(&*algo, now, n),
                }
            }
        };
        self.count_full(decision.is_ok());
        OutOfLine(decision)
    }

    /// The answer to `n` cells of a key for which a lookup found no slot, if none is free for it. Nothing is charged or
    /// counted. `None`: the key would get a slot, or needs none.
    pub(crate) fn peek_full(
        &self,
        algo: &A::Params,
        probe: Probe,
        n: u64,
        now: Tick,
    ) -> Option<Decision> {
        if matches!(self.when_full, WhenFull::Evict) {
            return None;
        }
        let is_denied_at_once = match algo.answer(unseen(algo, n, now), now, n) {
            Err(denied) => denied.is_final() || !algo.starts_in_debt(),
            Ok(_) => false,
        };
        if is_denied_at_once {
            return None;
        }
        let Err(Full { nearest_idle }) = self.table.has_place(probe, algo, now) else {
            return None;
        };
        Some(match &self.when_full {
            WhenFull::Evict | WhenFull::Deny => Err(self.no_slot(nearest_idle, now)),
            WhenFull::Admit => self.admit_untracked(n, now),
            WhenFull::Share(shared) => shared.1.cell().peek(&*self.still(&shared.0, now), now, n),
        })
    }

    /// Counts a request of a key that finds no slot.
    pub(crate) fn count_full(&self, admitted: bool) {
        self.table.counters().count(match self.when_full {
            WhenFull::Evict | WhenFull::Deny => Event::DeniedFull,
            WhenFull::Admit if admitted => Event::AdmittedFull,
            // A plan may allow more at once than the limiter's own quota, which decides here.
            WhenFull::Admit => return,
            WhenFull::Share(_) => Event::Overflowed,
        });
    }

    fn no_slot(&self, nearest_idle: u64, now: Tick) -> Denied {
        self.still(&self.params, now).no_slot(nearest_idle, now, self.table.skew())
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
