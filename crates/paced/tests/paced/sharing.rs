//! Several streams of one bucket, and several buckets of one stream.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tollgate::{Gcra, Limiter, OnFull, Quota};
use tollgate_paced::{Pace, Paced};

use crate::support::{Log, Oracle, Scripted, TokioClock, gate, left, run_for, write_forever};

/// A log for streams that share a bucket.
fn shared_log(quota: Quota, more: u64) -> Arc<Mutex<Log>> {
    let oracle = Oracle::new(quota);
    Arc::new(Mutex::new(Log { oracle, bytes: 0, largest: 0, calls: 0, more }))
}

/// A writer that runs by itself, and the log of what it has written.
fn spawn(pace: Pace, size: usize) -> Arc<Mutex<Log>> {
    // Another test checks the bytes that it passes.
    let inner = Scripted::new(Quota::per_second(1_000_000_000).burst(1 << 39), []);
    let log = Arc::clone(&inner.log);
    let stream = Paced::new(inner, Pace::unlimited(), pace);
    tokio::spawn(write_forever(stream, size));
    log
}

fn bytes(log: &Arc<Mutex<Log>>) -> u64 {
    log.lock().expect("no panic").bytes
}

#[tokio::test(start_paused = true)]
async fn streams_of_one_bucket_never_exceed_its_rate_together() {
    let quota = Quota::per_second(5_000_000).burst(500_000);
    let pace = Pace::shared(&gate(quota)).expect("a large burst");
    let log = shared_log(quota, 0);
    for size in [300, 1_448, 8_192, 65_536, 200_000] {
        let inner = Scripted::logged(&log, []);
        let stream = Paced::new(inner, Pace::unlimited(), pace.clone());
        tokio::spawn(write_forever(stream, size));
    }
    tokio::time::sleep(Duration::from_secs(10)).await;
    let error = bytes(&log).abs_diff(50_500_000) as f64 / 50_000_000.0;
    assert!(error < 0.005, "{error}");
}

#[tokio::test(start_paused = true)]
async fn streams_with_equal_buffers_have_equal_shares() {
    for (streams, size) in [(2_u64, 8_192), (2, 65_536), (10, 8_192), (50, 65_536)] {
        let quota = Quota::per_second(10_000_000).burst(1_000_000);
        let pace = Pace::shared(&gate(quota)).expect("a large burst");
        let logs: Vec<_> = (0..streams).map(|_| spawn(pace.clone(), size)).collect();
        // After the burst, which goes to those that come first.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let before: Vec<_> = logs.iter().map(bytes).collect();
        tokio::time::sleep(Duration::from_secs(10)).await;
        let fair = 100_000_000 / streams;
        for (log, before) in logs.iter().zip(before) {
            let passed = bytes(log) - before;
            assert!(
                passed.abs_diff(fair) * 100 <= fair * 3,
                "{streams} {size}: {passed} of {fair}"
            );
        }
    }
}

/// Eight bursts are 16 chunks here, and no more are charged ahead.
#[tokio::test(start_paused = true)]
async fn streams_that_wait_for_room_have_equal_shares_too() {
    let pace = Pace::shared(&gate(Quota::per_second(1_000_000).burst(10_000))).expect("large");
    let logs: Vec<_> = (0..40).map(|_| spawn(pace.clone(), 65_536)).collect();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before: Vec<_> = logs.iter().map(bytes).collect();
    tokio::time::sleep(Duration::from_secs(20)).await;
    for (log, before) in logs.iter().zip(before) {
        let passed = bytes(log) - before;
        assert!((485_000..=515_000).contains(&passed), "{passed} of 500,000");
    }
}

#[tokio::test(start_paused = true)]
async fn small_writes_have_a_turn_for_each_chunk_of_large_ones() {
    let quota = Quota::per_second(1_000_000).burst(100_000);
    let pace = Pace::shared(&gate(quota)).expect("a large burst");
    let (small, large) = (spawn(pace.clone(), 100), spawn(pace, 1_000_000));
    tokio::time::sleep(Duration::from_secs(10)).await;
    // A chunk of the large ones takes 5 ms, so there are 200 turns a second.
    let (small, large) = (bytes(&small), bytes(&large));
    assert!((190_000..=500_000).contains(&small), "{small}");
    assert!(large > 9_000_000, "{large}");
}

