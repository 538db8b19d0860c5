//! Streams and sinks of items, in paused time.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::{FutureExt, Sink, SinkExt, Stream, StreamExt, sink, stream};
use tokio::time::{Instant, sleep};
use tollgate::Quota;
use tollgate_paced::{Pace, PacedSink, PacedStream};

use crate::support::{Oracle, gate, left, run_for};

/// Checks each item against the exact bucket, and counts them.
async fn drain(quota: Quota, pace: Pace, span: Duration) -> u64 {
    let (mut oracle, mut items) = (Oracle::new(quota), 0);
    let mut paced = PacedStream::new(stream::repeat(()), pace);
    run_for(span, async {
        while let Some(()) = paced.next().await {
            oracle.pass(1, 0);
            items += 1;
        }
    })
    .await;
    items
}

#[tokio::test(start_paused = true)]
async fn items_pass_at_the_rate_and_never_above_it_in_any_span() {
    for (rate, burst) in [(2, 2), (10, 3), (100, 50), (5_000, 100)] {
        let quota = Quota::per_second(rate).burst(burst);
        let pace = Pace::shared(&gate(quota)).expect("a large burst");
        let items = drain(quota, pace, Duration::from_secs(20)).await;
        let expected = rate * 20 + burst;
        assert!((expected - 1 - rate / 100..=expected).contains(&items), "{rate}/s: {items}");
    }
}

#[tokio::test(start_paused = true)]
async fn streams_that_share_a_bucket_have_equal_parts() {
    let quota = Quota::per_second(100).burst(10);
    let pace = Pace::shared(&gate(quota)).expect("a large burst");
    let mut counts = [0_u32; 4];
    let streams = counts.iter_mut().map(|count| {
        let paced = PacedStream::new(stream::repeat(()), pace.clone());
        paced.for_each(move |()| {
            *count += 1;
            std::future::ready(())
        })
    });
    run_for(Duration::from_secs(10), futures_util::future::join_all(streams).map(drop)).await;
    let sum: u32 = counts.iter().sum();
    assert!((1_000..=1_010).contains(&sum), "{counts:?}");
    assert!(counts.iter().all(|count| (235..=265).contains(count)), "{counts:?}");
}

/// Sixteen items are charged ahead at most, and each of the other streams waits for room.
#[tokio::test(start_paused = true)]
async fn forty_streams_that_share_a_bucket_have_equal_parts() {
    let pace = Pace::shared(&gate(Quota::per_second(10).burst(2))).expect("a large burst");
    let mut counts = [0_u32; 40];
    let streams = counts.iter_mut().map(|count| {
        PacedStream::new(stream::repeat(()), pace.clone()).for_each(move |()| {
            *count += 1;
            std::future::ready(())
        })
    });
    run_for(Duration::from_secs(200), futures_util::future::join_all(streams).map(drop)).await;
    assert!(counts.iter().all(|count| (48..=54).contains(count)), "{counts:?}");
}

#[tokio::test(start_paused = true)]
async fn an_item_that_is_not_there_and_the_end_are_not_charged() {
    let gate = gate(Quota::per_second(1).burst(5));
    let pace = Pace::shared(&gate).expect("a large burst");
    let mut waiting = PacedStream::new(stream::pending::<()>(), pace.clone());
    assert!(waiting.next().now_or_never().is_none());
    assert_eq!(left(&gate), 5);
    let mut short = PacedStream::new(stream::iter([7]), pace.clone());
    assert_eq!((short.size_hint(), short.get_ref().size_hint()), ((1, Some(1)), (1, Some(1))));
    assert_eq!((short.next().await, short.next().await), (Some(7), None));
    assert_eq!(left(&gate), 4);
    // One that is dropped while it waits gives its cell back.
    let mut endless = PacedStream::new(stream::repeat(()), pace);
    for _ in 0..4 {
        endless.next().await;
    }
    assert!(endless.next().now_or_never().is_none());
    drop(endless);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(left(&gate), 1);
}

