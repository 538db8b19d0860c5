//! Streams that do anything, compared with an exact bucket.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use tollgate::Quota;
use tollgate_paced::{Pace, Paced};

use crate::support::{Act, Oracle, Scripted, UNIT_NANOS, gate, left};

/// An action of a stream's user.
#[derive(Clone, Copy, Debug)]
enum Use {
    /// Reads or writes so many bytes, and gives up after some milliseconds.
    Move(usize, u64),
    Sleep(u64),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => (0..100_000_usize).prop_map(Act::Move),
        2 => (0..50_u64).prop_map(|ms| Act::Pause(Duration::from_millis(ms))),
        1 => Just(Act::Fail),
    ]
}

fn step() -> impl Strategy<Value = Use> {
    prop_oneof![
        6 => (1..200_000_usize, 0..40_u64).prop_map(|(bytes, ms)| Use::Move(bytes, ms)),
        1 => (0..100_u64).prop_map(Use::Sleep),
    ]
}

fn quotas() -> impl Strategy<Value = Quota> {
    let rate = prop_oneof![100..10_000_u64, 10_000..10_000_000_u64];
    (rate, 1..2_000_u64).prop_map(|(rate, burst_ms)| {
        Quota::per_second(rate).burst((rate * burst_ms / 1_000).max(2))
    })
}

/// The bytes that the rate restores in a time unit, and one for rounding.
fn unit(quota: Quota) -> i128 {
    i128::from(quota.limit()) * UNIT_NANOS / 1_000_000_000 + 1
}

/// Runs a future on a runtime whose time stands still unless all of it waits.
fn with_paused_time(future: impl Future<Output = ()>) {
    let builder = &mut tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().start_paused(true).build().expect("a runtime");
    runtime.block_on(future);
}

async fn write_or_sleep(stream: &mut Paced<Scripted>, buffer: &[u8], step: Use) {
    match step {
        Use::Move(bytes, ms) => {
            let write = stream.write(&buffer[..bytes]);
            let _ = timeout(Duration::from_millis(ms), write).await;
        }
        Use::Sleep(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// The oracle in the stream finds bytes that pass too early. At the end the bucket owes exactly what
    /// has passed: nothing that was charged in vain is lost, and nothing that passed was free.
    #[test]
    fn a_stream_passes_what_an_exact_bucket_would_and_owes_what_passed(
        quota in quotas(),
        script in prop::collection::vec(act(), 0..60),
        uses in prop::collection::vec(step(), 1..60),
        reads: bool,
    ) {
        with_paused_time(async {
            let gate = gate(quota);
            let pace = Pace::shared(&gate).expect("a large burst");
            let inner = Scripted::new(quota, script);
            let log = Arc::clone(&inner.log);
            let mut stream = Paced::new(inner, pace.clone(), pace);
            let mut buffer = vec![0; 200_000];
            for step in uses {
                match step {
                    Use::Move(bytes, ms) if reads => {
                        let read = stream.read(&mut buffer[..bytes]);
                        let _ = timeout(Duration::from_millis(ms), read).await;
                    }
                    step => write_or_sleep(&mut stream, &buffer, step).await,
                }
            }
            drop(stream);
            let mut log = log.lock().expect("no panic");
            let (ours, exact) = (i128::from(left(&gate)), log.oracle.left());
            assert!((ours - exact).abs() <= unit(quota), "{ours} left, not {exact}");
        });
    }

    /// Streams that share a bucket, and run whenever they like: in any span no more than the bucket has, and
    /// a chunk for each.
    #[test]
    fn streams_of_one_bucket_pass_a_chunk_more_at_most(
        quota in quotas(),
        streams in prop::collection::vec(
            (prop::collection::vec(act(), 0..20), prop::collection::vec(step(), 1..40)),
            2..5,
        ),
    ) {
        with_paused_time(async {
            let pace = Pace::shared(&gate(quota)).expect("a large burst");
            let log = Scripted::new(quota, []).log;
            log.lock().expect("no panic").more =
                streams.len() as u64 * (quota.burst_cells() / 2).clamp(1, 64 * 1024);
            let tasks: Vec<_> = streams
                .into_iter()
                .map(|(script, uses)| {
                    let inner = Scripted::logged(&log, script);
                    let mut stream = Paced::new(inner, Pace::unlimited(), pace.clone());
                    tokio::spawn(async move {
                        let buffer = vec![7; 200_000];
                        for step in uses {
                            write_or_sleep(&mut stream, &buffer, step).await;
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.expect("no panic");
            }
        });
    }

    /// A stream that waits in one of its buckets charges the other no earlier than an exact one would be charged: a
    /// bucket that fills up meanwhile has lost what came back since then.
    #[test]
    fn a_stream_of_two_buckets_owes_each_what_passed(
        quotas in [quotas(), quotas()],
        script in prop::collection::vec(act(), 0..60),
        uses in prop::collection::vec(step(), 1..60),
    ) {
        with_paused_time(async {
            let gates = quotas.map(gate);
            let [first, second] = gates.each_ref().map(|gate| Pace::shared(gate).expect("large"));
            let inner = Scripted::new(quotas[0], script);
            let log = Arc::clone(&inner.log);
            let mut stream = Paced::new(inner, Pace::unlimited(), first.and(&second));
            let (mut second, mut judged) = (Oracle::new(quotas[1]), 0);
            let buffer = vec![7; 200_000];
            for step in uses {
                write_or_sleep(&mut stream, &buffer, step).await;
                let passed = log.lock().expect("no panic").bytes;
                second.pass(usize::try_from(passed - judged).expect("few"), 0);
                judged = passed;
            }
            drop(stream);
            let exact = [log.lock().expect("no panic").oracle.left(), second.left()];
            for ((gate, quota), exact) in gates.iter().zip(quotas).zip(exact) {
                let ours = i128::from(left(gate));
                assert!((ours - exact).abs() <= unit(quota), "{ours} left, not {exact}");
            }
        });
    }
}
