//! Responses to requests that are denied.

mod grpc_status;

use core::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{Method, Response, StatusCode, request};

use crate::headers::{Reading, Report, whole_secs_from_1};
use crate::jitter::Jitter;
use crate::key::KeyError;

/// The `Retry-After` of a limit of requests in flight, since when one of them ends is not known.
const IN_FLIGHT_WAIT: Duration = Duration::from_secs(1);

/// A request that is denied.
///
/// ```
/// use bytes::Bytes;
/// use http::{Response, StatusCode};
/// use tollgate_http::Denial;
///
/// fn teapot(denial: &Denial<'_>) -> Response<Bytes> {
///     let text = format!("{} is too much", denial.request.uri.path());
///     let mut response = Response::new(Bytes::from(text));
///     *response.status_mut() = StatusCode::IM_A_TEAPOT;
///     response
/// }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Denial<'a> {
    /// The request, without its body.
    pub request: &'a request::Parts,
    /// The report of the limits.
    pub report: &'a Report,
    /// Why it may not go ahead.
    pub reason: Reason,
    /// The time that jitter adds to the wait.
    added: Duration,
}

/// Why a request may not go ahead.
///
/// ```
/// use tollgate_http::Reason;
/// assert_eq!(Reason::OverLimit.status(), http::StatusCode::TOO_MANY_REQUESTS);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// A limit denies the request.
    OverLimit,
    /// The request would have to wait, and too many wait already.
    QueueFull,
    /// A limit finds no key in the request.
    NoKey(KeyError),
    /// The store of a limit cannot be reached, and the limit then denies.
    Unavailable,
    /// The request is not allowed at all, whatever any limit has left.
    Forbidden,
}

impl Reason {
    /// The status of a [`problem`] response: 429 over the limit, 503 if too many wait or the store is
    /// down, 403 if it is not allowed at all, 400 without a key, and 500 if the server does not provide the
    /// key.
    ///
    /// ```
    /// # use tollgate_http::{KeyError, Reason};
    /// let reason = Reason::NoKey(KeyError::Unavailable);
    /// assert_eq!(reason.status(), http::StatusCode::INTERNAL_SERVER_ERROR);
    /// ```
    #[must_use]
    pub fn status(self) -> StatusCode {
        match self {
            Self::OverLimit => StatusCode::TOO_MANY_REQUESTS,
            Self::QueueFull | Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Self::NoKey(KeyError::Unavailable) => StatusCode::INTERNAL_SERVER_ERROR,
            Self::NoKey(_) => StatusCode::BAD_REQUEST,
            Self::Forbidden => StatusCode::FORBIDDEN,
        }
    }
}

impl<'a> Denial<'a> {
    /// A denial for a server without tower, which asks its [`Gate`](crate::Gate) itself.
    ///
    /// ```
    /// use tollgate_http::{Reason, Denial, Report, denial};
    ///
    /// let (request, ()) = http::Request::new(()).into_parts();
    /// let report = Report::default(); // as a gate has filled it in
    /// let denial = Denial::new(&request, &report, Reason::OverLimit);
    /// let mut response = denial::problem(&denial);
    /// if let Some(secs) = denial.retry_after_secs() {
    ///     response.headers_mut().insert("retry-after", secs.into());
    /// }
    /// report.add_fields_to(response.headers_mut());
    /// assert_eq!(response.status(), 429);
    /// ```
    #[must_use]
    pub fn new(request: &'a request::Parts, report: &'a Report, reason: Reason) -> Self {
        Self { request, report, reason, added: Duration::ZERO }
    }

    /// The same denial with a wait that jitter has lengthened.
    pub(crate) fn with_jitter(self, jitter: Jitter) -> Self {
        let added = self.wait().map_or(Duration::ZERO, |wait| jitter.added_to(wait));
        Self { added, ..self }
    }

    /// The time until the same request would be admitted, and what jitter adds; `None` if no wait helps.
    fn wait(&self) -> Option<Duration> {
        match self.reason {
            Reason::OverLimit | Reason::QueueFull => {
                let wait = self.report.retry_after()?;
                let is_in_flight = self.denied().any(|reading| !reading.policy.has_time());
                let wait = if is_in_flight { wait.max(IN_FLIGHT_WAIT) } else { wait };
                Some(wait.saturating_add(self.added))
            }
            Reason::NoKey(_) | Reason::Unavailable | Reason::Forbidden => None,
        }
    }

    /// Whether a limit denies because the key is banned.
    fn is_ban(&self) -> bool {
        self.reason == Reason::OverLimit && self.denied().any(|reading| reading.banned)
    }

