//! The `RateLimit` fields, of policies with any name and readings of any size.

use std::cmp::Reverse;
use std::convert::Infallible;
use std::future::Ready;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use http::request::Parts;
use http::{HeaderMap, HeaderValue, Request, Response};
use tollgate::Quota;
use tollgate_http::{Dialect, Gate, GatePermit, Policy, RateLimitLayer, Reading, Report, Verdict};
use tower_layer::Layer;
use tower_service::Service;

use super::cursor::Cursor;
use super::mistake::{Mistake, planted};
use super::structured::{Item, Value, list, numbers};

const INTEGER_MAX: u64 = 999_999_999_999_999;

/// Every field of the response parses, and holds what the gate reported.
pub(crate) fn fields(data: &[u8]) {
    let mut cursor = Cursor::new(data);
    let kind = cursor.byte();
    let retry_after = (kind & 2 > 0).then(|| cursor.number());
    let mut reported = Reported { readings: Vec::new(), denies: kind & 1 > 0 };
    while !cursor.is_empty() && reported.readings.len() < 4 {
        reported.readings.extend(reading(&mut cursor));
    }
    reported.denies &= reported.readings.iter().any(|reading| reading.denied);
    let reported = Arc::new(reported);
    // With two layers, the outer one appends the same items again.
    let stacked = kind & 4 > 0 && !reported.denies;
    let headers = match stacked {
        false => ask(layer(&reported, kind).layer(Answer(retry_after))),
        true => {
            ask(layer(&reported, kind).layer(layer(&reported, kind).layer(Answer(retry_after))))
        }
    };
    if kind & 16 > 0 {
        return the_other_forms_are_reported(&headers, &reported);
    }
    let expected = reported.readings.len() * if stacked { 2 } else { 1 };
    the_policies_are_reported(&headers, &reported, expected);
    the_limits_are_reported(&headers, &reported, expected);
}

/// The answer of the gate.
struct Reported {
    readings: Vec<Reading>,
    denies: bool,
}

struct FixedGate(Arc<Reported>);

impl Gate for FixedGate {
    fn decide(&self, _: &Parts, report: &mut Report) -> Verdict {
        let lost = usize::from(planted(Mistake::ReadingLost));
        self.0.readings.iter().skip(lost).for_each(|reading| report.note(reported(reading)));
        match self.0.denies {
            true => Verdict::Deny,
            false => Verdict::Admit(GatePermit::default()),
        }
    }
}

/// The reading, changed by the planted fault.
fn reported(reading: &Reading) -> Reading {
    let mut reported = reading.clone();
    if planted(Mistake::LimitOff) {
        let more = Quota::new(reported.limit.saturating_add(1), Duration::from_secs(1));
        reported.policy = Policy::new(reported.policy.name(), &more).expect("its name");
    }
    reported.remaining = reported.remaining.saturating_sub(planted(Mistake::RemainingOff).into());
    let late = Duration::from_secs(planted(Mistake::ResetOff).into());
    reported.reset_after = reported.reset_after.saturating_add(late);
    reported
}

fn layer(reported: &Arc<Reported>, kind: u8) -> RateLimitLayer<FixedGate> {
    let builder = RateLimitLayer::builder(FixedGate(Arc::clone(reported)));
    let builder = if kind & 8 > 0 { builder.x_rate_limit() } else { builder };
    match kind & 16 {
        0 => builder.build(),
        _ => builder.dialect(Dialect::Draft7).dialect(Dialect::Envoy).build(),
    }
}

/// The service, which may set `Retry-After` itself.
#[derive(Clone)]
struct Answer(Option<u64>);

impl Service<Request<()>> for Answer {
    type Response = Response<String>;
    type Error = Infallible;
    type Future = Ready<Result<Response<String>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        let mut response = Response::new(String::new());
        if let Some(secs) = self.0 {
            response.headers_mut().insert("retry-after", HeaderValue::from(secs));
        }
        std::future::ready(Ok(response))
    }
}

fn ask<S, B>(mut service: S) -> HeaderMap
where
    S: Service<Request<()>, Response = Response<B>, Error = Infallible>,
{
    let answer = pin!(service.call(Request::new(())));
    match answer.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Ok(response)) => response.into_parts().0.headers,
        Poll::Ready(Err(never)) => match never {},
        Poll::Pending => panic!("nothing waits here"),
    }
}

