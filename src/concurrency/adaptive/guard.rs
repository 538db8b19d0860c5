//! Guards that report how their request ended.

use core::fmt;
use core::ops::Deref;
use std::sync::Arc;

use super::AdaptiveLimit;
use crate::algo::adaptive::Sample;
use crate::concurrency::error::ConcurrencyDenied;
use crate::concurrency::guard::Entry;
use crate::concurrency::guard::sealed::{Count as _, Enter as _};
use crate::time::quanta_clock::QuantaClock;
use crate::time::{Clock, Tick};

/// A request in flight, by reference: made by [`AdaptiveLimit::enter`].
///
/// Its end is reported by [`succeeded`](Self::succeeded), [`failed`](Self::failed) or
/// [`ignored`](Self::ignored). A guard that is dropped counts as succeeded after the time until then: a
/// request that its client gave up on was at least as slow.
#[must_use = "a guard that is dropped ends its request at once"]
pub struct AdaptiveGuard<'g, C: Clock = QuantaClock>(
    pub(super) AdaptiveGuardBy<&'g AdaptiveLimit<C>, C>,
);

/// A request in flight that holds its limit in an `Arc`: made by [`AdaptiveLimit::enter_owned`].
///
/// Otherwise it is an [`AdaptiveGuard`].
#[must_use = "a guard that is dropped ends its request at once"]
pub struct OwnedAdaptiveGuard<C: Clock = QuantaClock>(
    pub(super) AdaptiveGuardBy<Arc<AdaptiveLimit<C>>, C>,
);

/// A guard that holds its limit by reference or in an `Arc`.
pub(super) struct AdaptiveGuardBy<H, C: Clock>
where
    H: Deref<Target = AdaptiveLimit<C>>,
{
    limit: H,
    entry: Entry,
    /// When it entered, under the limit of that time.
    entered: Tick,
    /// When it reached the upstream: when it entered, or was restarted.
    began: Tick,
    /// Whether at least half of the limit was in flight when it began.
    limited: bool,
    outcome: Outcome,
    ended: Option<Tick>,
}

#[derive(Clone, Copy)]
enum Outcome {
    Succeeded,
    Failed,
    Ignored,
}

impl<H, C: Clock> AdaptiveGuardBy<H, C>
where
    H: Deref<Target = AdaptiveLimit<C>>,
{
    pub(super) fn enter(limit: H, now: Tick) -> Result<Self, ConcurrencyDenied> {
        let entry = limit.gate.enter_cells(&(), 1, Some(now))?;
        let limited = limit.gate.in_flight_after(&entry).saturating_mul(2) >= limit.limit();
        let outcome = Outcome::Succeeded;
        Ok(Self { limit, entry, entered: now, began: now, limited, outcome, ended: None })
    }

    fn restart(&mut self, now: Tick) {
        self.began = now;
    }

    fn end(mut self, outcome: Outcome, ended: Option<Tick>) {
        (self.outcome, self.ended) = (outcome, ended);
    }
}

impl<H, C: Clock> Drop for AdaptiveGuardBy<H, C>
where
    H: Deref<Target = AdaptiveLimit<C>>,
{
    fn drop(&mut self) {
        let Self { ref limit, entry, entered, began, limited, outcome, ended } = *self;
        limit.gate.leave(&entry);
        // The report may come long after the end, and a caller's instant may be ahead of the clock.
        let now = ended.map_or_else(|| limit.clock.now(), |ended| limit.clock.now().max(ended));
        let latency = match outcome {
            Outcome::Ignored => return,
            Outcome::Failed => None,
            Outcome::Succeeded => Some(ended.unwrap_or(now).since(began)),
        };
        limit.record(&Sample { latency, limited }, entered, now);
    }
}

/// The reports of both guards.
macro_rules! reports {
    ($guard:ty) => {
        impl<C: Clock> $guard {
            /// The request reaches the upstream only now, at the instant `now` of the limit's clock: what came before,
            /// such as a wait for its turn, is not in its latency. It was in flight meanwhile, and stays so: it is
            /// still a request of the limit that it entered under.
            pub fn restart_at(&mut self, now: Tick) {
                self.0.restart(now);
            }

            /// The request has ended well: it adds its latency.
            pub fn succeeded(self) {
                self.0.end(Outcome::Succeeded, None);
            }

            /// The same at the instant `now` of the limit's clock, which may be some time ago: its latency ends there.
            pub fn succeeded_at(self, now: Tick) {
                self.0.end(Outcome::Succeeded, Some(now));
            }

            /// The request has failed in a way that shows overload, such as a timeout or a 503.
            pub fn failed(self) {
                self.0.end(Outcome::Failed, None);
            }

            /// The same at the instant `now` of the limit's clock.
            pub fn failed_at(self, now: Tick) {
                self.0.end(Outcome::Failed, Some(now));
            }

            /// The request says nothing of the upstream: it was answered from a cache, or its input was
            /// wrong.
            pub fn ignored(self) {
                self.0.end(Outcome::Ignored, None);
            }
        }
    };
}

reports!(AdaptiveGuard<'_, C>);
reports!(OwnedAdaptiveGuard<C>);

impl<C: Clock> fmt::Debug for AdaptiveGuard<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdaptiveGuard").field("began", &self.0.began).finish_non_exhaustive()
    }
}

impl<C: Clock> fmt::Debug for OwnedAdaptiveGuard<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedAdaptiveGuard").field("began", &self.0.began).finish_non_exhaustive()
    }
}
