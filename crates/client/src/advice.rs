//! Reads from the header fields of a response when to send the next request.

#![allow(clippy::disallowed_types, reason = "Retry-After may be a date of the wall clock")]

use core::time::Duration;
use std::time::SystemTime;

use http::header::{AGE, DATE, HeaderMap, HeaderName, RETRY_AFTER};

use crate::structured::list;

const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const X_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const X_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// An `X-RateLimit-Reset` from here on is a time in seconds since 1970, and below it a span. (This is
/// 2001, or 31 years.)
const RESET_IS_A_TIME: u64 = 1_000_000_000;

/// The longest span that any field is read as: a year. [`Settings::max_pause`](crate::Settings::max_pause)
/// bounds what a pacer obeys.
const SPAN_MAX: Duration = Duration::from_secs(365 * 86_400);

/// The advice in the header fields of a response: `Retry-After` (seconds or a date), `RateLimit` and
/// `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers-11), and `X-RateLimit-Remaining` and `-Reset`.
///
/// A field that is malformed is ignored. A response from a cache (its `Age` is above 0) says what was left when it was
/// stored, so only its `Retry-After` is read. Spans are at most a year.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use tollgate_client::Advice;
///
/// let mut headers = http::HeaderMap::new();
/// headers.insert("retry-after", "3".parse()?);
/// headers.insert("ratelimit-policy", r#""a";q=100;w=60"#.parse()?);
/// headers.insert("ratelimit", r#""a";r=0;t=7"#.parse()?);
/// let advice = Advice::from_headers(&headers, SystemTime::now());
/// assert_eq!(advice.retry_after, Some(Duration::from_secs(3)));
/// assert_eq!(advice.exhausted_for, Some(Duration::from_secs(7)));
/// assert_eq!(advice.max_rate, Some(100.0 / 60.0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Advice {
    /// When to come back, by `Retry-After`.
    pub retry_after: Option<Duration>,
    /// For how long no request is admitted, since nothing is left: the longest `t` of the limits with
    /// `r=0`, or the reset of `X-RateLimit-Remaining: 0`.
    pub exhausted_for: Option<Duration>,
    /// The rate of the quota in requests a second: the smallest `q` / `w` of the policies that count
    /// requests. Other callers may share it.
    pub max_rate: Option<f64>,
}

impl Advice {
    /// Reads the fields. `now` is the time of the wall clock; dates and Unix times are compared with the
    /// response's own `Date` if it has one.
    #[must_use]
    pub fn from_headers(headers: &HeaderMap, now: SystemTime) -> Self {
        let retry_after = retry_after(headers, now);
        if is_from_a_cache(headers) {
            return Self { retry_after, ..Self::default() };
        }
        let exhausted_for = longest(ietf_exhausted(headers), x_exhausted(headers, now));
        Self { retry_after, exhausted_for, max_rate: max_rate(headers) }
    }
}

fn is_from_a_cache(headers: &HeaderMap) -> bool {
    text(headers, AGE).and_then(whole).is_some_and(|seconds| seconds > 0)
}

fn longest(a: Option<Duration>, b: Option<Duration>) -> Option<Duration> {
    a.max(b)
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    Some(headers.get(name)?.to_str().ok()?.trim())
}

fn whole(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    // More digits than fit are a very large number.
    is_number.then(|| text.parse().unwrap_or(u64::MAX))
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds).min(SPAN_MAX)
}

fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let field = text(headers, RETRY_AFTER)?;
    if let Some(number) = whole(field) {
        return Some(seconds(number));
    }
    let until = httpdate::parse_http_date(field).ok()?;
    // A date that has passed is a span of nothing.
    Some(until.duration_since(date(headers).unwrap_or(now)).unwrap_or_default().min(SPAN_MAX))
}

fn date(headers: &HeaderMap) -> Option<SystemTime> {
    httpdate::parse_http_date(text(headers, DATE)?).ok()
}

/// All lines of a list field, joined as the RFC has it.
fn lines(headers: &HeaderMap, name: HeaderName) -> Option<String> {
    let lines = headers.get_all(name).iter().map(|line| line.to_str());
    let lines: Vec<&str> = lines.collect::<Result<_, _>>().ok()?;
    Some(lines.join(", "))
}

fn ietf_exhausted(headers: &HeaderMap) -> Option<Duration> {
    let field = lines(headers, RATE_LIMIT)?;
    let items = list(&field)?;
    let exhausted = items.iter().filter(|item| item.integer("r") == Some(0));
    exhausted.filter_map(|item| item.integer("t")).filter(|secs| *secs > 0).map(seconds).max()
}

fn x_exhausted(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    if whole(text(headers, X_REMAINING)?)? > 0 {
        return None;
    }
    let reset = whole(text(headers, X_RESET)?)?;
    let span = match reset < RESET_IS_A_TIME {
        true => seconds(reset),
        false => {
            let now = date(headers).unwrap_or(now).duration_since(SystemTime::UNIX_EPOCH).ok()?;
            Duration::from_secs(reset).saturating_sub(now).min(SPAN_MAX)
        }
    };
    (!span.is_zero()).then_some(span)
}

