//! Requests that no lease can serve: for no cells, or for more than a lease has.

use tollgate::Tick;

use super::{Attempt, Completion, KeyState, Prefetch, Settings, denied, unavailable};
use crate::answer::Origin;
use crate::lease::lease_cell::{CallState, Until};
use crate::lease::lease_source::{Grant, LeaseRequest};
use crate::unavailable::Unavailable;

impl KeyState {
    /// Tries to answer a request that no lease can serve. `None` means that the source must be
    /// called.
    pub(in crate::lease) fn try_unleased(&self, n: u64, now: Tick) -> Option<Attempt> {
        if n == 0 {
            let is_known = self.last_reply.limit.read() != 0;
            return is_known
                .then(|| Attempt::Answered(self.admitted(Origin::Memory, now), Prefetch::No));
        }
        let failed = match self.lease_cell.call_state(now) {
            CallState::Paused(_, _, end) => unavailable(end),
            _ => None,
        };
        let Some(until) = self.lease_cell.denied(n, now) else {
            return failed.map(Attempt::Unavailable);
        };
        // The limit may have been raised. A denial until a time ends by itself.
        let is_due = until == Until::Never && now >= Tick::from_nanos(self.recheck_at_nanos.read());
        let asks = is_due && failed.is_none();
        (!asks).then(|| Attempt::Answered(self.denied(n, until, now), Prefetch::No))
    }

    /// A request is about to call the source for itself alone. If it asks again after a denial, other requests that the
    /// denial covers do not call for as long as a denial is trusted; those of other threads at the same moment may.
    pub(in crate::lease) fn begin_unleased(&self, n: u64, now: Tick, settings: &Settings) {
        if self.lease_cell.denied(n, now).is_some() {
            self.recheck_after(settings.memory_nanos, now);
        }
    }

    /// The answer to a request that called the source for itself alone. If the source failed, a denial that is
    /// remembered holds.
    pub(in crate::lease) fn complete_unleased(
        &self,
        n: u64,
        sent: Tick,
        now: Tick,
        reply: Result<Grant, Unavailable>,
        settings: &Settings,
    ) -> Completion {
        let grant = match reply {
            Ok(grant) => grant,
            Err(why) => {
                return match self.lease_cell.denied(n, now) {
                    Some(until) => Completion::Answered(self.denied(n, until, now)),
                    None => Completion::Unavailable(why),
                };
            }
        };
        self.record_reply(&grant.parts, now);
        if grant.covers(LeaseRequest { min: n, max: n }) {
            self.lease_cell.admit(n);
            let late = n > 0 && now >= sent.saturating_add(grant.lifetime);
            return match late {
                true => Completion::Late,
                false => Completion::Answered(self.admitted(Origin::Server, now)),
            };
        }
        self.remember(n, &grant, now, settings);
        denied(&grant)
    }
}
