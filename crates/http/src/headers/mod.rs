//! The rate limit fields of a response.
//!
//! `RateLimit-Policy` and `RateLimit` follow draft-ietf-httpapi-ratelimit-headers-11: lists of strings
//! (the names of policies) with parameters. `r` is the number of cells left. `t` is the effective window, in
//! whole seconds, rounded up: within it, a client should use no more than `r` cells.
//!
//! After an admission, `t` is the time until the key has its whole quota again. The limit denies nothing to a
//! client that follows it and shares its key with no other. Some cells may be back earlier, which the draft leaves
//! open (8.4). With a shorter window, `r` in `t` would be a higher rate than the quota allows for long (6).
//!
//! That does not hold for a limit that delays requests, such as a `LeakyQueue`: its `r` is the room in the queue, and
//! the layer denies a request that may not wait for its turn.
//!
//! After a denial, `t` is the time until the same request would be admitted; `Retry-After` is never earlier. If the
//! key has the cells and only the turn of the request comes too late, `r` is 0. If another limit, in this layer or
//! another, has admitted the request, and its `t` is later than the response's `Retry-After`, that `t` is left out. The
//! draft allows this. A limit of requests in flight has no `t`. Other forms are in `headers/dialect.rs`.

mod dialect;
mod policy;
mod report;

use core::fmt::Write;
use core::time::Duration;

use http::header::{HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};

pub use self::dialect::Dialect;
pub(crate) use self::dialect::XForm;
use self::dialect::{OtherFields, unix_now};
pub use self::policy::{Policy, PolicyError};
pub use self::report::{Reading, Report};

const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// The largest integer of a structured field (RFC 9651). A larger number would make clients ignore the
/// whole field, so this one is written instead.
pub(crate) const INTEGER_MAX: u64 = 999_999_999_999_999;

/// The fields that are wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) rate_limit: Option<RateLimitForm>,
    pub(crate) x: Option<XForm>,
}

/// The form of `RateLimit-Policy` and `RateLimit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RateLimitForm {
    Newest,
    Draft7,
}

impl Wanted {
    /// The fields of the newest draft alone.
    pub(crate) const NEWEST: Self = Self { rate_limit: Some(RateLimitForm::Newest), x: None };

    pub(crate) fn add(&mut self, dialect: Dialect) {
        match dialect {
            Dialect::Draft7 => self.rate_limit = Some(RateLimitForm::Draft7),
            Dialect::Envoy => self.x = Some(XForm::Envoy),
            Dialect::GitHub => self.x = Some(XForm::UnixTime),
        }
    }
}

/// Fields for a response.
#[derive(Debug, Default)]
pub(crate) struct Fields {
    ietf: Option<Ietf>,
    /// Boxed, because few layers want them.
    others: Option<Box<OtherFields>>,
}

#[derive(Debug)]
struct Ietf {
    policies: HeaderValue,
    limits: HeaderValue,
    /// The longest `t` among them.
    longest_secs: u64,
}

impl Fields {
    pub(crate) fn new(report: &Report, wanted: Wanted) -> Self {
        let ietf = wanted.rate_limit.filter(|form| *form == RateLimitForm::Newest);
        let draft_7 = wanted.rate_limit == Some(RateLimitForm::Draft7);
        let others = (draft_7 || wanted.x.is_some())
            .then(|| Box::new(OtherFields::new(report, draft_7, wanted.x, unix_now)));
        Self { ietf: ietf.and_then(|_| newest(report)), others }
    }

    /// Adds the fields. Those of the newest draft are lists, to which each layer adds its own items. Of the
    /// others, those that the response has already stay.
    pub(crate) fn add_to(self, headers: &mut HeaderMap) {
        if let Some(Ietf { policies, limits, longest_secs }) = self.ietf {
            let limits = match retry_after_secs(headers) {
                Some(secs) if secs < longest_secs => without_later_times(&limits, secs),
                _ => limits,
            };
            headers.append(RATE_LIMIT_POLICY, policies);
            headers.append(RATE_LIMIT, limits);
        }
        if let Some(others) = self.others {
            others.add_to(headers);
        }
    }
}

fn newest(report: &Report) -> Option<Ietf> {
    let mut readings = report.readings();
    let first = readings.next()?;
    let mut limits = String::with_capacity(64);
    let mut longest_secs = push_limit(&mut limits, first);
    let mut policies = None;
    for reading in readings {
        let text = policies.get_or_insert_with(|| first.policy.to_string());
        let _ = write!(text, ", {}", reading.policy);
        limits.push_str(", ");
        longest_secs = longest_secs.max(push_limit(&mut limits, reading));
    }
    let policies = match policies {
        None => first.policy.item().clone(),
        Some(text) => printable(text),
    };
    Some(Ietf { policies, limits: printable(limits), longest_secs })
}

/// Appends the item of a limit, and returns its `t`, or 0.
fn push_limit(text: &mut String, reading: &Reading) -> u64 {
    let remaining = reading.remaining.min(INTEGER_MAX);
    let _ = write!(text, "{};r={remaining}", reading.policy.quoted());
    let effective = match reading.denied {
        _ if !reading.policy.has_time() => None,
        true => reading.retry_after.map(whole_secs_from_1),
        false => Some(whole_secs(reading.reset_after)),
    };
    let effective = effective.map(|secs| secs.min(INTEGER_MAX));
    if let Some(secs) = effective {
        let _ = write!(text, ";t={secs}");
    }
    effective.unwrap_or(0)
}

/// The `Retry-After` that the response has already, from this layer or the service. A date is ignored.
fn retry_after_secs(headers: &HeaderMap) -> Option<u64> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()
}