/// `None`: the name is invalid, and `Policy` rejects it.
fn reading(cursor: &mut Cursor<'_>) -> Option<Reading> {
    let length = cursor.byte() % 80;
    let name = String::from_utf8_lossy(cursor.take(length.into())).into_owned();
    let quota = Quota::new(cursor.number(), duration(cursor));
    let flags = cursor.byte();
    let policy = match flags & 1 {
        0 => Policy::new(&name, &quota),
        _ => Policy::of_bytes(&name, &quota),
    };
    let is_name = (1..=64).contains(&name.len()) && name.bytes().all(|b| (32..127).contains(&b));
    assert_eq!(policy.is_ok(), is_name, "{name:?}");
    let mut reading = Reading::new(policy.ok()?, quota.limit(), cursor.number());
    assert_eq!(reading.policy.name(), name);
    reading.reset_after = duration(cursor);
    reading.denied = flags & 2 > 0;
    reading.retry_after = (flags & 6 == 6).then(|| duration(cursor));
    Some(reading)
}

fn duration(cursor: &mut Cursor<'_>) -> Duration {
    let nanos = if cursor.byte().is_multiple_of(2) { 0 } else { 1 + u32::from(cursor.byte()) };
    Duration::new(cursor.number(), nanos)
}

/// The items of all lines of the field.
fn items(headers: &HeaderMap, name: &str) -> Vec<Item> {
    let lines = headers.get_all(name).iter().map(|line| line.as_bytes());
    let mut all = Vec::new();
    for line in lines {
        let line = &line[usize::from(planted(Mistake::QuoteLost))..];
        let parsed = list(line)
            .unwrap_or_else(|at| panic!("{name} is wrong at {at}: {}", line.escape_ascii()));
        assert!(!parsed.is_empty(), "an empty line of {name}");
        all.extend(parsed);
    }
    all
}

fn signed(number: u64) -> Option<i64> {
    Some(i64::try_from(number.min(INTEGER_MAX)).expect("15 digits"))
}

fn the_policies_are_reported(headers: &HeaderMap, reported: &Reported, expected: usize) {
    let items = items(headers, "ratelimit-policy");
    assert_eq!(items.len(), expected);
    for (item, reading) in items.iter().zip(reported.readings.iter().cycle()) {
        assert_eq!(item.text, reading.policy.name());
        assert_eq!(item.integer("q"), signed(reading.limit));
        assert!(item.parameter("w").is_none() || item.integer("w").is_some_and(|secs| secs > 0));
        let unit = item.parameter("qu");
        assert!(unit.is_none_or(|unit| *unit == Value::Text("content-bytes".into())), "{unit:?}");
        assert!(item.parameters.iter().all(|(name, _)| ["q", "qu", "w"].contains(&&**name)));
    }
}

/// The window of the reading's policy, if it is whole seconds.
fn window(reading: &Reading) -> Option<i64> {
    let policy = reading.policy.to_string();
    list(policy.as_bytes()).expect("an item")[0].integer("w")
}

/// The denial with the longest wait, which is that of a limit that never admits. Without a denial, the
/// reading with the fewest cells left.
fn tightest(readings: &[Reading]) -> Option<&Reading> {
    let denied = readings.iter().filter(|its| its.denied);
    let longest =
        |its: &&Reading| (its.retry_after.is_some(), Reverse(its.retry_after), its.remaining);
    denied.min_by_key(longest).or_else(|| readings.iter().min_by_key(|its| its.remaining))
}

