//! Limits on trial.

use core::time::Duration;

use http::request;

use crate::pending::Asking;
use crate::gate::{Admission, Gate, Report, Verdict};

/// A gate on trial: it counts and charges, and denies nobody.
///
/// What it would have denied is counted in
/// [`Stats::shadow_denied`](crate::Stats::shadow_denied) and told to
/// [`inspect`](crate::LayerBuilder::inspect). Clients are told nothing of it, and nobody waits
/// for a turn; but where the gate [asks elsewhere](Verdict::Ask), requests wait for the answer.
///
/// ```
/// use tollgate::Quota;
/// use tollgate_http::{Gate, Limit, Report, Shadow, Verdict, key};
///
/// let trial = Shadow::new(Limit::gcra("a", Quota::per_hour(1), key::from_fn(|_| Some(0)))?);
/// let (request, ()) = http::Request::new(()).into_parts();
/// let mut report = Report::default();
/// for _ in 0..2 {
///     assert!(matches!(trial.decide(&request, &mut report), Verdict::Admit(_)));
/// }
/// assert_eq!(report.shadow_denials().count(), 1);
/// # Ok::<(), tollgate_http::LimitError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Shadow<G>(G);

impl<G: Gate> Shadow<G> {
    /// Puts `gate` on trial.
    ///
    /// ```
    /// # use {tollgate::Quota, tollgate_http::{Limit, Shadow, key::PeerIp}};
    /// let trial = Shadow::new(Limit::gcra("a", Quota::per_hour(1), PeerIp::new())?);
    /// # Ok::<(), tollgate_http::LimitError>(())
    /// ```
    pub fn new(gate: G) -> Self {
        Self(gate)
    }
}

impl<G: Gate> Gate for Shadow<G> {
    fn decide(&self, request: &request::Parts, report: &mut Report) -> Verdict {
        let mut trial = Report::default();
        let verdict = self.0.decide(request, &mut trial);
        match verdict {
            Verdict::Admit(admission) => {
                report.take_as_shadow(trial);
                Verdict::Admit(at_once(admission))
            }
            Verdict::Deny | Verdict::QueueFull | Verdict::WithoutKey(_) => {
                report.take_as_shadow(trial);
                Verdict::Admit(Admission::default())
            }
            Verdict::Ask(asking) => Verdict::Ask(Asking::new(async {
                let (ruling, said) = asking.await;
                trial.add(said);
                let mut report = Report::default();
                report.take_as_shadow(trial);
                (Ok(ruling.map_or_else(|_| Admission::default(), at_once)), report)
            })),
        }
    }
}

fn at_once(admission: Admission) -> Admission {
    Admission { delay: Duration::ZERO, ..admission }
}
