//! Bytes that are charged and do not pass are refunded.

use std::io::{ErrorKind, IoSlice};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;
use tollgate::Quota;
use tollgate_paced::{Pace, Paced};

use crate::support::{Act, Gate, Scripted, gate, left};

const BURST: usize = 10_000;

fn quota() -> Quota {
    Quota::per_second(1_000).burst(BURST as u64)
}

fn paced(gate: &std::sync::Arc<Gate>, script: &[Act]) -> Paced<Scripted> {
    let pace = Pace::shared(gate).expect("a large burst");
    Paced::new(Scripted::new(quota(), script.to_vec()), pace.clone(), pace)
}

#[tokio::test(start_paused = true)]
async fn a_pending_stream_holds_nothing() {
    let gate = gate(quota());
    let mut stream = paced(&gate, &[Act::Pause(Duration::from_secs(60))]);
    let mut buffer = [0; 4_000];
    for _ in 0..3 {
        assert!(timeout(Duration::from_millis(1), stream.read(&mut buffer)).await.is_err());
        assert_eq!(left(&gate), BURST as u64);
        assert!(timeout(Duration::from_millis(1), stream.write(&buffer)).await.is_err());
        assert_eq!(left(&gate), BURST as u64);
    }
}

#[tokio::test(start_paused = true)]
async fn a_partial_write_pays_for_what_was_taken() {
    let gate = gate(quota());
    let mut stream = paced(&gate, &[Act::Move(300), Act::Move(0), Act::Move(100)]);
    assert_eq!(stream.write(&[7; 4_000]).await.expect("written"), 300);
    assert_eq!(left(&gate), BURST as u64 - 300);
    assert_eq!(stream.write(&[7; 4_000]).await.expect("written"), 0);
    assert_eq!(left(&gate), BURST as u64 - 300);
    let mut buffer = [0; 4_000];
    assert_eq!(stream.read(&mut buffer).await.expect("read"), 100);
    assert_eq!(left(&gate), BURST as u64 - 400);
    assert!(buffer.starts_with(&[7; 100]) && buffer[100] == 0);
}

#[tokio::test(start_paused = true)]
async fn an_error_passes_through_and_is_not_charged() {
    let gate = gate(quota());
    let mut stream = paced(&gate, &[Act::Fail, Act::Fail]);
    let error = stream.write(&[7; 4_000]).await.expect_err("it fails");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    let error = stream.read(&mut [0; 4_000]).await.expect_err("it fails");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    assert_eq!(left(&gate), BURST as u64);
}

#[tokio::test(start_paused = true)]
async fn a_stream_dropped_while_it_waits_refunds_its_chunk() {
    let gate = gate(quota());
    let mut stream = paced(&gate, &[]);
    stream.write_all(&[7; BURST]).await.expect("written");
    assert_eq!(left(&gate), 0);
    // A dropped future keeps the turn for the next write of the stream.
    assert!(timeout(Duration::from_millis(50), stream.write(&[7; 100])).await.is_err());
    drop(stream);
    tokio::time::sleep(Duration::from_secs(1) - Duration::from_millis(51)).await;
    let restored = left(&gate);
    assert!((999..=1_001).contains(&restored), "{restored}");
}

#[tokio::test(start_paused = true)]
async fn a_smaller_write_after_a_wait_refunds_the_rest() {
    let gate = gate(quota());
    let mut stream = paced(&gate, &[]);
    stream.write_all(&[7; BURST]).await.expect("written");
    // It charges what the rate carries in 100 ms, and is cancelled; then there is less to write.
    assert!(timeout(Duration::from_millis(50), stream.write(&[7; 4_000])).await.is_err());
    assert_eq!(stream.write(&[7; 30]).await.expect("written"), 30);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let restored = left(&gate);
    assert!(
        (1_065..=1_075).contains(&restored),
        "100 ms and 1 s restored 1,100, less 30: {restored}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_pending_at_its_turn_refunds_its_chunk() {
    let gate = gate(quota());
    gate.ask().cells(BURST as u64).charge();
    // The oracle begins with a full bucket, so it is no help here.
    let mut stream = paced(&gate, &[Act::Pause(Duration::from_secs(2)), Act::Move(10)]);
    assert!(timeout(Duration::from_secs(1), stream.write(&[7; 4_000])).await.is_err());
    let restored = left(&gate);
    assert!((998..=1_002).contains(&restored), "{restored}");
    assert_eq!(stream.write(&[7; 4_000]).await.expect("written"), 10);
}

#[tokio::test(start_paused = true)]
async fn vectored_writes_are_cut_at_what_may_pass() {
    let gate = gate(quota());
    let pace = Pace::shared(&gate).expect("a large burst");
    let (near, mut far) = tokio::io::duplex(1 << 20);
    let mut stream = Paced::new(near, Pace::unlimited(), pace);
    assert!(stream.is_write_vectored());
    let (first, second, third) = ([1; 3_000], [2; 4_000], [3; 9_000]);
    let slices = [&first[..], &[], &second[..], &third[..]].map(IoSlice::new);
    // 16,000 bytes, of which half a burst may pass at once.
    let written = stream.write_vectored(&slices).await.expect("written");
    assert!((3_000..=BURST).contains(&written), "{written}");
    assert_eq!(left(&gate), (BURST - written) as u64);
    let mut bytes = vec![0; written];
    far.read_exact(&mut bytes).await.expect("read");
    let all = [&first[..], &second, &third].concat();
    assert_eq!(bytes, all[..written]);
    // A hundred small slices.
    let small = [4; 10];
    let slices = [IoSlice::new(&small); 100];
    let written = stream.write_vectored(&slices).await.expect("written");
    assert!((1..=1_000).contains(&written), "{written}");
}

#[test]
fn a_paced_stream_may_move_between_threads_and_needs_no_pin() {
    fn check<T: Send + Sync + Unpin + std::fmt::Debug>(_: &T) {}
    let stream = Paced::new(tokio::io::empty(), Pace::unlimited(), Pace::unlimited());
    check(&stream);
    check(&Pace::unlimited());
}

#[tokio::test(start_paused = true)]
async fn a_bucket_is_refunded_what_another_denies() {
    let (first, second) = (gate(quota()), gate(quota()));
    second.ask().cells(BURST as u64).charge();
    let pace = |gate| Pace::shared(gate).expect("a large burst");
    let inner = Scripted::new(quota(), []);
    let mut stream = Paced::new(inner, Pace::unlimited(), pace(&first).and(&pace(&second)));
    assert_eq!(stream.write(&[7; 4_000]).await.expect("written"), 100, "what 100 ms carry");
    // Both were charged 100 bytes ahead, and have restored 100 since. The first would have been full without that.
    assert!((9_898..=9_902).contains(&left(&first)), "{}", left(&first));
    assert!(left(&second) <= 2, "{}", left(&second));
    // The first write of the second turn is denied, and dropped.
    assert!(timeout(Duration::from_millis(1), stream.write(&[7; 4_000])).await.is_err());
    drop(stream);
    assert!((9_898..=9_903).contains(&left(&first)), "{}", left(&first));
}