#[tokio::test(start_paused = true)]
async fn a_newcomer_has_its_turn_while_a_large_burst_passes() {
    let quota = Quota::per_second(1_000_000).burst(100_000);
    let pace = Pace::shared(&gate(quota)).expect("a large burst");
    let first = spawn(pace.clone(), 10_000_000);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(bytes(&first) > 5_000_000);
    let second = spawn(pace, 10_000_000);
    tokio::time::sleep(Duration::from_millis(15)).await;
    assert!(bytes(&second) > 0, "it waits for one chunk of the first, and its own");
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_held_by_its_own_bucket_its_key_and_the_total() {
    let quota = Quota::per_second(1_000_000).burst(50_000);
    let clients: Arc<Limiter<str, Gcra, TokioClock>> =
        Arc::new(Limiter::builder(quota).clock(TokioClock::new()).build().expect("in range"));
    let total = Pace::shared(&gate(Quota::per_second(2_500_000).burst(50_000))).expect("large");
    let keyed = |key: &str| Pace::keyed(&clients, key.to_owned()).expect("large").and(&total);
    // Client "a" has four connections, "b" and "c" have one. Each connection of "a" has 100 kB/s.
    let own = || Pace::shared(&gate(Quota::per_second(100_000).burst(50_000))).expect("large");
    let a: Vec<_> = (0..4).map(|_| spawn(keyed("a").and(&own()), 8_192)).collect();
    let (b, c) = (spawn(keyed("b"), 8_192), spawn(keyed("c"), 8_192));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let passed = |logs: &[Arc<Mutex<Log>>]| logs.iter().map(bytes).sum::<u64>();
    let before = (passed(&a), bytes(&b), bytes(&c));
    tokio::time::sleep(Duration::from_secs(10)).await;
    let (a, b, c) = (passed(&a) - before.0, bytes(&b) - before.1, bytes(&c) - before.2);
    // 0.4 MB/s for the connections of "a"; the keys "b" and "c" have 1 MB/s each.
    assert!(a.abs_diff(4_000_000) < 40_000, "{a}");
    assert!(b.abs_diff(10_000_000) < 100_000 && c.abs_diff(10_000_000) < 100_000, "{b} {c}");
}

#[tokio::test(start_paused = true)]
async fn two_contended_buckets_with_small_bursts_make_progress() {
    let pace = |rate| Pace::shared(&gate(Quota::per_second(rate).burst(4_096))).expect("large");
    let (one, two) = (pace(100_000), pace(120_000));
    let both: Vec<_> = (0..20).map(|_| spawn(one.clone().and(&two), 8_192)).collect();
    let (only_one, only_two) = (spawn(one, 8_192), spawn(two, 8_192));
    tokio::time::sleep(Duration::from_secs(20)).await;
    let passed: Vec<_> = both.iter().map(bytes).collect();
    let sum: u64 = passed.iter().sum();
    assert!(passed.iter().all(|&bytes| bytes > 20_000), "{passed:?}");
    assert!(sum + bytes(&only_one) <= 2_000_000 + 4_096 + 22 * 2_048, "the first bucket's rate");
    assert!(sum + bytes(&only_two) <= 2_400_000 + 4_096 + 22 * 2_048, "the second bucket's rate");
    // A burst comes back in 41 ms, and a round of all streams takes 200 ms. So a charge to one bucket
    // has expired when the stream has its turn in the other.
    assert!(sum + bytes(&only_one) >= 1_500_000, "the first bucket is used: {sum}");
}

/// A limiter whose table is full of keys that owe for ten seconds.
fn full_table(on_full: OnFull) -> Arc<Limiter<u64, Gcra, TokioClock>> {
    let quota = Quota::per_second(1_000).burst(1_000);
    let builder = Limiter::builder(quota).clock(TokioClock::new());
    let gate = builder.capacity(1).on_full(on_full).build().expect("in range");
    let filled: Vec<u64> =
        (1..1_000).filter(|key| gate.ask(key).cells(1_000).check().is_ok()).collect();
    assert!(filled.len() < 500, "the table is full");
    for key in &filled {
        gate.ask(key).cells(9_000).charge();
    }
    Arc::new(gate)
}

#[tokio::test(start_paused = true)]
async fn a_key_without_a_slot_waits_for_one_and_passes_nothing() {
    let newcomer = spawn(Pace::keyed(&full_table(OnFull::Deny), 5_000).expect("large"), 100);
    tokio::time::sleep(Duration::from_secs(9)).await;
    assert_eq!(bytes(&newcomer), 0);
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert!(bytes(&newcomer) >= 1_000, "{}", bytes(&newcomer));
}

#[tokio::test(start_paused = true)]
async fn a_key_without_a_slot_passes_nothing_where_another_bucket_is_in_debt() {
    let total = Pace::shared(&gate(Quota::per_second(10_000).burst(1_000))).expect("large");
    let client = spawn(total.clone(), 8_192);
    let keyed = Pace::keyed(&full_table(OnFull::Deny), 5_000).expect("large");
    let newcomers = [spawn(keyed.clone().and(&total), 100), spawn(total.and(&keyed), 100)];
    tokio::time::sleep(Duration::from_secs(9)).await;
    assert_eq!(newcomers.each_ref().map(bytes), [0, 0]);
    assert!(bytes(&client) >= 90_000, "it has the whole rate: {}", bytes(&client));
    tokio::time::sleep(Duration::from_secs(4)).await;
    let passed = newcomers.each_ref().map(bytes);
    assert!(passed.iter().all(|&bytes| bytes >= 500), "{passed:?}");
}

#[tokio::test(start_paused = true)]
async fn keys_without_a_slot_share_their_bucket_where_another_one_is_in_debt() {
    let shared = Quota::per_second(2_000).burst(400);
    let total = Pace::shared(&gate(Quota::per_second(10_000).burst(1_000))).expect("large");
    let client = spawn(total.clone(), 8_192);
    let table = full_table(OnFull::SharedOverflow(shared));
    let keyed = |key: u64| Pace::keyed(&table, key).expect("large").and(&total);
    let newcomers = [5_000, 6_000].map(|key| spawn(keyed(key), 100));
    tokio::time::sleep(Duration::from_secs(9)).await;
    let passed: u64 = newcomers.iter().map(bytes).sum();
    assert!((14_000..=18_400 + 400).contains(&passed), "{passed}");
    assert!(bytes(&client) >= 65_000, "{}", bytes(&client));
}

#[tokio::test(start_paused = true)]
async fn a_rate_holds_for_a_stream_that_stalls() {
    // Without a bound, a task that sleeps could pass its old chunk and a full burst at once.
    let quota = Quota::per_second(100_000).burst(4_000);
    let inner = Scripted::new(quota, []);
    let log = inner.log.clone();
    let stream = Paced::new(inner, Pace::unlimited(), Pace::shared(&gate(quota)).expect("large"));
    let mut writer = Box::pin(write_forever(stream, 65_536));
    for stall_ms in [0, 1, 10, 21, 30, 50, 1_000, 5, 0] {
        run_for(Duration::from_millis(97), &mut writer).await;
        tokio::time::sleep(Duration::from_millis(stall_ms)).await;
    }
    assert!(bytes(&log) > 60_000);
}

#[tokio::test(start_paused = true)]
async fn a_bucket_that_fills_up_while_its_stream_waits_in_another_is_charged_at_the_turn() {
    let own = gate(Quota::per_second(100_000).burst(1_000));
    let total = gate(Quota::per_second(10_000).burst(1_000));
    own.ask().cells(5_000).charge();
    let pace = |gate| Pace::shared(gate).expect("large");
    let inner = Scripted::new(Quota::per_second(1_000_000_000).burst(1 << 39), []);
    let mut stream = Paced::new(inner, Pace::unlimited(), pace(&own).and(&pace(&total)));
    // The turn is in 45 ms, when the total has got back 450 of the bytes that are charged ahead.
    assert_eq!(stream.write(&[7; 500]).await.expect("written"), 500);
    assert!(
        left(&total) <= 510,
        "{} of 1,000 bytes beside the 500 that have just passed",
        left(&total)
    );
}
