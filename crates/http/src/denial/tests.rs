use core::time::Duration;

use tollgate::Quota;

use super::*;
use crate::headers::{Policy, Reading};

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
    Denial::new(&request, &report, reason).respond(write)
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
fn each_reason_has_its_status_and_retry_after() {
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
        let response = answer(Reason::NoKey(error), Some(Duration::ZERO));
        assert_eq!(response.status(), status);
        assert!(!response.headers().contains_key("retry-after"));
        let body: serde_json::Value = serde_json::from_slice(response.body()).expect("JSON");
        // RFC 9457, 4.2.1
        assert_eq!(body["title"], response.status().canonical_reason().expect("registered"));
        assert_eq!(body["detail"], error.to_string());
    }
    for (reason, status) in [(Reason::Unavailable, 503), (Reason::Forbidden, 403)] {
        let response = answer(reason, Some(Duration::ZERO));
        assert_eq!(response.status(), status);
        assert!(!response.headers().contains_key("retry-after"));
        let body: serde_json::Value = serde_json::from_slice(response.body()).expect("JSON");
        assert_eq!((&body["status"], &body["violated-policies"]), (&status.into(), &().into()));
    }
}

#[test]
fn grpc_pushback_is_the_wait_in_milliseconds_or_minus_one() {
    let pushback = |reason, wait| {
        let response = answer_by(grpc, reason, wait);
        assert_eq!((response.status().as_u16(), response.body().len()), (200, 0));
        let value = response.headers().get("grpc-retry-pushback-ms");
        value.map(|value| value.to_str().expect("ASCII").to_owned())
    };
    let millis_max = Duration::from_millis(i32::MAX.unsigned_abs().into());
    for (wait, expected) in [
        (Some(Duration::ZERO), "1"),
        (Some(Duration::from_nanos(1)), "1"),
        (Some(Duration::from_nanos(1_000_001)), "2"),
        (Some(Duration::from_secs(60)), "60000"),
        (Some(millis_max), "2147483647"),
        (Some(millis_max + Duration::from_nanos(1)), "-1"),
        (Some(Duration::MAX), "-1"),
        (None, "-1"),
    ] {
        assert_eq!(pushback(Reason::OverLimit, wait).as_deref(), Some(expected), "{wait:?}");
        assert_eq!(pushback(Reason::QueueFull, wait).as_deref(), Some(expected), "{wait:?}");
    }
    // If no quota is the reason, the client's own rules decide about a retry.
    for reason in [Reason::Unavailable, Reason::Forbidden, Reason::NoKey(KeyError::Missing)] {
        assert_eq!(pushback(reason, Some(Duration::ZERO)), None);
    }
}

#[test]
fn at_a_limit_of_requests_in_flight_every_client_gets_a_wait_of_a_second_or_longer() {
    let (request, ()) = http::Request::new(()).into_parts();
    let quota = Policy::new("rate", &Quota::per_second(1)).expect("a name");
    let in_flight = Policy::of_requests_in_flight("at once", 10).expect("a name");
    let mut report = Report::default();
    for (policy, wait, secs, millis) in
        [(quota.clone(), 300, "1", "300"), (in_flight, 0, "1", "1000"), (quota, 2_500, "3", "2500")]
    {
        let retry_after = Some(Duration::from_millis(wait));
        report.note(Reading { denied: true, retry_after, ..Reading::new(policy, 1, 0) });
        let response = Denial::new(&request, &report, Reason::OverLimit).respond(grpc);
        assert_eq!(response.headers()["retry-after"], secs);
        assert_eq!(response.headers()["grpc-retry-pushback-ms"], millis);
    }
}

