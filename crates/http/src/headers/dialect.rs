//! Other forms of the fields than that of the newest draft.

use core::cmp::Reverse;
use core::fmt::Write;
use core::time::Duration;

use http::header::{HeaderMap, HeaderName, HeaderValue};

use super::policy::Policy;
use super::report::{Reading, Report};
use super::{INTEGER_MAX, RATE_LIMIT, RATE_LIMIT_POLICY, printable, retry_after_secs, whole_secs};

const X_NAMES: [HeaderName; 3] = [
    HeaderName::from_static("x-ratelimit-limit"),
    HeaderName::from_static("x-ratelimit-remaining"),
    HeaderName::from_static("x-ratelimit-reset"),
];

/// A form of the rate limit fields, for clients that expect it.
///
/// Drafts 8 to 11 share the form that a layer writes by default, so they need no dialect.
///
/// | dialect | fields of a limit of 2 a second with a burst of 5 |
/// |---|---|
/// | `Draft7` | `ratelimit-policy: 2;w=1;burst=5;comment="per-client"`, `ratelimit: limit=5, remaining=4, reset=1` |
/// | `Envoy` | `x-ratelimit-limit: 5, 2;w=1;name="per-client"`, `x-ratelimit-remaining: 4`, `x-ratelimit-reset: 1` |
/// | `GitHub` | `x-ratelimit-limit: 5`, `x-ratelimit-remaining: 4`, `x-ratelimit-reset: 1764000000` |
///
/// Of several limits, the values are those of the one that denied with the longest wait. If none denied, they are those
/// of the one with the fewest cells left. The reset of a denial is never before `Retry-After`.
///
/// ```
/// use tollgate_http::{Dialect, Limit, Quota, RateLimitLayer, key::PeerIp};
/// let limit = Limit::gcra("per-client", Quota::per_second(2).burst(5), PeerIp::new())?;
/// let layer = RateLimitLayer::builder(limit).dialect(Dialect::Envoy).build();
/// # Ok::<(), tollgate_http::LimitError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Dialect {
    /// `RateLimit` and `RateLimit-Policy` as in draft-ietf-httpapi-ratelimit-headers-07, in place of those of the
    /// newest draft. A limit of requests in flight is left out, since that draft requires a time. `RateLimit-Policy`
    /// also leaves out a limit whose period is not whole seconds, since that draft requires a window.
    Draft7,
    /// `X-RateLimit-*` as Envoy writes them: the limit is followed by the policies, and the reset is in seconds.
    Envoy,
    /// `X-RateLimit-*` with the reset as a Unix time in seconds, by the system's clock.
    GitHub,
}

/// The form of the `X-RateLimit-*` fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum XForm {
    Seconds,
    Envoy,
    UnixTime,
}

/// Fields that are no lists.
#[derive(Debug)]
pub(super) struct OtherFields {
    draft_7: Option<Draft7Fields>,
    x: Option<XFields>,
}

#[derive(Debug)]
struct Draft7Fields {
    /// `None` if the draft can express no policy.
    policies: Option<HeaderValue>,
    limit: u64,
    remaining: u64,
    reset: Reset,
}

#[derive(Debug)]
struct XFields {
    limit: HeaderValue,
    remaining: u64,
    reset: Reset,
}

/// When a limit resets.
#[derive(Debug)]
struct Reset {
    /// Zero for a span, or the time of the decision for a Unix time.
    from: Duration,
    after: Duration,
    is_denial: bool,
}

impl Reset {
    /// Whole seconds, rounded up. A denial resets no earlier than the response's `Retry-After`, which another limit
    /// or jitter may have lengthened.
    fn secs(&self, retry_after_secs: Option<u64>) -> u64 {
        let wait = retry_after_secs.filter(|_| self.is_denial).map(Duration::from_secs);
        whole_secs(self.from.saturating_add(self.after.max(wait.unwrap_or_default())))
    }
}