    /// The readings of the limits that denied.
    fn denied(&self) -> impl Iterator<Item = &Reading> {
        self.report.readings().filter(|reading| reading.denied)
    }

    /// Whole seconds until the same request would be admitted, rounded up, at least 1; `None` if no
    /// wait helps. The layer adds it as `Retry-After`. It includes the
    /// [jitter](crate::LayerBuilder::retry_after_jitter_percent) of the layer.
    ///
    /// ```
    /// # use tollgate_http::Denial;
    /// fn text(denial: &Denial<'_>) -> String {
    ///     match denial.retry_after_secs() {
    ///         Some(secs) => format!("come back in {secs} s"),
    ///         None => "too large ever to fit".to_owned(),
    ///     }
    /// }
    /// ```
    #[must_use]
    pub fn retry_after_secs(&self) -> Option<u64> {
        self.wait().map(whole_secs_from_1)
    }

    /// The response, with `Retry-After` unless `write` has added it. One to `HEAD` has the length of its body
    /// without the body (RFC 9110, 9.3.2), which hyper would send over HTTP/2.
    pub(crate) fn respond(&self, write: impl Fn(&Self) -> Response<Bytes>) -> Response<Bytes> {
        let mut response = write(self);
        if let Some(secs) = self.retry_after_secs() {
            response.headers_mut().entry(RETRY_AFTER).or_insert(HeaderValue::from(secs));
        }
        if self.request.method == Method::HEAD && !response.body().is_empty() {
            let length = core::mem::take(response.body_mut()).len();
            response.headers_mut().entry(CONTENT_LENGTH).or_insert(HeaderValue::from(length));
        }
        response
    }
}

/// The default response: [`grpc`] for gRPC calls, and [`problem`] for all other requests. A gRPC call is
/// a `POST` whose content type is `application/grpc`, or begins with `application/grpc+` or
/// `application/grpc-`. A gRPC client would read an HTTP status of 429 as `UNAVAILABLE`. With any
/// other method the response is a `problem`: its sender is no gRPC client, and would read status 200 as
/// success.
///
/// ```
/// use tollgate_http::{Reason, Denial, Report, denial};
///
/// let request = http::Request::post("/pkg.Service/Call").header("content-type", "application/grpc");
/// let (request, ()) = request.body(())?.into_parts();
/// let report = Report::default();
/// let response = denial::by_protocol(&Denial::new(&request, &report, Reason::OverLimit));
/// assert_eq!(response.status(), 200);
/// assert_eq!(response.headers()["grpc-status"], "8");
/// # Ok::<(), http::Error>(())
/// ```
#[must_use]
pub fn by_protocol(denial: &Denial<'_>) -> Response<Bytes> {
    let is_call = denial.request.method == Method::POST;
    match grpc_content_type(denial.request) {
        Some(_) if is_call => grpc(denial),
        _ => problem(denial),
    }
}

/// The content type, if it is one of gRPC.
fn grpc_content_type(request: &request::Parts) -> Option<&HeaderValue> {
    const GRPC: &[u8] = b"application/grpc";
    request.headers.get(CONTENT_TYPE).filter(|value| {
        let Some((start, rest)) = value.as_bytes().split_at_checked(GRPC.len()) else {
            return false;
        };
        start.eq_ignore_ascii_case(GRPC) && matches!(rest, [] | [b'+' | b'-' | b';' | b' ', ..])
    })
}

