//! The fields of a response that tell of limits.
//!
//! `RateLimit-Policy` and `RateLimit` are those of draft-ietf-httpapi-ratelimit-headers-11: lists
//! of strings (the policies' names) with parameters. `r` is what is left. `t` is in whole seconds,
//! rounded up: after an admission, until all is back; after a refusal, until the same request would
//! be admitted, which `Retry-After` never is before.

use core::fmt::Write;
use core::time::Duration;

use http::header::{HeaderMap, HeaderName, HeaderValue};

use crate::gate::{Reading, Report};

const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const X_NAMES: [HeaderName; 3] = [
    HeaderName::from_static("x-ratelimit-limit"),
    HeaderName::from_static("x-ratelimit-remaining"),
    HeaderName::from_static("x-ratelimit-reset"),
];

/// Which fields are wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) ietf: bool,
    pub(crate) x: bool,
}

/// Fields, ready to be added to a response.
#[derive(Debug, Default)]
pub(crate) struct Fields {
    ietf: Option<(HeaderValue, HeaderValue)>,
    /// Seldom wanted, so apart.
    x: Option<Box<[HeaderValue; 3]>>,
}

impl Fields {
    pub(crate) fn new(report: &Report, wanted: Wanted) -> Self {
        let ietf = if wanted.ietf { ietf(report) } else { None };
        let x = if wanted.x { x(report).map(Box::new) } else { None };
        Self { ietf, x }
    }

    /// Adds them. Both IETF fields are lists, to which each layer adds its own; of the others, those
    /// that are there already stay.
    pub(crate) fn add_to(self, headers: &mut HeaderMap) {
        if let Some((policies, limits)) = self.ietf {
            headers.append(RATE_LIMIT_POLICY, policies);
            headers.append(RATE_LIMIT, limits);
        }
        if let Some(values) = self.x {
            for (name, value) in X_NAMES.into_iter().zip(*values) {
                headers.entry(name).or_insert(value);
            }
        }
    }
}

fn ietf(report: &Report) -> Option<(HeaderValue, HeaderValue)> {
    let mut readings = report.readings();
    let first = readings.next()?;
    let mut limits = String::with_capacity(64);
    push_limit(&mut limits, first);
    let mut policies = None;
    for reading in readings {
        let text = policies.get_or_insert_with(|| first.policy.to_string());
        let _ = write!(text, ", {}", reading.policy);
        limits.push_str(", ");
        push_limit(&mut limits, reading);
    }
    let policies = match policies {
        None => first.policy.item().clone(),
        Some(text) => printable(text),
    };
    Some((policies, printable(limits)))
}

fn push_limit(text: &mut String, reading: &Reading) {
    let _ = write!(text, "{};r={}", reading.policy.quoted(), reading.remaining);
    let effective = match reading.refused {
        true => reading.retry_after.map(whole_secs_from_1),
        false => Some(whole_secs(reading.reset_after)),
    };
    if let Some(secs) = effective {
        let _ = write!(text, ";t={secs}");
    }
}

/// Of several limits, that which refused, or else that with the least left.
fn x(report: &Report) -> Option<[HeaderValue; 3]> {
    let tightest = report.readings().min_by_key(|reading| (!reading.refused, reading.remaining))?;
    let reset = whole_secs(tightest.reset_after);
    Some([tightest.limit, tightest.remaining, reset].map(HeaderValue::from))
}

fn printable(text: String) -> HeaderValue {
    HeaderValue::try_from(text).expect("policies are printable ASCII")
}

/// Rounded up.
pub(crate) fn whole_secs(span: Duration) -> u64 {
    span.as_secs().saturating_add(u64::from(span.subsec_nanos() > 0))
}

/// Rounded up, and at least 1: "retry after 0" would be an invitation to retry at once.
pub(crate) fn whole_secs_from_1(span: Duration) -> u64 {
    whole_secs(span).max(1)
}

#[cfg(test)]
mod tests {
    use tollgate::Quota;

    use super::*;
    use crate::policy::Policy;

    fn reading(name: &str, remaining: u64, reset_millis: u64) -> Reading {
        let policy = Policy::new(name, &Quota::per_minute(100)).expect("a name");
        let reading = Reading::new(policy, 100, remaining);
        Reading { reset_after: Duration::from_millis(reset_millis), ..reading }
    }

    fn fields(readings: Vec<Reading>) -> Vec<String> {
        let mut report = Report::default();
        readings.into_iter().for_each(|reading| report.note(reading));
        let mut headers = HeaderMap::new();
        Fields::new(&report, Wanted { ietf: true, x: true }).add_to(&mut headers);
        let names = [RATE_LIMIT_POLICY, RATE_LIMIT].into_iter().chain(X_NAMES);
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
    fn one_limit() {
        let expected = ["\"a\";q=100;w=60", "\"a\";r=50;t=30", "100", "50", "30"];
        assert_eq!(fields(vec![reading("a", 50, 29_001)]), expected);
    }

    #[test]
    fn several_limits_and_a_refusal() {
        let retry_after = Some(Duration::from_millis(600));
        let refused = Reading { refused: true, retry_after, ..reading("b \"2\"", 9, 60_000) };
        let expected = [
            r#""a";q=100;w=60, "b \"2\"";q=100;w=60"#,
            r#""a";r=3;t=1, "b \"2\"";r=9;t=1"#,
            "100",
            "9",
            "60",
        ];
        assert_eq!(fields(vec![reading("a", 3, 1), refused]), expected);
    }

    #[test]
    fn a_request_that_never_fits_is_told_no_time() {
        let refused = Reading { refused: true, ..reading("a", 9, 60_000) };
        assert_eq!(fields(vec![refused])[1], "\"a\";r=9");
        assert_eq!(fields(vec![]), [""; 5]);
    }
}
