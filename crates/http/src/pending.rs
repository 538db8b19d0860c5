//! Decisions that take a while, since another process is asked.

use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};

use crate::denial::Reason;
use crate::gate::{Admission, Report};

/// What a gate decided in the end, and what each limit said.
///
/// ```
/// use tollgate_http::{Admission, Report, Ruling};
/// let ruling: Ruling = Ok(Admission::default());
/// ```
pub type Ruling = Result<Admission, Reason>;

/// A decision that is not there yet, say since a server that several processes share is asked.
///
/// The request waits for it, so the future must end soon whatever becomes of that server. If the
/// client leaves meanwhile, the future is dropped: what it has charged by then stays charged.
///
/// ```
/// use tollgate_http::{Admission, Asking, Gate, Reason, Report, Verdict};
///
/// /// Asks somebody else about each request.
/// struct Elsewhere;
/// impl Gate for Elsewhere {
///     fn decide(&self, request: &http::request::Parts, _: &mut Report) -> Verdict {
///         let path = request.uri.path().to_owned();
///         Verdict::Ask(Asking::new(async move {
///             let is_fine = path != "/forbidden"; // asks, and awaits the answer
///             let ruling = is_fine.then(Admission::default).ok_or(Reason::OverLimit);
///             (ruling, Report::default())
///         }))
///     }
/// }
/// let (request, ()) = http::Request::get("/forbidden").body(())?.into_parts();
/// let Verdict::Ask(asking) = Elsewhere.decide(&request, &mut Report::default()) else { panic!() };
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// assert!(matches!(asking.await, (Err(Reason::OverLimit), _)));
/// # });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "nothing is asked until it is awaited"]
pub struct Asking(Pin<Box<dyn Future<Output = (Ruling, Report)> + Send>>);

impl Asking {
    /// A decision that this future makes, and what its limits say of the request.
    ///
    /// ```
    /// use tollgate_http::{Admission, Asking, Report};
    /// let asking = Asking::new(async { (Ok(Admission::default()), Report::default()) });
    /// ```
    pub fn new(decision: impl Future<Output = (Ruling, Report)> + Send + 'static) -> Self {
        Self(Box::pin(decision))
    }
}

impl Future for Asking {
    type Output = (Ruling, Report);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<(Ruling, Report)> {
        self.0.as_mut().poll(context)
    }
}

impl fmt::Debug for Asking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asking").finish_non_exhaustive()
    }
}
