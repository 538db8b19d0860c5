//! An adaptive limit of requests in flight: a controller moves it by how the responses come.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use http::{StatusCode, request, response};
use tollgate::clock::QuantaClock;
use tollgate::concurrency::adaptive::{AdaptiveLimit, OwnedAdaptiveGuard};
use tollgate::{Clock, Tick};

use crate::gate::{Charge, Gate, GatePermit, Verdict};
use crate::headers::{Policy, PolicyError, Reading, Report};

/// A limit of all requests in flight that follows what the service can take.
///
/// A request is in flight from its admission until the body of its response has been sent, has failed, or
/// was dropped; with [`until_head`](Self::until_head), only until the head of its response. Its latency is the time
/// from when it is forwarded until the head of the response: a wait for a turn, or for a pending verdict of another
/// limit, is not in it. A response with the status 500, 502, 503 or 504 counts as failed;
/// [`failed_if`](Self::failed_if) sets another rule. A request that the service does not answer (it returns an error,
/// or the client leaves first) is not counted as a sample.
///
/// The `RateLimit` fields have the quota unit `concurrent-requests` and no time: `q` is the largest limit
/// that there may be, and `r` what is left of the limit of the moment. A denial has the status 429, and
/// `Retry-After: 1`. A gRPC response asks for a second, too.
///
/// **Guarantee.** That of [`AdaptiveLimit`]. It costs an allocation for each request.
///
/// **Not guaranteed.**
///
/// - A latency for each key: all requests share one limit. Put keyed limits before it, in
///   [`Several`](crate::Several).
/// - A connection that a response has upgraded (a WebSocket) is in flight no more.
/// - Room beside long responses. A request is a sample only when it is in flight no more, so slow downloads and
///   streams of events can hold the limit. With [`MinLatency`](tollgate::concurrency::adaptive::MinLatency) they can
///   stop a service: while it measures, the limit is the smallest one, and that many streams deny all other requests
///   until one of them ends. Keep streams out with [`skip`](crate::LayerBuilder::skip), use
///   [`until_head`](Self::until_head), or take [`Gradient`](tollgate::concurrency::adaptive::Gradient), which does
///   not lower the limit to measure.
///
/// ```
/// use std::sync::Arc;
/// use tollgate::concurrency::adaptive::{AdaptiveLimit, MinLatency};
/// use tollgate_http::{AdaptiveInFlightLimit, RateLimitLayer};
///
/// let limit = Arc::new(AdaptiveLimit::builder(MinLatency::new()).limits(3, 500).build()?);
/// let layer = RateLimitLayer::new(AdaptiveInFlightLimit::new("load", limit)?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct AdaptiveInFlightLimit<C = QuantaClock> {
    policy: Policy,
    limit: Arc<AdaptiveLimit<C>>,
    failed: fn(StatusCode) -> bool,
    until_head: bool,
}

impl<C: Clock + Send + Sync + 'static> AdaptiveInFlightLimit<C> {
    /// Counts each request in `limit`. `name` is that of the policy in the `RateLimit` fields.
    ///
    /// # Errors
    ///
    /// The name does not fit the `RateLimit` fields.
    pub fn new(name: &str, limit: Arc<AdaptiveLimit<C>>) -> Result<Self, PolicyError> {
        let policy = Policy::of_requests_in_flight(name, *limit.limits().end())?;
        Ok(Self { policy, limit, failed: shows_overload, until_head: false })
    }

    /// Sets which statuses count as failed.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use tollgate::concurrency::adaptive::{AdaptiveLimit, Aimd};
    /// # use tollgate_http::AdaptiveInFlightLimit;
    /// let limit = Arc::new(AdaptiveLimit::builder(Aimd::new()).build()?);
    /// let gate = AdaptiveInFlightLimit::new("load", limit)?
    ///     .failed_if(|status| status == http::StatusCode::GATEWAY_TIMEOUT);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn failed_if(self, failed: fn(StatusCode) -> bool) -> Self {
        Self { failed, ..self }
    }

    /// Counts a request as in flight until the head of its response only. A body that takes long, as that of a
    /// stream of events, then takes no place, and delays no sample. The limit does not bound how many bodies are
    /// sent at a time.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use tollgate::concurrency::adaptive::{AdaptiveLimit, MinLatency};
    /// # use tollgate_http::AdaptiveInFlightLimit;
    /// let limit = Arc::new(AdaptiveLimit::builder(MinLatency::new()).limits(3, 500).build()?);
    /// let gate = AdaptiveInFlightLimit::new("load", limit)?.until_head();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn until_head(self) -> Self {
        Self { until_head: true, ..self }
    }

    /// The limit.
    pub fn limit(&self) -> &Arc<AdaptiveLimit<C>> {
        &self.limit
    }

    fn reading(&self, limit: u64, in_flight: u64) -> Reading {
        Reading::new(self.policy.clone(), limit, limit.saturating_sub(in_flight))
    }

    fn denied(&self, limit: u64, in_flight: u64) -> Reading {
        let reading = self.reading(limit, in_flight);
        Reading { denied: true, retry_after: Some(Duration::ZERO), ..reading }
    }
}

