//! What a request is answered that may not go ahead.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode, request};

use crate::gate::Report;
use crate::headers::whole_secs_from_1;
use crate::key::KeyError;

/// A request that may not go ahead.
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
    /// What the limits said.
    pub report: &'a Report,
    /// Why it may not go ahead.
    pub reason: Reason,
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
    /// A limit denied.
    OverLimit,
    /// It would have to wait, and too many wait already.
    QueueFull,
    /// A limit found no key.
    WithoutKey(KeyError),
    /// What a limit is counted by cannot be reached, and the limit admits nobody then.
    Unavailable,
}

impl Reason {
    /// The status it is answered with by [`problem`]: 429 over the limit, 503 where too many
    /// wait or the limit's store is down, 400 without a key, and 500 where that is the server's fault.
    ///
    /// ```
    /// # use tollgate_http::{KeyError, Reason};
    /// let reason = Reason::WithoutKey(KeyError::Unavailable);
    /// assert_eq!(reason.status(), http::StatusCode::INTERNAL_SERVER_ERROR);
    /// ```
    #[must_use]
    pub fn status(self) -> StatusCode {
        match self {
            Self::OverLimit => StatusCode::TOO_MANY_REQUESTS,
            Self::QueueFull | Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Self::WithoutKey(KeyError::Unavailable) => StatusCode::INTERNAL_SERVER_ERROR,
            Self::WithoutKey(_) => StatusCode::BAD_REQUEST,
        }
    }
}

impl<'a> Denial<'a> {
    /// For a server that does not speak tower, and so asks its [`Gate`](crate::Gate) itself. The
    /// layer's denials are made by the layer.
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
        Self { request, report, reason }
    }

    /// Whole seconds until the same request would be admitted, rounded up, at least 1; `None` where
    /// waiting does not help. The layer adds it as `Retry-After`.
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
        match self.reason {
            Reason::OverLimit | Reason::QueueFull => {
                self.report.retry_after().map(whole_secs_from_1)
            }
            Reason::WithoutKey(_) | Reason::Unavailable => None,
        }
    }

    /// The response, with `Retry-After` unless it has that.
    pub(crate) fn respond(&self, write: impl Fn(&Self) -> Response<Bytes>) -> Response<Bytes> {
        let mut response = write(self);
        if let Some(secs) = self.retry_after_secs() {
            response.headers_mut().entry(RETRY_AFTER).or_insert(HeaderValue::from(secs));
        }
        response
    }
}

/// The answer unless another is chosen: [`grpc`] for gRPC calls, whose content type is
/// `application/grpc` or begins with `application/grpc+`, `application/grpc-web` and the like, and
/// [`problem`] for all other requests. A gRPC client takes an HTTP status of 429 for `UNAVAILABLE`.
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
    match grpc_content_type(denial.request) {
        Some(_) => grpc(denial),
        None => problem(denial),
    }
}

/// The content type of a gRPC call.
fn grpc_content_type(request: &request::Parts) -> Option<&HeaderValue> {
    const GRPC: &[u8] = b"application/grpc";
    request.headers.get(CONTENT_TYPE).filter(|value| {
        let Some((start, rest)) = value.as_bytes().split_at_checked(GRPC.len()) else {
            return false;
        };
        start.eq_ignore_ascii_case(GRPC) && matches!(rest, [] | [b'+' | b'-' | b';' | b' ', ..])
    })
}

/// An answer in `application/problem+json` (RFC 9457), over a limit of the type `quota-exceeded`, which
/// names the policies that denied.
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
        Reason::OverLimit => kind(
            "quota-exceeded",
            "Request cannot be satisfied as assigned quota has been exceeded",
        ),
        Reason::QueueFull | Reason::Unavailable => kind(
            "temporary-reduced-capacity",
            "Request cannot be satisfied due to temporary server capacity constraints",
        ),
        Reason::WithoutKey(error) => format!("\"type\":\"about:blank\",\"title\":\"{error}\""),
    };
    members += &format!(",\"status\":{}", status.as_u16());
    if let Reason::OverLimit | Reason::QueueFull = denial.reason {
        let denied = denial.report.readings().filter(|reading| reading.denied);
        let names: Vec<_> = denied.map(|reading| reading.policy.quoted()).collect();
        members += &format!(",\"violated-policies\":[{}]", names.join(","));
    }
    let mut response = Response::new(Bytes::from(format!("{{{members}}}")));
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/problem+json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

