//! What the layer asks: a [`Gate`], which answers with a [`Verdict`] and fills in a [`Report`].

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use http::{HeaderMap, request, response};
use tollgate::{Decision, Denied};

use crate::pending::Asking;
use crate::headers::{Fields, Wanted};
use crate::key::KeyError;
use crate::policy::Policy;

/// Decides whether a request may go ahead.
///
/// A [`Limit`](crate::Limit) is one, [`Several`](crate::Several) limits together are one, and so
/// can be whatever looks at a request: rules, or a composite of limiters.
///
/// ```
/// use tollgate_http::{Admission, Gate, Report, Verdict};
///
/// /// Denies all but `GET`.
/// struct ReadOnly;
/// impl Gate for ReadOnly {
///     fn decide(&self, request: &http::request::Parts, _: &mut Report) -> Verdict {
///         match request.method {
///             http::Method::GET => Verdict::Admit(Admission::default()),
///             _ => Verdict::Deny,
///         }
///     }
/// }
/// let (get, ()) = http::Request::new(()).into_parts();
/// assert!(matches!(ReadOnly.decide(&get, &mut Report::default()), Verdict::Admit(_)));
/// ```
pub trait Gate: Send + Sync {
    /// Decides, and notes in `report` what each limit said.
    fn decide(&self, request: &request::Parts, report: &mut Report) -> Verdict;

    /// Decides a request behind which at most `max_waiting` requests of its key may wait, itself
    /// included. With 0, it may not wait at all. The layer asks this way: see
    /// [`LayerBuilder::wait`](crate::LayerBuilder::wait).
    ///
    /// A request that would have to wait behind more is [`Verdict::QueueFull`], and is charged
    /// nothing. Unless this is implemented, it is [`decide`](Self::decide): the layer then denies what
    /// may not wait after it was charged, and [cancels](Charge::cancel) the charge where there is one
    /// to cancel. A gate that never delays a request needs nothing else.
    fn decide_queued(
        &self,
        request: &request::Parts,
        max_waiting: u64,
        report: &mut Report,
    ) -> Verdict {
        let _ = max_waiting;
        self.decide(request, report)
    }

    /// Notes in `report` each limit that would deny the request now, as
    /// [`decide_queued`](Self::decide_queued) would, and charges nothing.
    ///
    /// [`Several`](crate::Several) limits look at the others this way when one of them denies, so that
    /// clients are told the longest wait. Unless this is implemented, nothing is noted.
    fn peek(&self, request: &request::Parts, max_waiting: u64, report: &mut Report) {
        let _ = (request, max_waiting, report);
    }
}

impl<G: Gate + ?Sized> Gate for Arc<G> {
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

impl<G: Gate + ?Sized> Gate for Box<G> {
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

/// What a [`Gate`] answers.
///
/// ```
/// # use tollgate_http::{Admission, Verdict};
/// let verdict = Verdict::Admit(Admission::default());
/// assert!(!matches!(verdict, Verdict::Deny));
/// ```
#[derive(Debug)]
#[must_use = "a verdict says whether the request may go ahead"]
pub enum Verdict {
    /// The request may go ahead.
    Admit(Admission),
    /// The request is over a limit: the report says which.
    Deny,
    /// The request would have to wait behind more requests than it may: the report says which limit
    /// delays it. Nothing was charged.
    QueueFull,
    /// The request has no key, and the limit admits none such.
    WithoutKey(KeyError),
    /// It is to be asked elsewhere: the request waits for the answer.
    Ask(Asking),
}

/// A request that may go ahead: when, and what was charged for it.
///
/// ```
/// # use tollgate_http::Admission;
/// assert!(Admission::default().delay.is_zero());
/// ```
#[derive(Debug, Default)]
pub struct Admission {
    /// How long it is to wait first.
    pub delay: Duration,
    /// What was charged, where that is settled by the response or can be given back.
    pub charge: Option<Box<dyn Charge>>,
}

/// What was charged for a request, until its cost is known.
///
/// Dropped, it stays charged: a client that leaves early has no request for free.
///
/// ```
/// use tollgate_http::Charge;
/// use http::response;
///
/// /// Prints what came of it.
/// #[derive(Debug)]
/// struct Told;
/// impl Charge for Told {
///     fn cancel(self: Box<Self>) {
///         println!("not served");
///     }
///     fn answered(self: Box<Self>, response: &response::Parts) -> Option<Box<dyn Charge>> {
///         println!("{}", response.status);
///         None // the body's length does not matter
///     }
///     fn sent(self: Box<Self>, _body_bytes: u64) {}
/// }
/// Box::new(Told).cancel();
/// ```
pub trait Charge: fmt::Debug + Send {
    /// The request is not served: gives back what was charged.
    fn cancel(self: Box<Self>);