#[test]
fn a_grpc_call_is_recognised_by_its_content_type() {
    let answered = |content_type: &str| {
        let mut request = http::Request::new(());
        *request.method_mut() = Method::POST;
        request.headers_mut().insert(CONTENT_TYPE, content_type.parse().expect("a value"));
        let (request, ()) = request.into_parts();
        let report = Report::default();
        let denial = Denial::new(&request, &report, Reason::OverLimit);
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

/// gRPC clients send `POST` only. Any other client would read status 200 as success.
#[test]
fn a_request_other_than_post_gets_http_status_429_whatever_its_content_type() {
    let report = Report::default();
    for method in [Method::GET, Method::HEAD, Method::PUT, Method::DELETE, Method::OPTIONS] {
        let request = http::Request::builder().method(&method);
        let request = request.header(CONTENT_TYPE, "application/grpc").body(());
        let (request, ()) = request.expect("a request").into_parts();
        let denial = Denial::new(&request, &report, Reason::OverLimit);
        let response = denial.respond(by_protocol);
        assert_eq!(response.status(), 429, "{method}");
        assert!(!response.headers().contains_key("grpc-status"), "{method}");
        assert_eq!(response.headers()[CONTENT_TYPE], "application/problem+json");
    }
}

#[test]
fn the_denial_of_a_head_request_has_the_length_of_its_body_and_no_body() {
    let report = Report::default();
    let answered = |method| {
        let (request, ()) = http::Request::builder().method(method).body(()).unwrap().into_parts();
        Denial::new(&request, &report, Reason::OverLimit).respond(by_protocol)
    };
    let (get, head) = (answered(Method::GET), answered(Method::HEAD));
    assert!(!get.body().is_empty() && head.body().is_empty());
    assert_eq!(head.headers()["content-length"], get.body().len().to_string());
    assert_eq!(
        (head.status(), &head.headers()[CONTENT_TYPE]),
        (get.status(), &get.headers()[CONTENT_TYPE])
    );
}

#[test]
fn each_reason_has_its_grpc_status() {
    for (reason, code) in [
        (Reason::OverLimit, "8"),
        (Reason::QueueFull, "14"),
        (Reason::Unavailable, "14"),
        (Reason::NoKey(KeyError::Unavailable), "13"),
        (Reason::NoKey(KeyError::Missing), "3"),
        (Reason::NoKey(KeyError::Malformed), "3"),
        (Reason::Forbidden, "7"),
    ] {
        let response = answer_by(grpc, reason, None);
        assert_eq!(response.headers()["grpc-status"], code, "{reason:?}");
        assert_eq!(response.headers()["content-type"], "application/grpc");
    }
}

#[test]
fn a_ban_is_abnormal_usage() {
    let (request, ()) = http::Request::new(()).into_parts();
    let mut report = Report::default();
    for (name, banned) in [("login", true), ("all", false)] {
        let policy = Policy::new(name, &Quota::per_second(1)).expect("a name");
        let retry_after = Some(Duration::from_secs(600));
        report.note(Reading { denied: true, banned, retry_after, ..Reading::new(policy, 1, 0) });
    }
    let denial = Denial::new(&request, &report, Reason::OverLimit);
    let response = denial.respond(problem);
    assert_eq!(response.status(), 429);
    assert_eq!(response.headers()["retry-after"], "600");
    let body: serde_json::Value = serde_json::from_slice(response.body()).expect("JSON");
    let registry = "https://iana.org/assignments/http-problem-types";
    assert_eq!(body["type"], format!("{registry}#abnormal-usage-detected"));
    assert_eq!(body["violated-policies"], serde_json::json!(["login", "all"]));
    let response = denial.respond(grpc);
    assert_eq!(response.headers()["grpc-status"], "8");
    assert_eq!(response.headers()["grpc-message"], "banned after abnormal usage");
}

#[test]
fn jitter_lengthens_every_form_of_the_wait_and_shortens_none() {
    let (request, ()) = http::Request::new(()).into_parts();
    let policy = Policy::new("a", &Quota::per_second(1)).expect("a name");
    let mut report = Report::default();
    let retry_after = Some(Duration::from_millis(9_500));
    report.note(Reading { denied: true, retry_after, ..Reading::new(policy, 1, 0) });
    let answered = |draw, write: fn(&Denial<'_>) -> Response<Bytes>| {
        let jitter = Jitter { percent: 20, draw };
        Denial::new(&request, &report, Reason::OverLimit).with_jitter(jitter).respond(write)
    };
    for (draw, secs, millis) in
        [((|| 0) as fn() -> u32, "10", "9500"), (|| u32::MAX, "12", "11400")]
    {
        assert_eq!(answered(draw, problem).headers()["retry-after"], secs);
        let response = answered(draw, grpc);
        assert_eq!(response.headers()["retry-after"], secs);
        assert_eq!(response.headers()["grpc-retry-pushback-ms"], millis);
    }
    // If no wait helps, there is none to lengthen.
    let denial = Denial::new(&request, &report, Reason::Unavailable);
    let denial = denial.with_jitter(Jitter { percent: 20, draw: || u32::MAX });
    assert_eq!(denial.retry_after_secs(), None);
}
