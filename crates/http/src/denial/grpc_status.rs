//! The details of a gRPC denial: a `google.rpc.Status` with `RetryInfo` and `QuotaFailure`, in Protocol Buffers and
//! Base64, as the metadata `grpc-status-details-bin` has it.
//!
//! ```text
//! Status       { int32 code = 1; string message = 2; repeated Any details = 3; }
//! Any          { string type_url = 1; bytes value = 2; }
//! RetryInfo    { Duration retry_delay = 1; }
//! Duration     { int64 seconds = 1; int32 nanos = 2; }
//! QuotaFailure { repeated Violation violations = 1; }
//! Violation    { string subject = 1; string description = 2; }
//! ```

use core::time::Duration;

use http::HeaderValue;

use crate::headers::Report;

/// The longest `Duration` of Protocol Buffers, about 10,000 years.
const SECS_MAX: u64 = 315_576_000_000;

/// The value of `grpc-status-details-bin`. `wait` is the time until a retry, if one helps; each limit in
/// `denied_by` that denied is a violation.
pub(super) fn details(
    code: u16,
    message: &str,
    wait: Option<Duration>,
    denied_by: Option<&Report>,
) -> HeaderValue {
    let mut status = Message::default();
    status.number(1, code.into());
    status.bytes(2, message.as_bytes());
    if let Some(wait) = wait {
        status.any("RetryInfo", &retry_info(wait));
    }
    if let Some(report) = denied_by {
        status.any("QuotaFailure", &quota_failure(report));
    }
    HeaderValue::try_from(base64(&status.0)).expect("Base64 is ASCII")
}

fn retry_info(wait: Duration) -> Message {
    let mut delay = Message::default();
    delay.number(1, wait.as_secs().min(SECS_MAX));
    delay.number(2, wait.subsec_nanos().into());
    let mut info = Message::default();
    info.bytes(1, &delay.0);
    info
}

/// The subject is the name of the policy. The key is not repeated: it may be a secret.
fn quota_failure(report: &Report) -> Message {
    let mut failure = Message::default();
    for reading in report.readings().filter(|reading| reading.denied) {
        let mut violation = Message::default();
        violation.bytes(1, reading.policy.name().as_bytes());
        violation.bytes(2, reading.policy.item().as_bytes());
        failure.bytes(1, &violation.0);
    }
    failure
}

/// A message in the wire format. Fields with the default value are left out.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut number: u64) {
        while number > 0x7f {
            self.0.push((number & 0x7f) as u8 | 0x80);
            number >>= 7;
        }
        self.0.push((number & 0x7f) as u8);
    }

    fn number(&mut self, field: u64, number: u64) {
        if number > 0 {
            self.varint(field << 3);
            self.varint(number);
        }
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    /// A detail of a status.
    fn any(&mut self, name: &str, value: &Self) {
        let mut any = Self::default();
        any.bytes(1, format!("type.googleapis.com/google.rpc.{name}").as_bytes());
        any.bytes(2, &value.0);
        self.bytes(3, &any.0);
    }
}

/// Without padding, as gRPC recommends.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let [a, b, c] = [0, 1, 2].map(|at| u32::from(chunk.get(at).copied().unwrap_or(0)));
        let bits = a << 16 | b << 8 | c;
        for place in 0..=chunk.len() {
            let digit = bits >> (18 - 6 * place) & 63;
            text.push(char::from(DIGITS[digit as usize]));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use proptest::prelude::*;
    use tollgate::Quota;
    use tonic::{Code, Status};
    use tonic_types::StatusExt;

    use super::*;
    use crate::headers::{Policy, Reading};

    /// The status as a client reads it from the trailers.
    fn read(details: HeaderValue) -> Status {
        let mut headers = HeaderMap::new();
        headers.insert("grpc-status", HeaderValue::from_static("8"));
        headers.insert("grpc-status-details-bin", details);
        Status::from_header_map(&headers).expect("a status")
    }

    #[test]
    fn base64_has_no_padding() {
        let texts = [("", ""), ("f", "Zg"), ("fo", "Zm8"), ("foo", "Zm9v"), ("foob", "Zm9vYg")];
        for (bytes, text) in texts {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
        assert_eq!(base64(&[0xfb, 0xff, 0xfe]), "+//+");
    }

    #[test]
    fn each_limit_that_denied_is_a_violation() {
        let mut report = Report::default();
        for (name, denied) in [("a", true), ("b", false), ("c \"2\"", true)] {
            let policy = Policy::new(name, &Quota::per_minute(100)).expect("a name");
            report.note(Reading { denied, ..Reading::new(policy, 100, 0) });
        }
        let status = read(details(8, "over", None, Some(&report)));
        let failure = status.get_details_quota_failure().expect("a failure");
        let violations: Vec<_> = failure
            .violations
            .iter()
            .map(|its| (its.subject.as_str(), its.description.as_str()))
            .collect();
        let expected = [("a", r#""a";q=100;w=60"#), (r#"c "2""#, r#""c \"2\"";q=100;w=60"#)];
        assert_eq!(violations, expected);
        assert!(status.get_details_retry_info().is_none(), "no wait helps");
        let status = read(details(14, "down", None, None));
        assert!(status.get_details_quota_failure().is_none());
    }

    proptest! {
        #[test]
        fn a_client_decodes_the_wait_and_the_message(
            secs in prop_oneof![0..100_u64, any::<u64>()],
            nanos in 0..1_000_000_000_u32,
            message in ".{0,300}",
        ) {
            let wait = Duration::new(secs, nanos);
            let value = details(8, &message, Some(wait), None);
            let status = read(value);
            prop_assert_eq!(status.code(), Code::ResourceExhausted);
            let delay = status.get_details_retry_info().expect("a delay").retry_delay;
            prop_assert_eq!(delay, Some(Duration::new(secs.min(SECS_MAX), nanos)));
            let status: tonic_types::pb::Status =
                prost::Message::decode(status.details()).expect("a message");
            prop_assert_eq!((status.code, status.message), (8, message));
        }
    }
}