impl OtherFields {
    /// `unix_now` is the time since 1970.
    pub(super) fn new(
        report: &Report,
        draft_7_wanted: bool,
        form: Option<XForm>,
        unix_now: fn() -> Duration,
    ) -> Self {
        let draft_7 = if draft_7_wanted { draft_7(report) } else { None };
        Self { draft_7, x: form.and_then(|form| x(report, form, unix_now)) }
    }

    /// Adds the fields, except those that the response has already.
    pub(super) fn add_to(self, headers: &mut HeaderMap) {
        let retry_after = retry_after_secs(headers);
        let draft_7 = self.draft_7.into_iter().flat_map(|fields| {
            let values = fields.values(retry_after);
            let policies = fields.policies.map(|policies| (RATE_LIMIT_POLICY, policies));
            policies.into_iter().chain([(RATE_LIMIT, values)])
        });
        let x = self.x.into_iter().flat_map(|XFields { limit, remaining, reset }| {
            let numbers = [remaining, reset.secs(retry_after)].map(HeaderValue::from);
            X_NAMES.into_iter().zip([limit].into_iter().chain(numbers))
        });
        for (name, value) in draft_7.chain(x) {
            headers.entry(name).or_insert(value);
        }
    }
}

impl Draft7Fields {
    fn values(&self, retry_after_secs: Option<u64>) -> HeaderValue {
        let numbers = [self.limit, self.remaining, self.reset.secs(retry_after_secs)];
        let [limit, remaining, reset] = numbers.map(|number| number.min(INTEGER_MAX));
        printable(format!("limit={limit}, remaining={remaining}, reset={reset}"))
    }
}

/// The limit that denied with the longest wait, or else the one with the fewest cells left.
fn tightest<'a>(readings: impl Iterator<Item = &'a Reading>) -> Option<&'a Reading> {
    readings.min_by_key(|reading| (Reverse(reading.denied_for()), reading.remaining))
}

/// The limits that the draft can express.
fn timed(report: &Report) -> impl Iterator<Item = &Reading> {
    report.readings().filter(|reading| reading.policy.has_time())
}

fn draft_7(report: &Report) -> Option<Draft7Fields> {
    let reading = tightest(timed(report))?;
    let is_denial = reading.denied;
    let after = match reading.retry_after {
        Some(wait) if is_denial => wait.max(Duration::from_secs(1)),
        _ => reading.reset_after,
    };
    let policies = draft_7_policies(report);
    Some(Draft7Fields {
        policies: (!policies.is_empty()).then(|| printable(policies)),
        limit: reading.limit,
        remaining: reading.remaining,
        reset: Reset { from: Duration::ZERO, after, is_denial },
    })
}

/// The draft allows one policy for each number of cells, and requires its window in whole seconds.
fn draft_7_policies(report: &Report) -> String {
    let shown = || timed(report).filter(|reading| reading.policy.window_secs().is_some());
    let limit_of = |policy: &Policy| policy.limit().min(INTEGER_MAX);
    let mut policies = String::new();
    for (at, reading) in shown().enumerate() {
        let policy = &reading.policy;
        if shown().take(at).any(|before| limit_of(&before.policy) == limit_of(policy)) {
            continue;
        }
        push_policy(&mut policies, reading);
        if policy.burst() != policy.limit() {
            let _ = write!(policies, ";burst={}", policy.burst().min(INTEGER_MAX));
        }
        let _ = write!(policies, ";comment={}", policy.quoted());
    }
    policies
}

/// Appends the limit and the window of a policy, after a comma if it is not the first.
fn push_policy(text: &mut String, reading: &Reading) {
    let separator = if text.is_empty() { "" } else { ", " };
    let _ = write!(text, "{separator}{}", reading.policy.limit().min(INTEGER_MAX));
    if let Some(secs) = reading.policy.window_secs() {
        let _ = write!(text, ";w={secs}");
    }
}