/// The items, as [`push_limit`] writes them, without any `t` greater than `secs`.
fn without_later_times(limits: &HeaderValue, secs: u64) -> HeaderValue {
    let mut rest = limits.to_str().unwrap_or_default();
    let mut kept = String::with_capacity(rest.len());
    while !rest.is_empty() {
        let (name, after) = rest.split_at(string_end(rest));
        let (parameters, next) = after.split_once(", ").unwrap_or((after, ""));
        let (r, t) = parameters.split_once(";t=").unwrap_or((parameters, ""));
        kept.push_str(name);
        kept.push_str(r);
        if t.parse().is_ok_and(|its: u64| its <= secs) {
            let _ = write!(kept, ";t={t}");
        }
        if !next.is_empty() {
            kept.push_str(", ");
        }
        rest = next;
    }
    printable(kept)
}

/// The end of the quoted string that `text` begins with.
fn string_end(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

fn printable(text: String) -> HeaderValue {
    HeaderValue::try_from(text).expect("policies are printable ASCII")
}

/// A span in seconds, rounded up.
fn whole_secs(span: Duration) -> u64 {
    span.as_secs().saturating_add(u64::from(span.subsec_nanos() > 0))
}

/// A span in seconds, rounded up and at least 1: a `Retry-After` of 0 would invite clients to retry at once.
pub(crate) fn whole_secs_from_1(span: Duration) -> u64 {
    whole_secs(span).max(1)
}

#[cfg(test)]
mod tests {
    use tollgate::Quota;

    use super::*;

    fn reading(name: &str, remaining: u64, reset_millis: u64) -> Reading {
        let policy = Policy::new(name, &Quota::per_minute(100)).expect("a name");
        let reading = Reading::new(policy, 100, remaining);
        Reading { reset_after: Duration::from_millis(reset_millis), ..reading }
    }

    fn fields(readings: Vec<Reading>) -> Vec<String> {
        let mut report = Report::default();
        readings.into_iter().for_each(|reading| report.note(reading));
        let mut headers = HeaderMap::new();
        Fields::new(&report, Wanted { x: Some(XForm::Seconds), ..Wanted::NEWEST })
            .add_to(&mut headers);
        let x = ["limit", "remaining", "reset"].map(|name| format!("x-ratelimit-{name}"));
        let names = ["ratelimit-policy", "ratelimit"].map(str::to_owned).into_iter().chain(x);
        let text = |name| headers.get(name).map_or("", |value| value.to_str().expect("ASCII"));
        names.map(|name| text(name).to_owned()).collect()
    }

    #[test]
    fn seconds_are_rounded_up() {
        assert_eq!(whole_secs(Duration::ZERO), 0);
        assert_eq!(whole_secs_from_1(Duration::ZERO), 1);
        assert_eq!(whole_secs_from_1(Duration::from_nanos(1)), 1);
        assert_eq!(whole_secs_from_1(Duration::from_secs(2)), 2);
        assert_eq!(whole_secs_from_1(Duration::new(2, 1)), 3);
        assert_eq!(whole_secs(Duration::MAX), u64::MAX);
    }

    #[test]
    fn one_limit_makes_one_item() {
        let expected = ["\"a\";q=100;w=60", "\"a\";r=50;t=30", "100", "50", "30"];
        assert_eq!(fields(vec![reading("a", 50, 29_001)]), expected);
    }

    #[test]
    fn several_limits_make_a_list_and_the_denial_is_the_x_value() {
        let retry_after = Some(Duration::from_millis(600));
        let denied = Reading { denied: true, retry_after, ..reading("b \"2\"", 9, 60_000) };
        let expected = [
            r#""a";q=100;w=60, "b \"2\"";q=100;w=60"#,
            r#""a";r=3;t=1, "b \"2\"";r=9;t=1"#,
            "100",
            "9",
            "60",
        ];
        assert_eq!(fields(vec![reading("a", 3, 1), denied]), expected);
    }

    #[test]
    fn a_request_that_never_fits_has_no_time() {
        let denied = Reading { denied: true, ..reading("a", 9, 60_000) };
        assert_eq!(fields(vec![denied])[1], "\"a\";r=9");
        assert_eq!(fields(vec![]), [""; 5]);
    }

    #[test]
    fn numbers_beyond_a_structured_fields_integers_are_its_largest() {
        let max = u64::MAX;
        let reading = Reading { reset_after: Duration::MAX, ..reading("a", max, 0) };
        assert_eq!(fields(vec![reading])[1], "\"a\";r=999999999999999;t=999999999999999");
    }

    #[test]
    fn a_time_later_than_retry_after_is_left_out() {
        let all = r#""a\", ;t=9 \\";r=1;t=30, "b";r=2;t=1, "c";r=3;t=29"#;
        for (retry_after, expected) in [
            ("30", all),
            ("Wed, 21 Oct 2026 07:28:00 GMT", all),
            ("29", r#""a\", ;t=9 \\";r=1, "b";r=2;t=1, "c";r=3;t=29"#),
            ("0", r#""a\", ;t=9 \\";r=1, "b";r=2, "c";r=3"#),
        ] {
            let mut report = Report::default();
            report.note(reading(r#"a", ;t=9 \"#, 1, 30_000));
            report.note(reading("b", 2, 1_000));
            report.note(reading("c", 3, 29_000));
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, HeaderValue::from_static(retry_after));
            Fields::new(&report, Wanted::NEWEST).add_to(&mut headers);
            assert_eq!(headers[RATE_LIMIT], expected, "{retry_after}");
        }
    }
}