fn kind(name: &str, title: &str) -> String {
    let registry = "https://iana.org/assignments/http-problem-types";
    format!("\"type\":\"{registry}#{name}\",\"title\":\"{title}\"")
}

/// An answer for gRPC: status 200 and, as headers, `grpc-status` with `grpc-message`. The content type
/// is the call's, or `application/grpc`. Over a limit the code is `RESOURCE_EXHAUSTED`, and `UNAVAILABLE` where too many wait or the limit's store is
/// down.
///
/// Clients that retry by themselves are told when by `grpc-retry-pushback-ms` (gRFC A6): the
/// milliseconds until the same call would be admitted, rounded up. It is -1, "do not retry", where
/// waiting does not help, or takes longer than the 24 days that the field can say.
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
        Reason::OverLimit => ("8", "rate limit exceeded"),
        Reason::QueueFull => ("14", "too many calls are waiting"),
        Reason::Unavailable => ("14", "the rate limit cannot be told"),
        Reason::WithoutKey(KeyError::Unavailable) => ("13", "the caller cannot be told"),
        Reason::WithoutKey(_) => ("3", "the call lacks what it is counted under"),
    };
    let mut response = Response::new(Bytes::new());
    let headers = response.headers_mut();
    let content_type = grpc_content_type(denial.request).cloned();
    let content_type = content_type.unwrap_or(HeaderValue::from_static("application/grpc"));
    headers.insert(CONTENT_TYPE, content_type);
    headers.insert("grpc-status", HeaderValue::from_static(code));
    headers.insert("grpc-message", HeaderValue::from_static(message));
    if let Reason::OverLimit | Reason::QueueFull = denial.reason {
        headers.insert("grpc-retry-pushback-ms", pushback_millis(denial.report).into());
    }
    response
}

