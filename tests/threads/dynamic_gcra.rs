//! Quotas that change while many threads charge.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tollgate::dynamic::{DynamicGcra, Inherit};
use tollgate::{Decision, Direct, Limiter, ManualClock, Quota, QuotaError, Tick};

const THREADS: u64 = 4;

/// The clock is frozen: every granted cell was inherited, or added by a change.
#[test]
fn a_hundred_raises_of_a_quota_are_granted_to_the_last_cell() {
    let quota = |burst| Quota::per_hour(1).burst(burst);
    let gate: Limiter<u64, DynamicGcra, _> = Limiter::builder(quota(1_000))
        .algorithm(DynamicGcra::new())
        .clock(ManualClock::new())
        .build()
        .expect("in range");
    let granted = [0, 1].map(|_| AtomicU64::new(0));
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    for (key, granted) in granted.iter().enumerate() {
                        let admitted = gate.check(&(key as u64)).is_ok();
                        granted.fetch_add(u64::from(admitted), Ordering::Relaxed);
                    }
                }
            });
        }
        for change in 1..=100 {
            let grown = quota(1_000 + change * 50);
            gate.set_quota(grown, Inherit::Additive).expect("in range");
            thread::yield_now();
        }
        done.store(true, Ordering::Relaxed);
    });
    for (key, granted) in granted.iter().enumerate() {
        let left = gate.ask(&(key as u64)).cells(u64::MAX).charge_available();
        assert_eq!(granted.load(Ordering::Relaxed) + left, 6_000, "key {key}");
    }
}

/// The two quotas refill their bursts at the same total rate. A decision by a mixture of both would
/// grant far more.
#[test]
fn no_decision_mixes_the_rate_of_one_quota_with_the_burst_of_the_other() {
    // A large burst at almost no rate, or one cell at a high rate.
    let slow = Quota::per_day(1).burst(2);
    let fast = Quota::per_second(30).burst(1);
    let gate = Direct::builder(fast).algorithm(DynamicGcra::new()).build().expect("in range");
    let done = AtomicBool::new(false);
    let decided = [0; 4].map(AtomicU64::new);
    thread::scope(|scope| {
        let (gate, done) = (&gate, &done);
        let deciders = decided.each_ref().map(|decided| {
            let decider = scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    assert_by_one_quota(gate.check());
                    decided.fetch_add(1, Ordering::Relaxed);
                }
            });
            (decider, decided)
        });
        for _ in 0..100 {
            for quota in [slow, fast].repeat(4) {
                gate.set_quota(quota, Inherit::Additive).expect("in range");
            }
            // Each time the burst shrinks, a decision by an earlier quota sees one more cell as
            // owed. So no decision may take longer than these few changes.
            let begun = decided.each_ref().map(|decided| decided.load(Ordering::Relaxed));
            for ((decider, decided), begun) in deciders.iter().zip(begun) {
                while decided.load(Ordering::Relaxed) < begun + 2 && !decider.is_finished() {
                    thread::yield_now();
                }
            }
        }
        done.store(true, Ordering::Relaxed);
    });
}

/// The debt, at most some ten cells, is restored at the rate that belongs to the burst.
fn assert_by_one_quota(decision: Decision) {
    let (burst, until_full) = match decision {
        Ok(permit) => (permit.limit(), permit.reset_after()),
        Err(denied) => (denied.limit(), denied.reset_after()),
    };
    let second = Duration::from_secs(1);
    match burst {
        1 => assert!(until_full <= second, "{until_full:?}"),
        2 => assert!(until_full.is_zero() || until_full > second, "{until_full:?}"),
        other => panic!("a burst of {other}"),
    }
}

#[test]
fn a_concurrent_quota_change_succeeds_or_returns_an_error() {
    let gate = Direct::builder(Quota::per_second(10)).algorithm(DynamicGcra::new()).build();
    let gate = gate.expect("in range");
    let accepted = AtomicU64::new(0);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (gate, accepted) = (&gate, &accepted);
            scope.spawn(move || {
                for change in 0..500 {
                    let quota = Quota::per_second(10 + thread * 500 + change);
                    match gate.set_quota_at(quota, Inherit::AsIs, Tick::ZERO) {
                        Ok(()) => accepted.fetch_add(1, Ordering::Relaxed),
                        Err(error) => {
                            assert!(
                                matches!(
                                    error,
                                    QuotaError::ChangeUnderWay | QuotaError::ChangeTooFast
                                ),
                                "{error}"
                            );
                            0
                        }
                    };
                }
            });
        }
    });
    assert!(accepted.into_inner() > 0);
    assert!(gate.quota().limit() >= 10);
}
