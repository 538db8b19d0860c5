//! Requests that no lease can serve: for no cells, or for more than a lease has.

use tollgate::Tick;

use super::{Attempt, Completion, KeyState, Prefetch, denied, unavailable, until};
use crate::answer::Origin;
use crate::lease::lease_cell::CallState;
use crate::lease::lease_source::{Grant, LeaseRequest};

impl KeyState {
    /// Tries to answer a request that no lease can serve. `None` means that the source must be
    /// called.
    pub(in crate::lease) fn try_unleased(&self, n: u64, now: Tick) -> Option<Attempt> {
        if n == 0 {
            let is_known = self.last_reply.limit.read() != 0;
            return is_known
                .then(|| Attempt::Answered(self.admitted(Origin::Memory, now), Prefetch::No));
        }
        if let Some(until) = self.lease_cell.denied(n, now) {
            return Some(Attempt::Answered(self.denied(n, until, now), Prefetch::No));
        }
        match self.lease_cell.call_state(now) {
            CallState::Paused(_, _, end) => unavailable(end).map(Attempt::Unavailable),
            _ => None,
        }
    }

    /// The answer to a request that called the source for itself alone.
    pub(in crate::lease) fn complete_unleased(
        &self,
        n: u64,
        sent: Tick,
        now: Tick,
        grant: &Grant,
    ) -> Completion {
        self.record_reply(&grant.parts, now);
        if grant.covers(LeaseRequest { min: n, max: n }) {
            let late = n > 0 && now >= sent.saturating_add(grant.lifetime);
            return match late {
                true => Completion::Late,
                false => Completion::Answered(self.admitted(Origin::Server, now)),
            };
        }
        self.lease_cell.deny(n, until(grant, now));
        denied(grant)
    }
}