#[expect(clippy::cast_precision_loss, reason = "15 digits fit")]
fn max_rate(headers: &HeaderMap) -> Option<f64> {
    let field = lines(headers, RATE_LIMIT_POLICY)?;
    let items = list(&field)?;
    let rates = items.iter().filter_map(|policy| {
        let (quota, window) = (policy.integer("q")?, policy.integer("w")?);
        let counts_requests = policy.text("qu").is_none_or(|unit| unit == "requests");
        (counts_requests && quota > 0 && window > 0).then(|| quota as f64 / window as f64)
    });
    rates.min_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(1_792_000_000);

    fn advice(fields: &[(&'static str, &str)]) -> Advice {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, value.parse().expect("a value"));
        }
        Advice::from_headers(&headers, SystemTime::UNIX_EPOCH + NOW)
    }

    fn retry_after(value: &str) -> Option<u64> {
        advice(&[("retry-after", value)]).retry_after.map(|span| span.as_secs())
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        assert_eq!(retry_after("120"), Some(120));
        assert_eq!(retry_after(" 0 "), Some(0));
        let date = httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + NOW + Duration::from_secs(90));
        assert_eq!(retry_after(&date), Some(90));
        assert_eq!(retry_after("Sun, 06 Nov 1994 08:49:37 GMT"), Some(0), "it has passed");
        assert_eq!(retry_after("99999999999999999999999"), Some(SPAN_MAX.as_secs()));
        for wrong in ["", "-1", "1.5", "+3", "soon", "Sun, 06 Nov 1994"] {
            assert_eq!(retry_after(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_date_is_compared_with_that_of_the_response() {
        let fields = [
            ("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT"),
            ("date", "Sun, 06 Nov 1994 08:49:07 GMT"),
        ];
        assert_eq!(advice(&fields).retry_after, Some(Duration::from_secs(30)));
    }

    #[test]
    fn a_unix_time_is_compared_with_the_date_of_the_response() {
        let server = NOW - Duration::from_secs(60); // its clock, or ours, is wrong
        let fields = [
            ("date", &*httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + server)),
            ("x-ratelimit-remaining", "0"),
            ("x-ratelimit-reset", &*(server.as_secs() + 45).to_string()),
        ];
        assert_eq!(advice(&fields).exhausted_for, Some(Duration::from_secs(45)));
    }

    #[test]
    fn a_partition_key_does_not_hide_the_other_parameters() {
        let advice = advice(&[
            ("ratelimit-policy", r#""peruser";q=100;w=60;pk=:cHsdsRa894==:"#),
            ("ratelimit", r#""peruser";r=0;t=7;pk=:cHsdsRa894==:"#),
        ]);
        assert_eq!(advice.exhausted_for, Some(Duration::from_secs(7)));
        assert_eq!(advice.max_rate, Some(100.0 / 60.0));
    }

    #[test]
    fn of_several_limits_the_longest_time_and_the_smallest_rate_count() {
        let advice = advice(&[
            ("ratelimit-policy", r#""a";q=100;w=60, "b";q=10;w=1"#),
            (
                "ratelimit-policy",
                r#""bytes";q=5;w=5;qu="content-bytes", "c";q=3;qu="concurrent-requests""#,
            ),
            ("ratelimit", r#""a";r=0;t=7, "b";r=3;t=90"#),
            ("ratelimit", r#""d";r=0;t=9, "c";r=0"#),
        ]);
        assert_eq!(advice.exhausted_for, Some(Duration::from_secs(9)));
        assert_eq!(advice.max_rate, Some(100.0 / 60.0));
    }

    #[test]
    fn the_older_fields_name_a_span_or_a_time() {
        let of = |remaining, reset: &str| {
            let fields = [("x-ratelimit-remaining", remaining), ("x-ratelimit-reset", reset)];
            advice(&fields).exhausted_for.map(|span| span.as_secs())
        };
        assert_eq!(of("0", "30"), Some(30));
        assert_eq!(of("0", &(NOW.as_secs() + 45).to_string()), Some(45));
        assert_eq!(of("0", &(NOW.as_secs() - 45).to_string()), None);
        assert_eq!(of("1", "30"), None);
        assert_eq!(of("0", "soon"), None);
        assert_eq!(of("0", "99999999999999999999999"), Some(SPAN_MAX.as_secs()));
    }

    #[test]
    fn what_is_left_is_not_read_from_a_cached_response() {
        let fields = [
            ("retry-after", "3"),
            ("ratelimit-policy", r#""a";q=100;w=60"#),
            ("ratelimit", r#""a";r=0;t=7"#),
            ("x-ratelimit-remaining", "0"),
            ("x-ratelimit-reset", "9"),
        ];
        let retry_after = Some(Duration::from_secs(3));
        let cached = advice(&[&fields[..], &[("age", "1")]].concat());
        assert_eq!(cached, Advice { retry_after, ..Advice::default() });
        for fresh in ["0", "soon"] {
            let fresh = advice(&[&fields[..], &[("age", fresh)]].concat());
            assert_eq!(fresh.exhausted_for, Some(Duration::from_secs(9)));
            assert_eq!(fresh.max_rate, Some(100.0 / 60.0));
        }
    }

    #[test]
    fn malformed_fields_say_nothing() {
        let fields = [
            ("retry-after", "soon"),
            ("ratelimit", r#""a";r=0;t=7,"#),
            ("ratelimit-policy", r#""a";q=0;w=60"#),
        ];
        assert_eq!(advice(&fields), Advice::default());
    }
}
