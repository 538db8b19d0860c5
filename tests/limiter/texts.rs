//! Texts for debugging: each names its type and says what it holds, and none shows the seed of the hash.

use std::sync::Arc;
use std::time::Duration;

use tollgate::composite::Composite;
use tollgate::concurrency::adaptive::{AdaptiveLimit, Aimd};
use tollgate::concurrency::{ConcurrencyLimiter, DirectConcurrency};
use tollgate::penalty::Penalties;
use tollgate::shadow::Shadow;
use tollgate::stats::DecisionCount;
use tollgate::{Direct, Gcra, Limiter, ManualClock, Quota, Tick};

const SEED: u64 = 9_087_654_321;

fn gate() -> Arc<Limiter<u64, Gcra, ManualClock>> {
    let builder = Limiter::builder(Quota::per_hour(20)).algorithm(Gcra::new().leases(4));
    let builder = builder.clock(ManualClock::new()).hash_seed(SEED);
    Arc::new(builder.build().expect("in range"))
}

fn assert_texts<const N: usize>(texts: [(&str, String); N]) {
    for (begins, text) in texts {
        assert!(text.starts_with(begins), "{begins}: {text}");
        assert!(!text.contains(&SEED.to_string()), "{text}");
    }
}

#[test]
fn limiters_and_requests() {
    let gate = gate();
    let builder = Limiter::<u64>::builder(Quota::per_hour(20)).hash_seed(SEED);
    let direct = Direct::new(Quota::per_hour(20)).expect("in range");
    let mut lease = gate.lease(&7);
    assert!(lease.check().is_ok());
    let mut owned = gate.lease_owned(&8);
    assert!(owned.check().is_ok());
    let count = DecisionCount::new();
    count.count(true);
    assert_texts([
        ("Builder {", format!("{builder:?}")),
        ("Limiter {", format!("{gate:?}")),
        ("DirectBuilder {", format!("{:?}", Direct::builder(Quota::per_hour(20)))),
        ("Direct {", format!("{direct:?}")),
        ("Ask { cells: 3, at: None,", format!("{:?}", gate.ask(&7).cells(3))),
        (
            "AskEach { items: 2, cells: 3, at: Some(",
            format!("{:?}", gate.ask_each(&[1, 2], |key| key).cells(3).at(Tick::ZERO)),
        ),
        ("AskLease { cells: 2, at: None", format!("{:?}", lease.ask().cells(2))),
        ("LocalLease { held: 3", format!("{lease:?}")),
        ("OwnedLocalLease { held: 3", format!("{owned:?}")),
        ("Reservation { cells: 5", format!("{:?}", gate.ask(&9).cells(5).reserve())[3..].into()),
        (
            "OwnedReservation { cells: 5",
            format!("{:?}", gate.ask(&9).cells(5).reserve_owned(&gate))[3..].into(),
        ),
        (
            "Plan { quota: Quota {",
            format!("{:?}", gate.plan(Quota::per_hour(10)).expect("in range")),
        ),
        ("DecisionCount { admitted: 1, denied: 0 }", format!("{count:?}")),
    ]);
}

#[test]
fn limits_of_requests_in_flight() {
    let hold = Duration::from_secs(60);
    let builder = ConcurrencyLimiter::<u64>::builder(2).max_hold(hold).hash_seed(SEED);
    let direct = DirectConcurrency::builder(3).max_hold(hold);
    let adaptive = AdaptiveLimit::builder(Aimd::new()).limits(5, 9).initial(7);
    assert_texts([
        ("ConcurrencyBuilder { limit: 2, max_hold: Some(60s)", format!("{builder:?}")),
        ("DirectConcurrencyBuilder { limit: 3, max_hold: Some(60s)", format!("{direct:?}")),
        ("AdaptiveBuilder { controller: Aimd(", format!("{adaptive:?}")),
    ]);
    let gate = Arc::new(builder.build().expect("in range"));
    let direct = direct.build().expect("in range");
    let adaptive = Arc::new(adaptive.clock(ManualClock::new()).build().expect("in range"));
    let began = "began: Tick(";
    assert_texts([
        ("ConcurrencyLimiter { limit: 2", format!("{gate:?}")),
        ("Guard {", format!("{:?}", gate.enter(&7).expect("room"))),
        ("OwnedGuard {", format!("{:?}", gate.ask(&7).enter_owned(&gate).expect("room"))),
        ("DirectConcurrency { limit: 3", format!("{direct:?}")),
        ("AdaptiveLimit { limit: 7", format!("{adaptive:?}")),
        (&format!("AdaptiveGuard {{ {began}"), format!("{:?}", adaptive.enter().expect("room"))),
        (
            &format!("OwnedAdaptiveGuard {{ {began}"),
            format!("{:?}", adaptive.enter_owned().expect("room")),
        ),
    ]);
}

#[test]
fn policies() {
    let bucket = || Direct::new(Quota::per_hour(20)).expect("in range");
    let begun = Composite::<u64>::builder().shared("a", bucket()).shared("b", bucket()).shadow();
    let limiter = || Limiter::<u64>::builder(Quota::per_hour(20)).hash_seed(SEED);
    let limiter = || limiter().build().expect("in range");
    let penalties = Penalties::builder(limiter(), Quota::per_hour(3), Duration::from_secs(60));
    let shadow = Shadow::new(limiter(), limiter());
    assert_texts([
        ("[\"a\", \"b\"]", format!("{begun:?}")),
        (
            "Composite { enforced: [\"a\"], shadows: [\"b\"]",
            format!("{:?}", begun.build().expect("token buckets")),
        ),
        ("PenaltiesBuilder {", format!("{penalties:?}")),
        ("Penalties {", format!("{:?}", penalties.build().expect("in range"))),
        ("Shadow {", format!("{shadow:?}")),
    ]);
}