fn shows_overload(status: StatusCode) -> bool {
    matches!(status.as_u16(), 500 | 502..=504)
}

impl<C: Clock + Send + Sync + 'static> Gate for AdaptiveInFlightLimit<C> {
    fn decide(&self, _: &request::Parts, report: &mut Report) -> Verdict {
        match self.limit.enter_owned() {
            Ok(guard) => {
                report.note(self.reading(self.limit.limit(), self.limit.in_flight()));
                let limit = Arc::clone(&self.limit);
                let (guard, answer) = (Some(guard), None);
                let Self { failed, until_head, .. } = *self;
                let held = AdaptiveCharge { guard, answer, failed, until_head, limit };
                let charge: Option<Box<dyn Charge>> = Some(Box::new(held));
                Verdict::Admit(GatePermit { charge, ..GatePermit::default() })
            }
            Err(denied) => {
                report.note(self.denied(denied.limit(), denied.in_flight()));
                Verdict::Deny
            }
        }
    }

    fn peek(&self, _: &request::Parts, _: u64, report: &mut Report) {
        let (limit, in_flight) = (self.limit.limit(), self.limit.in_flight());
        if in_flight >= limit {
            report.note(self.denied(limit, in_flight));
        }
    }
}

/// A request in flight. Dropping it, wherever that happens, ends it.
struct AdaptiveCharge<C: Clock> {
    /// `None` only while it is dropped.
    guard: Option<OwnedAdaptiveGuard<C>>,
    /// When the head of the response came, and whether it counts as failed.
    answer: Option<(Tick, bool)>,
    failed: fn(StatusCode) -> bool,
    until_head: bool,
    limit: Arc<AdaptiveLimit<C>>,
}

impl<C: Clock + Send + Sync + 'static> Charge for AdaptiveCharge<C> {
    fn refund(self: Box<Self>) {}

    /// The service takes no part in what came before.
    fn forwarded(&mut self) {
        let now = self.limit.clock().now();
        self.guard.iter_mut().for_each(|guard| guard.restart_at(now));
    }

    /// Stays until the body has ended, or ends here. After an upgrade, a server may keep the other protocol as the
    /// body.
    fn answered(mut self: Box<Self>, response: &response::Parts) -> Option<Box<dyn Charge>> {
        self.answer = Some((self.limit.clock().now(), (self.failed)(response.status)));
        let ends = self.until_head || response.status == StatusCode::SWITCHING_PROTOCOLS;
        (!ends).then_some(self as Box<dyn Charge>)
    }

    fn sent(self: Box<Self>, _: u64) {}
}

impl<C: Clock> Drop for AdaptiveCharge<C> {
    fn drop(&mut self) {
        match (self.guard.take(), self.answer) {
            (Some(guard), Some((at, true))) => guard.failed_at(at),
            (Some(guard), Some((at, false))) => guard.succeeded_at(at),
            (Some(guard), None) => guard.ignored(),
            (None, _) => {}
        }
    }
}

impl<C: Clock> fmt::Debug for AdaptiveCharge<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdaptiveCharge").field("guard", &self.guard).finish_non_exhaustive()
    }
}

impl<C> fmt::Debug for AdaptiveInFlightLimit<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdaptiveInFlightLimit")
            .field("policy", &self.policy)
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}
