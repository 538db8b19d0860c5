//! Properties of any bytes in the header fields of a response: the body of the fuzz target `advice`.
//! `tests/fuzz_bodies.rs` runs it as a property test too.

#![allow(dead_code, reason = "each test and fuzz target uses a part")]
#![allow(clippy::disallowed_types, reason = "Retry-After may be a date of the wall clock")]

use std::cell::Cell;
use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, HeaderValue};
use tollgate_client::Advice;

const YEAR: Duration = Duration::from_secs(365 * 86_400);
const NOW_SECS: u64 = 1_792_000_000;

const NAMES: [&str; 6] = [
    "retry-after",
    "ratelimit",
    "ratelimit-policy",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
    "date",
];

/// A mistake that the body must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// The last byte of each field is lost.
    ByteLost,
    /// Spans are doubled.
    SpanOff,
    /// The rate is halved.
    RateOff,
}

thread_local! {
    static PLANTED: Cell<Option<Mistake>> = const { Cell::new(None) };
}

pub(crate) fn plant(mistake: Option<Mistake>) {
    PLANTED.set(mistake);
}

fn planted(mistake: Mistake) -> bool {
    PLANTED.get() == Some(mistake)
}

/// Each line of the data is a field: its first byte chooses the name. What is read is bounded, and the
/// numbers of fields that are written plainly are read as they are.
pub(crate) fn advice(data: &[u8]) {
    let mut headers = HeaderMap::new();
    for line in data.split(|byte| *byte == b'\n').take(64) {
        let Some((name, value)) = line.split_first() else { continue };
        let name = HeaderName::from_static(NAMES[usize::from(*name) % NAMES.len()]);
        let lost = usize::from(planted(Mistake::ByteLost) && !value.is_empty());
        if let Ok(value) = HeaderValue::from_bytes(&value[..value.len() - lost]) {
            headers.append(name, value);
        }
    }
    let read = read(&headers);
    for span in [read.retry_after, read.exhausted_for].into_iter().flatten() {
        assert!(span <= YEAR, "{span:?}");
    }
    assert!(read.exhausted_for.is_none_or(|span| !span.is_zero()));
    assert!(read.max_rate.is_none_or(|rate| rate.is_finite() && rate > 0.0), "{read:?}");
    plain_numbers_are_read(data);
}

fn read(headers: &HeaderMap) -> Advice {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(NOW_SECS);
    let mut read = Advice::from_headers(headers, now);
    if planted(Mistake::SpanOff) {
        read.retry_after = read.retry_after.map(|span| span * 2);
    }
    if planted(Mistake::RateOff) {
        read.max_rate = read.max_rate.map(|rate| rate / 2.0);
    }
    read
}

/// Numbers from the data, written as a server writes them.
fn plain_numbers_are_read(data: &[u8]) {
    let mut numbers =
        data.chunks(2).map(|two| two.iter().fold(1, |n, byte| n * 256 + u64::from(*byte)));
    let mut next = || numbers.next().unwrap_or(7);
    let (wait, quota, window, reset) = (next(), next(), next(), next());
    let mut headers = HeaderMap::new();
    let mut set = |name: &'static str, value: String| {
        let cut = value.len() - usize::from(planted(Mistake::ByteLost));
        headers.insert(name, value[..cut].parse().expect("ASCII"));
    };
    set("retry-after", wait.to_string());
    set("ratelimit-policy", format!("\"a \\\"b\\\"\";q={quota};w={window}"));
    set("ratelimit", format!("\"a \\\"b\\\"\";r=0;t={reset}"));
    let read = read(&headers);
    assert_eq!(read.retry_after, Some(Duration::from_secs(wait).min(YEAR)));
    assert_eq!(read.exhausted_for, Some(Duration::from_secs(reset).min(YEAR)));
    let rate = |n: u64| f64::from(u32::try_from(n).expect("17 bits"));
    assert_eq!(read.max_rate, Some(rate(quota) / rate(window)));
}