/// The fields of draft 7, and those of Envoy. A second layer adds nothing to them.
fn the_other_forms_are_reported(headers: &HeaderMap, reported: &Reported) {
    let Some(tightest) = tightest(&reported.readings) else {
        return assert!(!headers.contains_key("ratelimit"));
    };
    let line = |name: &str| {
        assert_eq!(headers.get_all(name).iter().count(), 1, "{name}");
        headers[name].to_str().expect("ASCII")
    };
    let has_window = |reading: &Reading| window(reading).is_some();
    let policies = match reported.readings.iter().any(has_window) {
        true => numbers(line("ratelimit-policy").as_bytes()).expect("a list of integers"),
        false => Vec::new(),
    };
    assert_eq!(headers.contains_key("ratelimit-policy"), !policies.is_empty());
    for (at, item) in policies.iter().enumerate() {
        assert!(policies[..at].iter().all(|before| before.text != item.text), "twice: {item:?}");
        let (name, window_secs) = (item.parameter("comment"), item.integer("w").expect("a window"));
        let is_shown = |reading: &Reading| {
            *name.expect("a name") == Value::Text(reading.policy.name().into())
                && window(reading) == Some(window_secs)
        };
        assert!(reported.readings.iter().any(is_shown), "{item:?}");
    }
    let entries: Vec<_> = line("ratelimit").split(", ").collect();
    let expected = [("limit", tightest.limit), ("remaining", tightest.remaining)];
    for (entry, (name, number)) in entries.iter().zip(expected) {
        assert_eq!(*entry, format!("{name}={}", number.min(INTEGER_MAX)));
    }
    let retry_after = headers.get("retry-after").filter(|_| tightest.denied);
    let retry_after = retry_after.map(|secs| secs.to_str().expect("digits"));
    let retry_after: u64 = retry_after.map_or(0, |secs| secs.parse().expect("a number"));
    let wait = tightest.retry_after.filter(|_| tightest.denied);
    let secs =
        wait.map_or_else(|| rounded_up(tightest.reset_after), |wait| rounded_up(wait).max(1));
    assert_eq!(entries[2..], [format!("reset={}", secs.max(retry_after.min(INTEGER_MAX)))]);
    let reset: u64 = line("x-ratelimit-reset").parse().expect("a number");
    assert!(reset >= retry_after && reset >= rounded_up(tightest.reset_after));

    let (limit, policies) = line("x-ratelimit-limit").split_once(", ").expect("a policy");
    assert_eq!(limit, tightest.limit.to_string());
    let policies = numbers(policies.as_bytes()).expect("a list of integers");
    assert_eq!(policies.len(), reported.readings.len());
    for (item, reading) in policies.iter().zip(&reported.readings) {
        assert_eq!(item.parameter("name"), Some(&Value::Text(reading.policy.name().into())));
    }
}

fn the_limits_are_reported(headers: &HeaderMap, reported: &Reported, expected: usize) {
    let items = items(headers, "ratelimit");
    assert_eq!(items.len(), expected);
    let retry_after = headers.get("retry-after").map(|value| value.to_str().expect("digits"));
    let mut retry_after: Option<u64> = retry_after.map(|text| text.parse().expect("a number"));
    if planted(Mistake::PatienceOff) {
        retry_after = retry_after.map(|secs| secs.saturating_sub(1).max(1));
    }
    if reported.denies {
        assert!(retry_after.is_none_or(|secs| secs > 0));
    }
    for (item, reading) in items.iter().zip(reported.readings.iter().cycle()) {
        assert_eq!(item.text, reading.policy.name());
        assert_eq!(item.integer("r"), signed(reading.remaining));
        assert!(item.parameters.iter().all(|(name, _)| ["r", "t"].contains(&&**name)));
        let span = if reading.denied { reading.retry_after } else { Some(reading.reset_after) };
        let found = item.integer("t").map(i64::unsigned_abs);
        match (found, span) {
            (None, None) => {}
            (None, Some(span)) => {
                let retry_after = retry_after.expect("a time is left out for Retry-After only");
                assert!(rounded_up(span).max(1) > retry_after, "{span:?} is left out");
            }
            (Some(secs), Some(span)) => {
                let at_least = u64::from(reading.denied);
                assert_eq!(secs, rounded_up(span).max(at_least));
                assert!(retry_after.is_none_or(|retry_after| retry_after >= secs));
            }
            (Some(secs), None) => panic!("{secs} s for what never fits"),
        }
    }
}

/// Whole seconds, as the field can hold them.
fn rounded_up(span: Duration) -> u64 {
    let secs = u128::from(span.as_secs()) + u128::from(span.subsec_nanos() > 0);
    u64::try_from(secs.min(INTEGER_MAX.into())).expect("15 digits")
}