/// A response in `application/problem+json` (RFC 9457). Over a limit it has the type `quota-exceeded`
/// and names the policies that deny. If a key is banned, the type is `abnormal-usage-detected`. Without a key, the
/// `detail` says why there is none.
///
/// ```
/// use bytes::Bytes;
/// use http::Response;
/// use tollgate_http::{Denial, denial};
///
/// /// With a link to the price list.
/// fn upgrade(denial: &Denial<'_>) -> Response<Bytes> {
///     let mut response = denial::problem(denial);
///     let link = http::HeaderValue::from_static("</plans>; rel=\"help\"");
///     response.headers_mut().insert("link", link);
///     response
/// }
/// ```
#[must_use]
pub fn problem(denial: &Denial<'_>) -> Response<Bytes> {
    let status = denial.reason.status();
    let mut members = match denial.reason {
        Reason::OverLimit if denial.is_ban() => kind(
            "abnormal-usage-detected",
            "Request not satisfied due to detection of abnormal request pattern",
        ),
        Reason::OverLimit => kind(
            "quota-exceeded",
            "Request cannot be satisfied as assigned quota has been exceeded",
        ),
        Reason::QueueFull | Reason::Unavailable => kind(
            "temporary-reduced-capacity",
            "Request cannot be satisfied due to temporary server capacity constraints",
        ),
        Reason::NoKey(error) => format!("{},\"detail\":\"{error}\"", about_blank(status)),
        Reason::Forbidden => about_blank(status),
    };
    members += &format!(",\"status\":{}", status.as_u16());
    if let Reason::OverLimit | Reason::QueueFull = denial.reason {
        let names: Vec<_> = denial.denied().map(|reading| reading.policy.quoted()).collect();
        members += &format!(",\"violated-policies\":[{}]", names.join(","));
    }
    let mut response = Response::new(Bytes::from(format!("{{{members}}}")));
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/problem+json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

/// Without a type of its own, a problem has the phrase of its status as the title (RFC 9457, 4.2.1).
fn about_blank(status: StatusCode) -> String {
    let title = status.canonical_reason().unwrap_or_default();
    format!("\"type\":\"about:blank\",\"title\":\"{title}\"")
}

fn kind(name: &str, title: &str) -> String {
    let registry = "https://iana.org/assignments/http-problem-types";
    format!("\"type\":\"{registry}#{name}\",\"title\":\"{title}\"")
}

/// A response for gRPC: status 200 with the headers `grpc-status` and `grpc-message`. The content type
/// is that of the call, or `application/grpc`. Over a limit the code is `RESOURCE_EXHAUSTED`. If too
/// many calls wait or the store is down, it is `UNAVAILABLE`. If the call is not allowed at all, it is
/// `PERMISSION_DENIED`.
///
/// `grpc-retry-pushback-ms` (gRFC A6) tells clients that retry by themselves when to do so: the
/// milliseconds until the same call would be admitted, rounded up. At a limit of calls in flight it is at
/// least 1,000, since when a call ends is not known. It is -1, "do not retry", if no wait helps, or the
/// wait is longer than the 24 days that the field can hold.
///
/// `grpc-status-details-bin` has the same for programs: a `google.rpc.RetryInfo` with the wait, if one helps, and
/// over a limit a `google.rpc.QuotaFailure` whose violations are the policies that deny. Their subject is the name of
/// the policy, since a key may be a secret.
///
/// ```
/// use tollgate::Quota;
/// use tollgate_http::{Limit, RateLimitLayer, key::PeerIp, denial};
///
/// let limit = Limit::gcra("calls", Quota::per_second(100), PeerIp::new())?;
/// let layer = RateLimitLayer::builder(limit).deny_with(denial::grpc).build();
/// # Ok::<(), tollgate_http::LimitError>(())
/// ```
#[must_use]
pub fn grpc(denial: &Denial<'_>) -> Response<Bytes> {
    let (code, message) = match denial.reason {
        Reason::OverLimit if denial.is_ban() => (8, "banned after abnormal usage"),
        Reason::OverLimit => (8, "rate limit exceeded"),
        Reason::QueueFull => (14, "too many calls are waiting"),
        Reason::Unavailable => (14, "the rate limit is unavailable"),
        Reason::NoKey(KeyError::Unavailable) => {
            (13, "the server does not provide the key of the rate limit")
        }
        Reason::NoKey(_) => (3, "the call has no valid key for the rate limit"),
        Reason::Forbidden => (7, "the call is not allowed"),
    };
    let mut response = Response::new(Bytes::new());
    let headers = response.headers_mut();
    let content_type = grpc_content_type(denial.request).cloned();
    let content_type = content_type.unwrap_or(HeaderValue::from_static("application/grpc"));
    headers.insert(CONTENT_TYPE, content_type);
    headers.insert("grpc-status", code.into());
    headers.insert("grpc-message", HeaderValue::from_static(message));
    if let Reason::OverLimit | Reason::QueueFull = denial.reason {
        headers.insert("grpc-retry-pushback-ms", pushback_millis(denial.wait()).into());
        let denied_by = (denial.reason == Reason::OverLimit).then_some(denial.report);
        let details = grpc_status::details(code, message, denial.wait(), denied_by);
        headers.insert("grpc-status-details-bin", details);
    }
    response
}

/// The value of gRFC A6. A negative one forbids a retry.
fn pushback_millis(wait: Option<Duration>) -> i32 {
    let Some(wait) = wait else { return -1 };
    let millis = wait.as_nanos().div_ceil(1_000_000).max(1);
    i32::try_from(millis).unwrap_or(-1)
}

#[cfg(test)]
mod tests;