#[tokio::test(start_paused = true)]
async fn a_sink_is_ready_at_the_rate_and_charges_once_however_often_it_is_asked() {
    let quota = Quota::per_second(10).burst(2);
    let gate = gate(quota);
    let mut paced = PacedSink::new(Vec::new(), Pace::shared(&gate).expect("a large burst"));
    let (began, mut oracle) = (Instant::now(), Oracle::new(quota));
    for item in 0..7 {
        paced.feed(item).await.expect("it has room");
        oracle.pass(1, 0);
    }
    let spent = began.elapsed();
    assert!((Duration::from_millis(500)..Duration::from_millis(520)).contains(&spent), "{spent:?}");
    paced.flush().await.expect("it flushes");
    assert_eq!(paced.get_ref(), &[0, 1, 2, 3, 4, 5, 6]);

    sleep(Duration::from_secs(1)).await;
    assert_eq!(left(&gate), 2);
    for _ in 0..3 {
        std::future::poll_fn(|context| Pin::new(&mut paced).poll_ready(context))
            .await
            .expect("ready");
    }
    assert_eq!(left(&gate), 1, "one cell for the next item");
    Pin::new(&mut paced).start_send(7).expect("it has room");
    paced.close().await.expect("it closes");
    assert_eq!((paced.get_ref().len(), left(&gate)), (8, 1));
}

/// A sink that is never ready, or that fails.
struct Blocked(bool);

impl Sink<u8> for Blocked {
    type Error = &'static str;

    fn poll_ready(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), &'static str>> {
        if self.0 { Poll::Ready(Err("broken")) } else { Poll::Pending }
    }

    fn start_send(self: Pin<&mut Self>, _: u8) -> Result<(), &'static str> {
        Err("not ready")
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), &'static str>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), &'static str>> {
        Poll::Ready(Ok(()))
    }
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_is_blocked_or_fails_charges_nothing() {
    let gate = gate(Quota::per_second(1).burst(5));
    let pace = Pace::shared(&gate).expect("a large burst");
    let mut blocked = PacedSink::new(Blocked(false), pace.clone());
    assert!(blocked.feed(1).now_or_never().is_none());
    let mut failing = PacedSink::new(Blocked(true), pace);
    assert_eq!(failing.feed(1).await, Err("broken"));
    assert_eq!(left(&gate), 5);
    let mut unpaced = PacedSink::new(sink::drain(), Pace::unlimited());
    unpaced.send(1).await.expect("it takes all");
}

/// A sink that holds what it is sent until it is flushed, as a writer with a buffer does.
struct Buffered {
    held: Vec<u8>,
    flushed: Vec<(u8, Duration)>,
    begin: Instant,
}

impl Sink<u8> for Buffered {
    type Error = &'static str;

    fn poll_ready(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), &'static str>> {
        Poll::Ready(Ok(()))
    }

    fn start_send(mut self: Pin<&mut Self>, item: u8) -> Result<(), &'static str> {
        self.held.push(item);
        Ok(())
    }

    fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), &'static str>> {
        let at = self.begin.elapsed();
        let held = std::mem::take(&mut self.held);
        self.flushed.extend(held.into_iter().map(|item| (item, at)));
        Poll::Ready(Ok(()))
    }

    fn poll_close(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), &'static str>> {
        self.poll_flush(context)
    }
}

#[tokio::test(start_paused = true)]
async fn items_of_a_sink_that_buffers_do_not_wait_for_the_turn_of_the_next() {
    let gate = gate(Quota::per_second(1).burst(2));
    let buffered = Buffered { held: Vec::new(), flushed: Vec::new(), begin: Instant::now() };
    let mut paced = PacedSink::new(buffered, Pace::shared(&gate).expect("large"));
    // It never flushes before its end, since its stream is never pending.
    paced.send_all(&mut stream::iter((0..5).map(Ok))).await.expect("it takes all");
    let seconds: Vec<_> =
        paced.get_ref().flushed.iter().map(|(item, at)| (*item, at.as_secs())).collect();
    assert_eq!(seconds, [(0, 0), (1, 0), (2, 1), (3, 2), (4, 3)]);
}
