//! The rate, in paused time: exact in every span, and reached within half a percent.

use std::time::Duration;

use tollgate::Quota;
use tollgate_paced::{Pace, Paced};

use crate::support::{Scripted, gate, read_forever, run_for, write_forever};

const SPAN: Duration = Duration::from_secs(10);

/// Rates, bursts, and sizes of writes, in bytes.
const CASES: [(u64, u64, usize); 12] = [
    (100, 100, 1),
    (100, 100, 64),
    (1_000, 500, 10_000),
    (64_000, 64_000, 1_448),
    (64_000, 2_000, 8_192),
    (1_000_000, 1_000_000, 8_192),
    (1_000_000, 10_000, 65_536),
    (10_000_000, 10_000_000, 512),
    (10_000_000, 200_000, 1_000_000),
    (100_000_000, 100_000_000, 65_536),
    (100_000_000, 1_000_000, 8_192),
    (1_000_000_000, 10_000_000, 262_144),
];

/// Runs a case and checks what passed.
async fn case(rate: u64, burst: u64, size: usize, reads: bool) {
    let quota = Quota::per_second(rate).burst(burst);
    let pace = Pace::shared(&gate(quota)).expect("a large burst");
    // The oracle checks every span.
    let inner = Scripted::new(quota, []);
    let log = inner.log.clone();
    // The last chunk is still waited for. It is what a slow rate carries in 100 ms.
    let span = if rate < 10_000 { SPAN * 10 } else { SPAN };
    if reads {
        let stream = Paced::new(inner, pace, Pace::unlimited());
        run_for(span, read_forever(stream, size)).await;
    } else {
        let stream = Paced::new(inner, Pace::unlimited(), pace);
        run_for(span, write_forever(stream, size)).await;
    }
    let log = log.lock().expect("no panic");
    let expected = rate as f64 * span.as_secs_f64();
    let error = (log.bytes as f64 - burst as f64) / expected - 1.0;
    assert!(error.abs() < 0.005, "{rate} {burst} {size}: {error}");
    assert!(error < 1e-6 + 1.0 / expected, "{rate} {burst} {size}: {error}");
    assert!(log.largest <= 64 * 1024, "a burst passes in chunks");
}

#[tokio::test(start_paused = true)]
async fn writes_reach_the_rate_and_never_exceed_it() {
    for (rate, burst, size) in CASES {
        case(rate, burst, size, false).await;
    }
}

#[tokio::test(start_paused = true)]
async fn reads_reach_the_rate_and_never_exceed_it() {
    for (rate, burst, size) in CASES {
        case(rate, burst, size, true).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_rate_moves_ten_times_a_second_and_a_fast_one_is_woken_once_a_chunk() {
    for (rate, burst, calls) in [(100, 100, 90..=110), (64_000, 64_000, 600..=700)] {
        let quota = Quota::per_second(rate).burst(burst);
        let inner = Scripted::new(quota, []);
        let log = inner.log.clone();
        let pace = Pace::shared(&gate(quota)).expect("a large burst");
        let stream = Paced::new(inner, Pace::unlimited(), pace);
        run_for(SPAN, write_forever(stream, 65_536)).await;
        let made = log.lock().expect("no panic").calls;
        assert!(calls.contains(&made), "{rate}: {made}");
    }
}

#[tokio::test(start_paused = true)]
async fn without_buckets_bytes_pass_as_they_come() {
    let quota = Quota::per_second(1_000_000_000);
    let inner = Scripted::new(quota, []);
    let log = inner.log.clone();
    let mut stream = Paced::new(inner, Pace::unlimited(), Pace::unlimited());
    tokio::io::AsyncWriteExt::write_all(&mut stream, &vec![7; 1_000_000]).await.expect("written");
    assert_eq!(log.lock().expect("no panic").largest, 1_000_000);
}