/// As gRFC A6 has it, where what is negative forbids a retry.
fn pushback_millis(report: &Report) -> i32 {
    let Some(wait) = report.retry_after() else { return -1 };
    let millis = wait.as_nanos().div_ceil(1_000_000).max(1);
    i32::try_from(millis).unwrap_or(-1)
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use tollgate::Quota;

    use super::*;
    use crate::gate::Reading;
    use crate::policy::Policy;

    fn answer(reason: Reason, retry_after: Option<Duration>) -> Response<Bytes> {
        answer_by(problem, reason, retry_after)
    }

    fn answer_by(
        write: fn(&Denial<'_>) -> Response<Bytes>,
        reason: Reason,
        retry_after: Option<Duration>,
    ) -> Response<Bytes> {
        let (request, ()) = http::Request::new(()).into_parts();
        let policy = Policy::new("a \"b\"", &Quota::per_second(1)).expect("a name");
        let mut report = Report::default();
        report.note(Reading { denied: true, retry_after, ..Reading::new(policy, 1, 0) });
        Denial { request: &request, report: &report, reason }.respond(write)
    }

    #[test]
    fn a_problem_names_the_policies_and_retry_after_is_at_least_1() {
        let response = answer(Reason::OverLimit, Some(Duration::from_nanos(1)));
        assert_eq!(response.status(), 429);
        assert_eq!(response.headers()["retry-after"], "1");
        assert_eq!(response.headers()["content-type"], "application/problem+json");
        let body: serde_json::Value = serde_json::from_slice(response.body()).expect("JSON");
        assert_eq!(body["type"], "https://iana.org/assignments/http-problem-types#quota-exceeded");
        assert_eq!(body["status"], 429);
        assert_eq!(body["violated-policies"], serde_json::json!(["a \"b\""]));
    }

    #[test]
    fn each_reason_has_its_answer() {
        assert!(!answer(Reason::OverLimit, None).headers().contains_key("retry-after"));
        let full = answer(Reason::QueueFull, Some(Duration::from_millis(1_001)));
        assert_eq!(
            (full.status().as_u16(), &full.headers()["retry-after"]),
            (503, &"2".parse().unwrap())
        );
        let body: serde_json::Value = serde_json::from_slice(full.body()).expect("JSON");
        assert_eq!(body["violated-policies"], serde_json::json!(["a \"b\""]));
        for (error, status) in
            [(KeyError::Missing, 400), (KeyError::Malformed, 400), (KeyError::Unavailable, 500)]
        {
            let response = answer(Reason::WithoutKey(error), Some(Duration::ZERO));
            assert_eq!(response.status(), status);
            assert!(!response.headers().contains_key("retry-after"));
            let body: serde_json::Value = serde_json::from_slice(response.body()).expect("JSON");
            assert_eq!(body["title"], error.to_string());
        }
        let down = answer(Reason::Unavailable, Some(Duration::ZERO));
        assert_eq!(down.status(), 503);
        assert!(!down.headers().contains_key("retry-after"));
    }

    #[test]
    fn grpc_clients_are_told_when_to_retry_and_when_not_to() {
        let pushback = |reason, wait| {
            let response = answer_by(grpc, reason, wait);
            assert_eq!((response.status().as_u16(), response.body().len()), (200, 0));
            let value = response.headers().get("grpc-retry-pushback-ms");
            value.map(|value| value.to_str().expect("ASCII").to_owned())
        };
        let millis_max = Duration::from_millis(i32::MAX.unsigned_abs().into());
        for (wait, told) in [
            (Some(Duration::ZERO), "1"),
            (Some(Duration::from_nanos(1)), "1"),
            (Some(Duration::from_nanos(1_000_001)), "2"),
            (Some(Duration::from_secs(60)), "60000"),
            (Some(millis_max), "2147483647"),
            (Some(millis_max + Duration::from_nanos(1)), "-1"),
            (Some(Duration::MAX), "-1"),
            (None, "-1"),
        ] {
            assert_eq!(pushback(Reason::OverLimit, wait).as_deref(), Some(told), "{wait:?}");
            assert_eq!(pushback(Reason::QueueFull, wait).as_deref(), Some(told), "{wait:?}");
        }
        // What no quota is the reason for, is retried or not by the client's own rules.
        for reason in [Reason::Unavailable, Reason::WithoutKey(KeyError::Missing)] {
            assert_eq!(pushback(reason, Some(Duration::ZERO)), None);
        }
    }

    #[test]
    fn grpc_calls_are_told_by_their_content_type() {
        let answered = |content_type: &str| {
            let mut request = http::Request::new(());
            request.headers_mut().insert(CONTENT_TYPE, content_type.parse().expect("a value"));
            let (request, ()) = request.into_parts();
            let report = Report::default();
            let denial = Denial { request: &request, report: &report, reason: Reason::OverLimit };
            denial.respond(by_protocol)
        };
        for grpc in [
            "application/grpc",
            "application/grpc+proto",
            "Application/gRPC; charset=utf-8",
            "application/grpc-web",
            "application/grpc-web-text+proto",
        ] {
            let response = answered(grpc);
            assert_eq!((response.status().as_u16(), response.body().len()), (200, 0), "{grpc}");
            assert_eq!(response.headers()["grpc-status"], "8");
            assert_eq!(response.headers()["grpc-retry-pushback-ms"], "-1");
            assert_eq!(response.headers()[CONTENT_TYPE], grpc);
        }
        for other in ["application/grpcx", "application/json", "application/", "text/grpc", ""] {
            let response = answered(other);
            assert_eq!(response.status(), 429, "{other}");
            assert!(!response.headers().contains_key("grpc-status"), "{other}");
        }
    }

    #[test]
    fn each_reason_has_its_grpc_status() {
        for (reason, code) in [
            (Reason::OverLimit, "8"),
            (Reason::QueueFull, "14"),
            (Reason::Unavailable, "14"),
            (Reason::WithoutKey(KeyError::Unavailable), "13"),
            (Reason::WithoutKey(KeyError::Missing), "3"),
            (Reason::WithoutKey(KeyError::Malformed), "3"),
        ] {
            let response = answer_by(grpc, reason, None);
            assert_eq!(response.headers()["grpc-status"], code, "{reason:?}");
            assert_eq!(response.headers()["content-type"], "application/grpc");
        }
    }
}