    /// The head of the response is there. Returns what is to be settled when the body was sent.
    fn answered(self: Box<Self>, response: &response::Parts) -> Option<Box<dyn Charge>>;

    /// The body has been sent to its end: `body_bytes` of it. An empty body is sent at once.
    fn sent(self: Box<Self>, body_bytes: u64);

    /// The body failed, or the client left, after `body_bytes` of it were sent. Unless this is
    /// implemented, it is [`sent`](Self::sent).
    fn cut_short(self: Box<Self>, body_bytes: u64) {
        self.sent(body_bytes);
    }
}

/// What one limit said of a request.
///
/// ```
/// # use {tollgate::Quota, tollgate_http::{Policy, Reading}};
/// let policy = Policy::new("burst", &Quota::per_second(5))?;
/// let reading = Reading::new(policy, 5, 4);
/// assert!(!reading.denied);
/// # Ok::<(), tollgate_http::PolicyError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reading {
    /// Which limit.
    pub policy: Policy,
    /// The most cells at once.
    pub limit: u64,
    /// Cells left.
    pub remaining: u64,
    /// How long until all cells are back.
    pub reset_after: Duration,
    /// Whether it denied.
    pub denied: bool,
    /// If it denied: how long until it would admit the request; `None` where that is never.
    pub retry_after: Option<Duration>,
    /// If it admitted: how long the request is to wait.
    pub delay: Duration,
}

impl Reading {
    /// An admission with nothing to wait for.
    ///
    /// ```
    /// # use {tollgate::Quota, tollgate_http::{Policy, Reading}};
    /// let mut reading = Reading::new(Policy::new("a", &Quota::per_second(5))?, 5, 0);
    /// reading.denied = true;
    /// reading.retry_after = Some(std::time::Duration::from_millis(200));
    /// # Ok::<(), tollgate_http::PolicyError>(())
    /// ```
    #[must_use]
    pub fn new(policy: Policy, limit: u64, remaining: u64) -> Self {
        let none = Duration::ZERO;
        let (reset_after, delay) = (none, none);
        Self { policy, limit, remaining, reset_after, denied: false, retry_after: None, delay }
    }

    /// What a decision says of a request.
    ///
    /// ```
    /// # use {tollgate::{Direct, Quota}, tollgate_http::{Policy, Reading}};
    /// let quota = Quota::per_hour(1);
    /// let (gate, policy) = (Direct::new(quota)?, Policy::new("a", &quota)?);
    /// assert!(!Reading::of(policy.clone(), &gate.check()).denied);
    /// assert!(Reading::of(policy, &gate.check()).denied);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn of(policy: Policy, decision: &Decision) -> Self {
        match decision {
            Ok(permit) => {
                let (reset_after, delay) = (permit.reset_after(), permit.delay());
                let reading = Self::new(policy, permit.limit(), permit.remaining());
                Self { reset_after, delay, ..reading }
            }
            Err(denied) => Self::of_denial(policy, denied),
        }
    }

    pub(crate) fn of_denial(policy: Policy, denied: &Denied) -> Self {
        let (reset_after, retry_after) = (denied.reset_after(), denied.retry_after());
        let reading = Self::new(policy, denied.limit(), denied.remaining());
        Self { reset_after, retry_after, denied: true, ..reading }
    }
}

/// What all limits said of a request, in the order in which they were asked.
///
/// ```
/// # use {tollgate::Quota, tollgate_http::{Policy, Reading, Report}};
/// let mut report = Report::default();
/// report.note(Reading::new(Policy::new("burst", &Quota::per_second(5))?, 5, 4));
/// assert_eq!(report.readings().count(), 1);
/// # Ok::<(), tollgate_http::PolicyError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// One limit needs no allocation.
    first: Option<Reading>,
    others: Vec<Reading>,
    shadow_denials: Vec<Reading>,
    key_errors: Vec<KeyError>,
}

impl Report {
    /// Adds what a limit said.
    ///
    /// ```
    /// # use {tollgate::Quota, tollgate_http::{Policy, Reading, Report}};
    /// let mut report = Report::default();
    /// report.note(Reading::new(Policy::new("a", &Quota::per_second(5))?, 5, 4));
    /// report.note(Reading::new(Policy::new("b", &Quota::per_hour(9))?, 9, 8));
    /// let names: Vec<_> = report.readings().map(|reading| reading.policy.name()).collect();
    /// assert_eq!(names, ["a", "b"]);
    /// # Ok::<(), tollgate_http::PolicyError>(())
    /// ```
    pub fn note(&mut self, reading: Reading) {
        match self.first {
            None => self.first = Some(reading),
            Some(_) => self.others.push(reading),
        }
    }

