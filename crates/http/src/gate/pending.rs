//! Decisions of another process, for which the request waits.

use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};

use super::GatePermit;
use crate::denial::Reason;
use crate::headers::Report;

/// The final decision of a gate: a permit, or the reason of the denial.
///
/// ```
/// use tollgate_http::{GatePermit, Report, GateDecision};
/// let decision: GateDecision = Ok(GatePermit::default());
/// ```
pub type GateDecision = Result<GatePermit, Reason>;

/// A verdict that is not known yet, for example because a server that several processes share decides.
///
/// The request waits for this future, so it must complete soon even if that server is down. If the
/// client leaves meanwhile, the future is dropped, and what it has charged by then stays charged.
/// If another limit denies the request, the future may be dropped before it is polled: then nothing may stay charged.
///
/// ```
/// use tollgate_http::{GatePermit, PendingVerdict, Gate, Reason, Report, Verdict};
///
/// /// Another process decides each request.
/// struct Remote;
/// impl Gate for Remote {
///     fn decide(&self, request: &http::request::Parts, _: &mut Report) -> Verdict {
///         let path = request.uri.path().to_owned();
///         Verdict::Pending(PendingVerdict::new(async move {
///             let is_fine = path != "/forbidden"; // here it would ask, and await the answer
///             let decision = is_fine.then(GatePermit::default).ok_or(Reason::OverLimit);
///             (decision, Report::default())
///         }))
///     }
/// }
/// let (request, ()) = http::Request::get("/forbidden").body(())?.into_parts();
/// let Verdict::Pending(pending) = Remote.decide(&request, &mut Report::default()) else { panic!() };
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// assert!(matches!(pending.await, (Err(Reason::OverLimit), _)));
/// # });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "nothing is decided until it is awaited"]
pub struct PendingVerdict(Pin<Box<dyn Future<Output = (GateDecision, Report)> + Send>>);

impl PendingVerdict {
    /// Wraps a future that returns the decision and what its limits report.
    ///
    /// ```
    /// use tollgate_http::{GatePermit, PendingVerdict, Report};
    /// let asking = PendingVerdict::new(async { (Ok(GatePermit::default()), Report::default()) });
    /// ```
    pub fn new(decision: impl Future<Output = (GateDecision, Report)> + Send + 'static) -> Self {
        Self(Box::pin(decision))
    }
}

impl Future for PendingVerdict {
    type Output = (GateDecision, Report);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<(GateDecision, Report)> {
        self.0.as_mut().poll(context)
    }
}

impl fmt::Debug for PendingVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingVerdict").finish_non_exhaustive()
    }
}
