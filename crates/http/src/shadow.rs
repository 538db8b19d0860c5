//! Gates in shadow: they decide and charge, and nothing is denied.

use core::time::Duration;

use http::request;

use crate::gate::{Gate, GatePermit, PendingVerdict, Verdict};
use crate::headers::Report;

/// A gate in shadow: it decides and charges, and all requests are admitted.
///
/// Its denials are counted in [`Stats::shadow_denied`](crate::Stats::shadow_denied) and passed to
/// [`inspect`](crate::LayerBuilder::inspect). Responses do not show them, and no request waits for a turn. A
/// request does wait for a [pending](Verdict::Pending) verdict. A queue in shadow counts a request as denied if
/// its turn would come later than those of the requests that [may wait](crate::LayerBuilder::max_waiting_per_key).
/// So give the layer the [`wait`](crate::LayerBuilder::wait) that it will have in force. This needs a gate that
/// implements [`decide_queued`](Gate::decide_queued), as a [`Limit`](crate::Limit) does.
///
/// ```
/// use tollgate::Quota;
/// use tollgate_http::{Gate, Limit, Report, ShadowGate, Verdict, key};
///
/// let shadow = ShadowGate::new(Limit::gcra("a", Quota::per_hour(1), key::from_fn(|_| Some(0)))?);
/// let (request, ()) = http::Request::new(()).into_parts();
/// let mut report = Report::default();
/// for _ in 0..2 {
///     assert!(matches!(shadow.decide(&request, &mut report), Verdict::Admit(_)));
/// }
/// assert_eq!(report.shadow_denials().count(), 1);
/// # Ok::<(), tollgate_http::LimitError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ShadowGate<G>(G);

impl<G: Gate> ShadowGate<G> {
    /// Puts `gate` in shadow.
    ///
    /// ```
    /// # use {tollgate::Quota, tollgate_http::{Limit, ShadowGate, key::PeerIp}};
    /// let shadow = ShadowGate::new(Limit::gcra("a", Quota::per_hour(1), PeerIp::new())?);
    /// # Ok::<(), tollgate_http::LimitError>(())
    /// ```
    pub fn new(gate: G) -> Self {
        Self(gate)
    }
}

impl<G: Gate> Gate for ShadowGate<G> {
    fn decide(&self, request: &request::Parts, report: &mut Report) -> Verdict {
        self.decide_queued(request, u64::MAX, report)
    }

    fn decide_queued(
        &self,
        request: &request::Parts,
        max_waiting: u64,
        report: &mut Report,
    ) -> Verdict {
        let mut shadow = Report::default();
        let verdict = self.0.decide_queued(request, max_waiting, &mut shadow);
        match verdict {
            Verdict::Admit(admission) => {
                report.take_as_shadow(shadow);
                Verdict::Admit(at_once(admission))
            }
            Verdict::Deny | Verdict::QueueFull | Verdict::NoKey(_) | Verdict::Forbidden => {
                report.take_as_shadow(shadow);
                Verdict::Admit(GatePermit::default())
            }
            Verdict::Pending(pending) => Verdict::Pending(PendingVerdict::new(async {
                let (decision, added) = pending.await;
                shadow.add(added);
                let mut report = Report::default();
                report.take_as_shadow(shadow);
                (Ok(decision.map_or_else(|_| GatePermit::default(), at_once)), report)
            })),
        }
    }
}

/// The permit without its delay.
fn at_once(admission: GatePermit) -> GatePermit {
    GatePermit { delay: Duration::ZERO, ..admission }
}