    /// Adds what a limit would have denied, were it not on trial.
    ///
    /// ```
    /// # use {tollgate::Quota, tollgate_http::{Policy, Reading, Report}};
    /// let mut report = Report::default();
    /// report.note_shadow(Reading::new(Policy::new("a", &Quota::per_second(5))?, 5, 0));
    /// assert_eq!(report.readings().count(), 0); // clients are not told
    /// # Ok::<(), tollgate_http::PolicyError>(())
    /// ```
    pub fn note_shadow(&mut self, reading: Reading) {
        self.shadow_denials.push(reading);
    }

    /// Adds that a limit found no key.
    ///
    /// ```
    /// # use tollgate_http::{KeyError, Report};
    /// let mut report = Report::default();
    /// report.note_without_key(KeyError::Missing);
    /// assert_eq!(report.without_key().count(), 1);
    /// ```
    pub fn note_without_key(&mut self, error: KeyError) {
        self.key_errors.push(error);
    }

    /// What the limits said that are in force.
    ///
    /// ```
    /// assert_eq!(tollgate_http::Report::default().readings().count(), 0);
    /// ```
    pub fn readings(&self) -> impl Iterator<Item = &Reading> {
        self.first.iter().chain(&self.others)
    }

    /// What limits on trial would have denied.
    ///
    /// ```
    /// assert_eq!(tollgate_http::Report::default().shadow_denials().count(), 0);
    /// ```
    pub fn shadow_denials(&self) -> impl Iterator<Item = &Reading> {
        self.shadow_denials.iter()
    }

    /// Why limits found no key.
    ///
    /// ```
    /// assert_eq!(tollgate_http::Report::default().without_key().count(), 0);
    /// ```
    pub fn without_key(&self) -> impl Iterator<Item = KeyError> {
        self.key_errors.iter().copied()
    }

    /// The longest time after which a limit that denied would admit; `None` where one never would,
    /// or none denied.
    ///
    /// ```
    /// assert_eq!(tollgate_http::Report::default().retry_after(), None);
    /// ```
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        let mut longest = None;
        for reading in self.readings().filter(|reading| reading.denied) {
            longest = longest.max(Some(reading.retry_after?));
        }
        longest
    }

    /// Adds the fields `RateLimit-Policy` and `RateLimit` to a response's headers, as the layer does:
    /// for a server that does not speak tower. Add `Retry-After` before.
    ///
    /// ```
    /// use tollgate::Quota;
    /// use tollgate_http::{Policy, Reading, Report};
    ///
    /// let mut report = Report::default();
    /// report.note(Reading::new(Policy::new("a", &Quota::per_minute(5))?, 5, 4));
    /// let mut headers = http::HeaderMap::new();
    /// report.add_fields_to(&mut headers);
    /// assert_eq!(headers["ratelimit-policy"], r#""a";q=5;w=60"#);
    /// assert_eq!(headers["ratelimit"], r#""a";r=4;t=0"#);
    /// # Ok::<(), tollgate_http::PolicyError>(())
    /// ```
    pub fn add_fields_to(&self, headers: &mut HeaderMap) {
        Fields::new(self, Wanted { ietf: true, x: false }).add_to(headers);
    }

    /// Leaves only the readings of limits that denied: what the others charged was given back.
    pub(crate) fn keep_denials(&mut self) {
        self.others.retain(|reading| reading.denied);
        if self.first.as_ref().is_some_and(|reading| !reading.denied) {
            self.first = (!self.others.is_empty()).then(|| self.others.remove(0));
        }
    }

    /// Adds the limits that would deny too, which [`Gate::peek`] has found. A limit that has denied
    /// already is not added again.
    pub(crate) fn add_denials(&mut self, found: Self) {
        for reading in found.first.into_iter().chain(found.others) {
            let is_known = self.readings().any(|known| known.policy == reading.policy);
            if reading.denied && !is_known {
                self.note(reading);
            }
        }
    }

    /// Adds what another report says.
    pub(crate) fn add(&mut self, other: Self) {
        other.first.into_iter().chain(other.others).for_each(|reading| self.note(reading));
        self.shadow_denials.extend(other.shadow_denials);
        self.key_errors.extend(other.key_errors);
    }

    /// Turns delays into denials, where nobody can wait.
    pub(crate) fn deny_delayed(&mut self) {
        for reading in self.first.iter_mut().chain(&mut self.others) {
            if !reading.delay.is_zero() {
                reading.denied = true;
                reading.retry_after = Some(reading.delay);
            }
        }
    }

    /// Takes what another report says of trials and keys, and what its limits denied as trials.
    pub(crate) fn take_as_shadow(&mut self, trial: Self) {
        let denials = trial.first.into_iter().chain(trial.others).filter(|r| r.denied);
        self.shadow_denials.extend(denials);
        self.shadow_denials.extend(trial.shadow_denials);
        self.key_errors.extend(trial.key_errors);
    }
}