fn x(report: &Report, form: XForm, unix_now: fn() -> Duration) -> Option<XFields> {
    let reading = tightest(report.readings())?;
    let limit = match form {
        XForm::Seconds | XForm::UnixTime => HeaderValue::from(reading.limit),
        XForm::Envoy => {
            let mut text = reading.limit.to_string();
            for reading in report.readings() {
                push_policy(&mut text, reading);
                let _ = write!(text, ";name={}", reading.policy.quoted());
            }
            printable(text)
        }
    };
    let from = match form {
        XForm::Seconds | XForm::Envoy => Duration::ZERO,
        XForm::UnixTime => unix_now(),
    };
    let wait = reading.retry_after.filter(|_| reading.denied).unwrap_or_default();
    let after = reading.reset_after.max(wait);
    let reset = Reset { from, after, is_denial: reading.denied };
    Some(XFields { limit, remaining: reading.remaining, reset })
}

/// The time since 1970 by the system's clock.
#[allow(
    clippy::disallowed_types,
    reason = "the field is a time of the system's clock; no limit depends on it"
)]
pub(super) fn unix_now() -> Duration {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use tollgate::Quota;

    use super::*;

    fn now() -> Duration {
        Duration::from_millis(1_764_000_000_001)
    }

    fn reading(name: &str, quota: &Quota, remaining: u64) -> Reading {
        let policy = Policy::new(name, quota).expect("a name");
        let reading = Reading::new(policy, quota.burst_cells(), remaining);
        Reading { reset_after: Duration::from_millis(29_001), ..reading }
    }

    fn fields(readings: &[Reading], draft_7: bool, form: Option<XForm>) -> Vec<String> {
        let mut report = Report::default();
        readings.iter().for_each(|reading| report.note(reading.clone()));
        let mut headers = HeaderMap::new();
        OtherFields::new(&report, draft_7, form, now).add_to(&mut headers);
        let lines = headers.iter().map(|(name, value)| (name, value.to_str().expect("ASCII")));
        lines.map(|(name, value)| format!("{name}: {value}")).collect()
    }

    #[test]
    fn draft_7_is_a_dictionary_and_a_list_of_numbers() {
        let limits = [
            reading("a", &Quota::per_second(2).burst(5), 4),
            reading("b \"2\"", &Quota::per_minute(100), 3),
            reading("c", &Quota::per_hour(100), 50),
        ];
        // The third policy has the number of the second.
        let policies = r#"ratelimit-policy: 2;w=1;burst=5;comment="a", 100;w=60;comment="b \"2\"""#;
        let values = "ratelimit: limit=100, remaining=3, reset=30";
        assert_eq!(fields(&limits, true, None), [policies, values]);
    }

    #[test]
    fn draft_7_shows_the_wait_of_the_limit_that_denied() {
        let mut limits =
            [reading("a", &Quota::per_second(2), 0), reading("b", &Quota::per_minute(100), 9)];
        (limits[1].denied, limits[1].retry_after) = (true, Some(Duration::from_millis(600)));
        assert_eq!(fields(&limits, true, None)[1], "ratelimit: limit=100, remaining=9, reset=1");
        // If no wait helps, it is the time until all cells are there.
        limits[1].retry_after = None;
        assert_eq!(fields(&limits, true, None)[1], "ratelimit: limit=100, remaining=9, reset=30");
    }

    #[test]
    fn of_several_denials_the_one_with_the_longest_wait_is_shown() {
        let denied = |name, quota, remaining, millis: Option<u64>| {
            let reading = reading(name, &quota, remaining);
            let retry_after = millis.map(Duration::from_millis);
            Reading { denied: true, retry_after, ..reading }
        };
        let second = denied("a", Quota::per_second(2), 0, Some(600));
        let hour = denied("b", Quota::per_hour(100), 1, Some(7_000));
        let never = denied("c", Quota::per_minute(7), 5, None);
        let all = [second.clone(), hour.clone(), never];
        let shown = |readings: &[Reading]| {
            let x = fields(readings, false, Some(XForm::Seconds));
            (fields(readings, true, None)[1].clone(), x[0].clone())
        };
        let expected = |values: &str, limit: u64| {
            (format!("ratelimit: {values}"), format!("x-ratelimit-limit: {limit}"))
        };
        let of_the_hour = expected("limit=100, remaining=1, reset=7", 100);
        assert_eq!(shown(&all[..2]), of_the_hour);
        assert_eq!(shown(&[hour, second]), of_the_hour, "in any order");
        assert_eq!(shown(&all), expected("limit=7, remaining=5, reset=30", 7), "no wait helps");
    }

    #[test]
    fn draft_7_leaves_out_what_it_cannot_express() {
        let policy = Policy::of_requests_in_flight("at once", 10).expect("a name");
        let in_flight = Reading::new(policy, 10, 0);
        assert_eq!(fields(std::slice::from_ref(&in_flight), true, None), [""; 0]);
        // A number beyond the largest integer, and a window that is not whole seconds.
        let max = INTEGER_MAX;
        let timed = reading("a", &Quota::new(u64::MAX, Duration::from_secs(1)), u64::MAX);
        let lines = fields(&[in_flight.clone(), timed], true, None);
        assert_eq!(lines[0], format!("ratelimit-policy: {max};w=1;comment=\"a\""));
        assert_eq!(lines[1], format!("ratelimit: limit={max}, remaining={max}, reset=30"));
        let odd = reading("b", &Quota::new(3, Duration::from_millis(1_500)), 2);
        let values = "ratelimit: limit=3, remaining=2, reset=30";
        assert_eq!(fields(&[in_flight, odd.clone()], true, None), [values]);
        // A policy with a window and the same number is shown.
        let minute = reading("c", &Quota::per_minute(3), 3);
        let policies = "ratelimit-policy: 3;w=60;comment=\"c\"";
        assert_eq!(fields(&[odd, minute], true, None), [policies, values]);
    }

    #[test]
    fn envoys_limit_is_followed_by_the_policies() {
        let limits = [
            reading("a", &Quota::per_second(2).burst(5), 4),
            reading("b", &Quota::per_minute(100), 3),
        ];
        let expected = [
            r#"x-ratelimit-limit: 100, 2;w=1;name="a", 100;w=60;name="b""#,
            "x-ratelimit-remaining: 3",
            "x-ratelimit-reset: 30",
        ];
        assert_eq!(fields(&limits, false, Some(XForm::Envoy)), expected);
    }

    #[test]
    fn a_unix_time_is_rounded_up_to_a_second() {
        let limits = [reading("a", &Quota::per_minute(100), 3)];
        let lines = fields(&limits, false, Some(XForm::UnixTime));
        assert_eq!(lines[0], "x-ratelimit-limit: 100");
        assert_eq!(lines[2], "x-ratelimit-reset: 1764000030", "29.001 s after .001");
        let last = Reading { reset_after: Duration::MAX, ..limits[0].clone() };
        let lines = fields(&[last], false, Some(XForm::UnixTime));
        assert_eq!(lines[2], format!("x-ratelimit-reset: {}", u64::MAX));
        assert!(unix_now() > Duration::from_secs(1_700_000_000));
    }

    #[test]
    fn fields_that_the_response_has_stay() {
        let mut report = Report::default();
        report.note(reading("a", &Quota::per_minute(100), 3));
        let mut headers = HeaderMap::new();
        headers.insert("x-ratelimit-reset", HeaderValue::from_static("7"));
        headers.insert(RATE_LIMIT, HeaderValue::from_static("limit=1, reset=1"));
        OtherFields::new(&report, true, Some(XForm::Seconds), now).add_to(&mut headers);
        assert_eq!(headers["x-ratelimit-reset"], "7");
        assert_eq!(headers["x-ratelimit-remaining"], "3");
        assert_eq!(headers[RATE_LIMIT], "limit=1, reset=1");
    }
}
