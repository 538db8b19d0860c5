//! Requests for more cells than a lease has, which the source has denied for ever.

use super::*;

/// The limit is raised on the server, and only requests larger than a lease come.
#[tokio::test]
async fn a_request_larger_than_a_lease_that_never_fitted_asks_again() {
    let (leased, clock) = scripted([Reply::Deny(None), Reply::Deny(None), Reply::Cells(5_000)]);
    for calls in [1, 2] {
        for n in [1_500, 1_501] {
            assert!(!is_ok(&leased.check_n(b"a", n).await));
        }
        clock.advance(Duration::from_millis(999));
        assert!(!is_ok(&leased.check_n(b"a", 1_500).await));
        assert_eq!(leased.stats().calls, calls, "remembered for a second");
        clock.advance(Duration::from_millis(2));
        assert!(leased.try_check(b"a", 1_500).is_none(), "it would ask");
    }
    for calls in [3, 4] {
        assert!(is_ok(&leased.check_n(b"a", 1_500).await), "the denial is forgotten");
        assert_eq!(leased.stats().calls, calls);
    }
}

#[tokio::test]
async fn of_requests_that_never_fitted_and_come_together_one_asks_again() {
    let (leased, clock) = scripted([Reply::Deny(None)]);
    assert!(!is_ok(&leased.check_n(b"a", 1_500).await));
    clock.advance(Duration::from_millis(1_001));
    let requests = || leased.check_n(b"a", 1_500);
    let (one, two, three) = tokio::join!(requests(), requests(), requests());
    let origins = [one, two, three].map(|answer| answer.expect("denied").origin);
    assert_eq!(origins, [Origin::Server, Origin::Memory, Origin::Memory]);
    assert_eq!(leased.stats().calls, 2);
}

#[tokio::test]
async fn a_request_that_never_fitted_is_denied_from_memory_while_the_source_fails() {
    let (leased, clock) = scripted([Reply::Deny(None), Reply::Fail(Unavailable::Disconnected)]);
    assert!(!is_ok(&leased.check_n(b"a", 1_500).await));
    for calls in [2, 3] {
        clock.advance(Duration::from_millis(1_001));
        for _ in 0..3 {
            let denied = leased.check_n(b"a", 1_500).await.expect("from memory");
            assert_eq!(denied.origin, Origin::Memory);
            assert_eq!(denied.decision.unwrap_err().retry_after(), None);
        }
        assert_eq!(leased.stats().calls, calls, "one call a second");
    }
    // The source is known to be unavailable from a call for another request.
    clock.advance(Duration::from_millis(1_001));
    assert!(leased.check(b"a").await.is_err());
    assert!(leased.check_n(b"a", 1_500).await.is_ok_and(|denied| denied.decision.is_err()));
    assert_eq!((leased.stats().calls, leased.stats().unavailable), (4, 1));
}
