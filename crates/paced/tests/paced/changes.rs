//! A rate that changes while streams use it.

use std::sync::Arc;
use std::time::Duration;

use tollgate::dynamic::{DynamicGcra, Inherit};
use tollgate::{Direct, Quota};
use tollgate_paced::{Pace, PaceError, Paced};

use crate::support::{Scripted, TokioClock, write_forever};

#[tokio::test(start_paused = true)]
async fn a_new_rate_holds_from_the_next_chunk_on() {
    let quota = |rate: u64| Quota::per_second(rate).burst(20_000);
    let gate = Direct::builder(quota(100_000)).algorithm(DynamicGcra::new());
    let gate = Arc::new(gate.clock(TokioClock::new()).build().expect("in range"));
    // The log judges by the fastest rate only; each rate is judged below.
    let inner = Scripted::new(Quota::per_second(1_000_000_000).burst(1 << 39), []);
    let log = Arc::clone(&inner.log);
    let pace = Pace::shared(&gate).expect("a large burst");
    tokio::spawn(write_forever(Paced::new(inner, Pace::unlimited(), pace), 8_192));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut old_chunk = 1_024;
    for rate in [1_000_000, 10_000, 3_000_000, 1_000, 200_000] {
        gate.set_quota(quota(rate), Inherit::AsIs).expect("in range");
        // Bytes that were charged ahead by the old rate pass first.
        tokio::time::sleep(Duration::from_millis(200)).await;
        let before = log.lock().expect("no panic").bytes;
        tokio::time::sleep(Duration::from_secs(10)).await;
        let passed = log.lock().expect("no panic").bytes - before;
        // A debt of charges ahead at the old rate may remain.
        assert!(passed.abs_diff(10 * rate) <= rate / 5 + old_chunk, "{rate}: {passed}");
        old_chunk = (rate / 200).max(1_024);
    }
}

#[tokio::test(start_paused = true)]
async fn a_burst_of_one_byte_is_an_error_when_built_and_progress_if_set_later() {
    let one = Quota::per_second(1_000).burst(1);
    assert_eq!(Pace::new(one).unwrap_err(), PaceError::BurstTooSmall);
    let quota = Quota::per_second(1_000).burst(100);
    let gate = Direct::builder(quota).algorithm(DynamicGcra::new());
    let gate = Arc::new(gate.clock(TokioClock::new()).build().expect("in range"));
    let inner = Scripted::new(quota, []);
    let log = Arc::clone(&inner.log);
    let pace = Pace::shared(&gate).expect("a large burst");
    tokio::spawn(write_forever(Paced::new(inner, Pace::unlimited(), pace), 50));
    tokio::time::sleep(Duration::from_secs(1)).await;
    gate.set_quota(one, Inherit::AsIs).expect("in range");
    let before = log.lock().expect("no panic").bytes;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let passed = log.lock().expect("no panic").bytes - before;
    assert!((1_000..=10_100).contains(&passed), "a byte a millisecond at best: {passed}");
}

#[test]
fn a_quota_out_of_range_is_an_error_that_says_what_to_do() {
    let error = Pace::new(Quota::per_second(0)).unwrap_err().to_string();
    assert!(error.starts_with("the limit is 0"), "{error}");
    let error = Pace::new(Quota::per_second(2_000_000_000)).unwrap_err().to_string();
    assert!(error.contains("count in larger cells"), "{error}");
}
