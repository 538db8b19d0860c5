//! The reports of limits about a request, for the response and for metrics.

use core::time::Duration;

use http::HeaderMap;
use tollgate::{Decision, Denied};

use super::policy::Policy;
use super::{Dialect, Fields, Wanted};
use crate::key::KeyError;

/// One limit's decision about a request.
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
    /// The limit's name and quota.
    pub policy: Policy,
    /// The most cells that a key can spend at once.
    pub limit: u64,
    /// Cells left.
    pub remaining: u64,
    /// The time until the key has all cells again.
    pub reset_after: Duration,
    /// Whether it denied.
    pub denied: bool,
    /// Whether it denied because the key is banned. A denial response then reports abnormal usage.
    pub banned: bool,
    /// If it denied: the time until it would admit the request; `None` if it never would.
    pub retry_after: Option<Duration>,
    /// If it admitted: how long the request waits for its turn.
    pub delay: Duration,
}

impl Reading {
    /// An admission without a wait.
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
        let (denied, banned, retry_after) = (false, false, None);
        Self { policy, limit, remaining, reset_after, denied, banned, retry_after, delay }
    }

    /// The reading of a limiter's decision.
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

    /// If it denied: the wait, which is the longest of all if the limit never would admit.
    pub(crate) fn denied_for(&self) -> Option<Duration> {
        self.denied.then(|| self.retry_after.unwrap_or(Duration::MAX))
    }
}

/// The decisions of all limits about a request, in the order in which the limits were asked.
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
    /// Apart from the others, so that one limit needs no allocation.
    first: Option<Reading>,
    others: Vec<Reading>,
    shadow_denials: Vec<Reading>,
    key_errors: Vec<KeyError>,
}

impl Report {
    /// Adds what a limit decided.
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

    /// Adds the denial of a limit in shadow.
    ///
    /// ```
    /// # use {tollgate::Quota, tollgate_http::{Policy, Reading, Report}};
    /// let mut report = Report::default();
    /// report.note_shadow(Reading::new(Policy::new("a", &Quota::per_second(5))?, 5, 0));
    /// assert_eq!(report.readings().count(), 0); // responses do not show it
    /// # Ok::<(), tollgate_http::PolicyError>(())
    /// ```
    pub fn note_shadow(&mut self, reading: Reading) {
        self.shadow_denials.push(reading);
    }

    /// Adds that a limit found no key in the request.
    ///
    /// ```
    /// # use tollgate_http::{KeyError, Report};
    /// let mut report = Report::default();
    /// report.note_no_key(KeyError::Missing);
    /// assert_eq!(report.key_errors().count(), 1);
    /// ```
    pub fn note_no_key(&mut self, error: KeyError) {
        self.key_errors.push(error);
    }

    /// The decisions of the limits, except those in shadow.
    pub fn readings(&self) -> impl Iterator<Item = &Reading> {
        self.first.iter().chain(&self.others)
    }

    /// The denials of limits in shadow.
    pub fn shadow_denials(&self) -> impl Iterator<Item = &Reading> {
        self.shadow_denials.iter()
    }

    /// Why limits found no key.
    pub fn key_errors(&self) -> impl Iterator<Item = KeyError> {
        self.key_errors.iter().copied()
    }

    /// The longest time after which a limit that denied would admit; `None` if one of them never
    /// would, or none denied.
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

    /// Adds the fields `RateLimit-Policy` and `RateLimit` to the headers of a response, as the layer
    /// does. A server without tower calls it, after it has added `Retry-After`.
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
        Fields::new(self, Wanted::NEWEST).add_to(headers);
    }

    /// Adds the fields of another form, which the response does not have yet.
    ///
    /// ```
    /// use tollgate_http::{Dialect, Policy, Quota, Reading, Report};
    ///
    /// let mut report = Report::default();
    /// report.note(Reading::new(Policy::new("a", &Quota::per_minute(5))?, 5, 4));
    /// let mut headers = http::HeaderMap::new();
    /// report.add_dialect_to(Dialect::Envoy, &mut headers);
    /// assert_eq!(headers["x-ratelimit-limit"], r#"5, 5;w=60;name="a""#);
    /// assert!(!headers.contains_key("ratelimit"));
    /// # Ok::<(), tollgate_http::PolicyError>(())
    /// ```
    pub fn add_dialect_to(&self, dialect: Dialect, headers: &mut HeaderMap) {
        let mut wanted = Wanted { rate_limit: None, x: None };
        wanted.add(dialect);
        Fields::new(self, wanted).add_to(headers);
    }

    /// Keeps only the readings of limits that denied. The charges of the others were refunded.
    pub(crate) fn keep_denials(&mut self) {
        self.others.retain(|reading| reading.denied);
        if self.first.as_ref().is_some_and(|reading| !reading.denied) {
            self.first = (!self.others.is_empty()).then(|| self.others.remove(0));
        }
    }

    /// Adds the denials that [`Gate::peek`](crate::Gate::peek) has found. Of denials with equal policies,
    /// which may be of one limit or of two, the report keeps the one with the longer wait.
    pub(crate) fn add_denials(&mut self, found: Self) {
        for reading in found.first.into_iter().chain(found.others).filter(|its| its.denied) {
            let mut all = self.first.iter_mut().chain(&mut self.others);
            match all.find(|known| known.policy == reading.policy) {
                None => self.note(reading),
                Some(known) if known.denied_for() < reading.denied_for() => *known = reading,
                Some(_) => {}
            }
        }
    }

    /// Adds the content of another report.
    pub(crate) fn add(&mut self, other: Self) {
        other.first.into_iter().chain(other.others).for_each(|reading| self.note(reading));
        self.shadow_denials.extend(other.shadow_denials);
        self.key_errors.extend(other.key_errors);
    }

    /// Turns delays into denials, for a request that cannot wait. The next one could not either, so no cells are left.
    pub(crate) fn deny_delayed(&mut self) {
        for reading in self.first.iter_mut().chain(&mut self.others) {
            if !reading.delay.is_zero() {
                (reading.denied, reading.remaining) = (true, 0);
                reading.retry_after = Some(reading.delay);
            }
        }
    }

    /// Adds the content of a report about limits in shadow: their denials become shadow denials.
    pub(crate) fn take_as_shadow(&mut self, shadow: Self) {
        let denials = shadow.first.into_iter().chain(shadow.others).filter(|r| r.denied);
        self.shadow_denials.extend(denials);
        self.shadow_denials.extend(shadow.shadow_denials);
        self.key_errors.extend(shadow.key_errors);
    }
}
