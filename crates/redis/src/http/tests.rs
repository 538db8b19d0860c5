//! The gate in front of a fake server.

#![allow(clippy::disallowed_types, reason = "a test's lock")]

use core::time::Duration;
use std::sync::Mutex;

use http::Request;
use tollgate::decision::DecisionParts;
use tollgate_http::key::{self, Header};
use tollgate_http::{GateDecision, KeyError, OnNoKey, RateLimitLayer};

use super::*;
use crate::Answer;
use crate::{Fallback, Unavailable};

/// A server that knows how many cells there are and records its requests. It answers for the key
/// `near` without a call. While `cells` is `None`, it is away.
struct Fake {
    cells: Mutex<Option<u64>>,
    asked: Mutex<Vec<(Vec<u8>, u64)>>,
}

impl Fake {
    fn with_fallback(cells: impl Into<Option<u64>>) -> WithFallback<Self> {
        let (cells, asked) = (Mutex::new(cells.into()), Mutex::default());
        WithFallback::new(Self { cells, asked }, Fallback::Deny)
    }

    fn answer(&self, key: &[u8], n: u64, origin: Origin) -> Result<Answer, Unavailable> {
        self.asked.lock().expect("no panic").push((key.to_vec(), n));
        let mut cells = self.cells.lock().expect("no panic");
        let left = cells.as_mut().ok_or(Unavailable::Disconnected)?;
        let reset_after = Duration::from_secs(7);
        let decision = match left.checked_sub(n) {
            Some(less) => {
                *left = less;
                Ok(DecisionParts { limit: 9, remaining: less, reset_after }.permit())
            }
            None => {
                let parts = DecisionParts { limit: 9, remaining: *left, reset_after };
                Err(parts.denied(Some(Duration::from_secs(3))))
            }
        };
        Ok(Answer { decision, origin })
    }
}

impl Remote for Fake {
    async fn ask(&self, key: &[u8], n: u64) -> Result<Answer, Unavailable> {
        tokio::task::yield_now().await;
        self.answer(key, n, Origin::Server)
    }

    fn ask_now(&self, key: &[u8], n: u64) -> Option<Answer> {
        (key == b"near").then(|| self.answer(key, n, Origin::Lease).ok())?
    }

    fn max_at_once(&self) -> u64 {
        9
    }
}

fn policy() -> Policy {
    Policy::new("a", &tollgate::Quota::per_minute(9)).expect("a name")
}

fn user() -> Header {
    Header::new("x-user").expect("a name")
}

fn request(user: &str) -> request::Parts {
    Request::get("/").header("x-user", user).body(()).expect("a request").into_parts().0
}

/// The ruling on a request, whether the request had to wait, and the report.
async fn decide(gate: &impl Gate, request: &request::Parts) -> (GateDecision, bool, Report) {
    let mut report = Report::default();
    match gate.decide(request, &mut report) {
        Verdict::Admit(admission) => (Ok(admission), false, report),
        Verdict::Deny => (Err(Reason::OverLimit), false, report),
        Verdict::QueueFull => (Err(Reason::QueueFull), false, report),
        Verdict::NoKey(error) => (Err(Reason::NoKey(error)), false, report),
        Verdict::Forbidden => (Err(Reason::Forbidden), false, report),
        Verdict::Pending(asking) => {
            let (ruling, said) = asking.await;
            assert_eq!(report.readings().count(), 0);
            (ruling, true, said)
        }
    }
}

#[tokio::test]
async fn requests_wait_only_for_unknown_answers() {
    let limit = RemoteLimit::new(policy(), Fake::with_fallback(3), user());
    for (user, waits, left) in [("near", false, 2), ("far", true, 1), ("near", false, 0)] {
        let (ruling, waited, report) = decide(&limit, &request(user)).await;
        assert!(ruling.is_ok());
        let reading = report.readings().next().expect("a reading");
        assert_eq!((waited, reading.remaining, reading.denied), (waits, left, false));
        assert_eq!((reading.limit, reading.reset_after.as_secs()), (9, 7));
    }
    for user in ["near", "far"] {
        let (ruling, _, report) = decide(&limit, &request(user)).await;
        assert_eq!(ruling.err(), Some(Reason::OverLimit));
        assert_eq!(report.retry_after(), Some(Duration::from_secs(3)));
    }
}

#[tokio::test]
async fn a_request_costs_its_cost_and_nothing_without_a_key() {
    let limit = RemoteLimit::new(policy(), Fake::with_fallback(5), user()).cost(|_| 4);
    let rulings = [decide(&limit, &request("a")).await, decide(&limit, &request("a")).await];
    assert_eq!(rulings.map(|(ruling, _, _)| ruling.is_ok()), [true, false]);
    let no_key = Request::new(()).into_parts().0;
    let (ruling, _, _) = decide(&limit, &no_key).await;
    assert_eq!(ruling.err(), Some(Reason::NoKey(KeyError::Missing)));
    let limit = limit.on_no_key(OnNoKey::Admit);
    assert!(decide(&limit, &no_key).await.0.is_ok());
    let asked = limit.limiter().remote().asked.lock().expect("no panic").clone();
    assert_eq!(asked, [(b"a".to_vec(), 4), (b"a".to_vec(), 4)]);
}

#[tokio::test]
async fn a_shadow_limit_denies_nothing() {
    let trial = RemoteLimit::new(policy(), Fake::with_fallback(0), user()).shadow();
    for user in ["near", "far"] {
        let (ruling, _, report) = decide(&trial, &request(user)).await;
        assert!(ruling.is_ok());
        assert_eq!((report.readings().count(), report.shadow_denials().count()), (0, 1));
    }
}

#[tokio::test]
async fn without_a_server_the_fallback_decides() {
    let limit = RemoteLimit::new(policy(), Fake::with_fallback(None), user());
    let (ruling, waited, report) = decide(&limit, &request("far")).await;
    assert!(waited);
    assert_eq!((ruling.err(), report.readings().count()), (Some(Reason::Unavailable), 0));
    assert_eq!(limit.limiter().stats().fallback_denied, 1);
}

#[tokio::test]
async fn keys_that_are_not_bytes_are_sent_as_displayed() {
    let by_length = key::from_fn(|request| Some(request.headers.len() + 40));
    let limit = RemoteLimit::displayed(policy(), Fake::with_fallback(1), by_length);
    let layer = RateLimitLayer::new(limit);
    let gate = layer.gate();
    assert!(decide(gate, &request("a")).await.0.is_ok());
    let asked = gate.limiter().remote().asked.lock().expect("no panic").clone();
    assert_eq!(asked, [(b"41".to_vec(), 1)]);
}
