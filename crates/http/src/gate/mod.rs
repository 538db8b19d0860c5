//! The interface between the layer and what decides: a [`Gate`] returns a [`Verdict`] and fills in a
//! [`Report`].

mod pending;

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use http::{request, response};

pub use self::pending::{GateDecision, PendingVerdict};
use crate::headers::Report;
use crate::key::KeyError;

/// Decides whether a request is admitted.
///
/// A [`Limit`](crate::Limit) is a gate, and so are [`Several`](crate::Several) limits together. Implement
/// it for anything else that decides by the head of a request: rules, or a composite of limiters.
///
/// ```
/// use tollgate_http::{GatePermit, Gate, Report, Verdict};
///
/// /// Denies all but `GET`.
/// struct ReadOnly;
/// impl Gate for ReadOnly {
///     fn decide(&self, request: &http::request::Parts, _: &mut Report) -> Verdict {
///         match request.method {
///             http::Method::GET => Verdict::Admit(GatePermit::default()),
///             _ => Verdict::Deny,
///         }
///     }
/// }
/// let (get, ()) = http::Request::new(()).into_parts();
/// assert!(matches!(ReadOnly.decide(&get, &mut Report::default()), Verdict::Admit(_)));
/// ```
pub trait Gate: Send + Sync {
    /// Decides, and adds to `report` what each limit decided.
    fn decide(&self, request: &request::Parts, report: &mut Report) -> Verdict;

    /// Decides a request that may wait in a queue. At most `max_waiting` requests of its key may wait
    /// at a time, this one included. With 0, it may not wait. The layer calls this method: see
    /// [`LayerBuilder::wait`](crate::LayerBuilder::wait).
    ///
    /// If too many requests would wait, the verdict is [`Verdict::QueueFull`], and nothing is charged.
    /// The default calls [`decide`](Self::decide). If the request may not wait, the layer then denies
    /// it after it was charged, and [refunds](Charge::refund) the charge if there is one. Without a refund, the
    /// denied request keeps its turn: the next turn comes later than `Retry-After` says, and a client that obeys
    /// is denied again. So the default suffices only for a gate that never delays a request.
    fn decide_queued(
        &self,
        request: &request::Parts,
        max_waiting: u64,
        report: &mut Report,
    ) -> Verdict {
        let _ = max_waiting;
        self.decide(request, report)
    }

    /// Adds to `report` each limit for which [`decide_queued`](Self::decide_queued) would deny the
    /// request now, and charges nothing. If a limit would deny it for lack of a key, the gate adds
    /// [the error](Report::note_no_key).
    ///
    /// [`Several`](crate::Several) limits are peeked at first, so that a denial charges no other limit. When one of
    /// them denies, the others are peeked at, so that the response has the longest wait. The default adds nothing.
    fn peek(&self, request: &request::Parts, max_waiting: u64, report: &mut Report) {
        let _ = (request, max_waiting, report);
    }
}

/// A pointer to a gate is that gate.
macro_rules! gate_behind {
    ($($pointer:ty),*) => {$(
        impl<G: Gate + ?Sized> Gate for $pointer {
            fn decide(&self, request: &request::Parts, report: &mut Report) -> Verdict {
                (**self).decide(request, report)
            }

            fn decide_queued(
                &self,
                request: &request::Parts,
                max_waiting: u64,
                report: &mut Report,
            ) -> Verdict {
                (**self).decide_queued(request, max_waiting, report)
            }

            fn peek(&self, request: &request::Parts, max_waiting: u64, report: &mut Report) {
                (**self).peek(request, max_waiting, report);
            }
        }
    )*};
}

gate_behind!(Arc<G>, Box<G>);

/// The answer of a [`Gate`].
///
/// ```
/// # use tollgate_http::{GatePermit, Verdict};
/// let verdict = Verdict::Admit(GatePermit::default());
/// assert!(!matches!(verdict, Verdict::Deny));
/// ```
#[derive(Debug)]
#[must_use = "a verdict says whether the request is admitted"]
pub enum Verdict {
    /// The request is admitted.
    Admit(GatePermit),
    /// The request is over a limit. The report names it.
    Deny,
    /// The request would wait behind too many others. The report names the limit that delays it.
    /// Nothing was charged.
    QueueFull,
    /// The request has no key, and the limit denies such requests.
    NoKey(KeyError),
    /// The request is not allowed at all, whatever any limit has left. The answer is 403.
    Forbidden,
    /// Another process decides. The request waits for its answer.
    Pending(PendingVerdict),
}

/// An admission: how long the request waits, and what it was charged.
///
/// ```
/// # use tollgate_http::GatePermit;
/// assert!(GatePermit::default().delay.is_zero());
/// ```
#[derive(Debug, Default)]
pub struct GatePermit {
    /// How long the request waits for its turn.
    pub delay: Duration,
    /// The charge, if the response settles it or it can be refunded.
    pub charge: Option<Box<dyn Charge>>,
}

/// The charge of a request, until its cost is known.
///
/// A charge that is dropped stays charged, so a client that leaves early gets no free request.
///
/// ```
/// use tollgate_http::Charge;
/// use http::response;
///
/// /// Prints what happens to the request.
/// #[derive(Debug)]
/// struct Printed;
/// impl Charge for Printed {
///     fn refund(self: Box<Self>) {
///         println!("not served");
///     }
///     fn answered(self: Box<Self>, response: &response::Parts) -> Option<Box<dyn Charge>> {
///         println!("{}", response.status);
///         None // the body's length does not matter
///     }
///     fn sent(self: Box<Self>, _body_bytes: u64) {}
/// }
/// Box::new(Printed).refund();
/// ```
pub trait Charge: fmt::Debug + Send {
    /// The request is not served: refunds the charge.
    fn refund(self: Box<Self>);

    /// The request has waited, for its turn or for a pending verdict, and is forwarded now. The layer does not call
    /// this for a request that is forwarded at once. The default does nothing.
    fn forwarded(&mut self) {}

    /// The service has returned the head of its response. Returns the charge if the body settles it.
    fn answered(self: Box<Self>, response: &response::Parts) -> Option<Box<dyn Charge>>;

    /// The whole body has been sent: `body_bytes`. The layer calls this when the server reads the end of the
    /// body. If the body tells its end or its length, the server may also drop it after the last byte; an
    /// empty one it may drop unread. The layer then calls this when the server drops the body.
    fn sent(self: Box<Self>, body_bytes: u64);

    /// The body failed, or the client left, after `body_bytes` of it were sent. The default calls
    /// [`sent`](Self::sent).
    fn cut_short(self: Box<Self>, body_bytes: u64) {
        self.sent(body_bytes);
    }
}
