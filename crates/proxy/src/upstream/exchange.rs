//! A connection to the upstream that traces each exchange of a request and its response, and fails if an upload is left
//! over that the upstream does not read.
//!
//! hyper reports neither whether a connection was reused, nor whether more bytes arrived than a response
//! announces. Both follow from the bytes of an HTTP/1.1 connection: the first write after bytes of a
//! response starts the next exchange, and an empty line ends a head.

use std::fmt;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use hyper_util::client::legacy::connect::{Connected, Connection};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::idle::Activity;

/// The position of the status in `HTTP/1.1 200 OK`.
const STATUS: std::ops::Range<usize> = 9..12;

/// A traced connection.
#[derive(Debug)]
pub(super) struct TracedStream<T> {
    stream: T,
    trace: Trace,
    head: HeadEnd,
    /// Exchanges overlap in HTTP/2, so only the fact of a response is traced.
    is_http2: bool,
    write_timeout: Duration,
    /// Runs while a write is pending.
    write_timer: Option<Pin<Box<Sleep>>>,
}

impl<T> TracedStream<T> {
    /// `write_timeout` is for an upstream that does not read an upload, although its response has ended.
    pub(super) fn new(stream: T, is_http2: bool, write_timeout: Duration) -> Self {
        let (trace, head) = (Trace::new(), HeadEnd::default());
        Self { stream, trace, head, is_http2, write_timeout, write_timer: None }
    }

    /// Fails if nothing could be written for the timeout, and only an upload is left. hyper does not poll the upload
    /// while a write is pending, so its idle timeout does not run.
    fn check_stall<R>(
        &mut self,
        polled: Poll<io::Result<R>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<R>> {
        if polled.is_ready() || self.is_http2 {
            self.write_timer = None;
            return polled;
        }
        let span = self.write_timeout;
        let timer = self.write_timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(span)));
        while timer.as_mut().poll(context).is_ready() {
            if self.trace.connection.is_only_upload() {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            timer.as_mut().reset(Instant::now() + span);
        }
        Poll::Pending
    }

    fn trace_read(&mut self, bytes: &[u8]) {
        if self.is_http2 || bytes.is_empty() {
            return;
        }
        let after_head = self.head.read(bytes);
        let exchange = self.trace.connection.exchange.load();
        exchange.received.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        exchange.after_head.fetch_add(after_head as u64, Ordering::Relaxed);
    }

    fn trace_write(&mut self) {
        let exchange = self.trace.connection.exchange.load();
        // An upload that continues after its response has begun also looks like the next exchange. The bytes
        // of that response are then undercounted: a surplus may be missed, but never invented.
        if !self.is_http2 && exchange.received.load(Ordering::Relaxed) > 0 {
            let next = Exchange { number: exchange.number + 1, ..Exchange::default() };
            self.trace.connection.exchange.store(Arc::new(next));
            self.head = HeadEnd::default();
        }
    }
}

impl<T: Connection> Connection for TracedStream<T> {
    fn connected(&self) -> Connected {
        self.stream.connected().extra(self.trace.clone())
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for TracedStream<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.trace_read(&buffer.filled()[before..]);
        polled
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for TracedStream<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.trace_write();
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.check_stall(polled, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.trace_write();
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.check_stall(polled, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(context);
        self.check_stall(polled, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// The trace of one exchange. The connection keeps one; hyper-util clones it into each response and each
/// error, before the connection serves another request. So a clone is made while its exchange is the
/// latest of the connection, and keeps referring to that exchange.
pub(super) struct Trace {
    connection: Arc<Shared>,
    exchange: Arc<Exchange>,
}

#[derive(Debug)]
struct Shared {
    exchange: ArcSwap<Exchange>,
    has_answered: AtomicBool,
    /// The bodies of the exchange that was answered last.
    activity: ArcSwapOption<Activity>,
}

impl Shared {
    fn is_only_upload(&self) -> bool {
        self.activity.load().as_ref().is_some_and(|activity| activity.is_only_upload())
    }
}

#[derive(Debug, Default)]
struct Exchange {
    /// 0 for the first exchange of the connection.
    number: u64,
    received: AtomicU64,
    /// Received bytes after the head of the response.
    after_head: AtomicU64,
}

impl Trace {
    fn new() -> Self {
        let exchange = Arc::<Exchange>::default();
        let current = ArcSwap::new(Arc::clone(&exchange));
        let connection = Shared {
            exchange: current,
            has_answered: AtomicBool::new(false),
            activity: ArcSwapOption::empty(),
        };
        Self { connection: Arc::new(connection), exchange }
    }

    /// Notes that a complete head has arrived for the request with these bodies.
    pub(super) fn answered(&self, activity: &Arc<Activity>) {
        self.connection.has_answered.store(true, Ordering::Relaxed);
        self.connection.activity.store(Some(Arc::clone(activity)));
    }

    /// Whether the connection was reused, and no byte of this response has arrived.
    pub(super) fn is_reused_without_response(&self) -> bool {
        let has_served =
            self.exchange.number > 0 || self.connection.has_answered.load(Ordering::Relaxed);
        has_served && self.exchange.received.load(Ordering::Relaxed) == 0
    }

    /// Bytes after the head of the response.
    pub(super) fn body_bytes(&self) -> u64 {
        self.exchange.after_head.load(Ordering::Relaxed)
    }
}

impl Clone for Trace {
    fn clone(&self) -> Self {
        let exchange = self.connection.exchange.load_full();
        Self { connection: Arc::clone(&self.connection), exchange }
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.exchange.fmt(f)
    }
}

/// Finds the end of the head of a response, after the heads of interim responses (1xx).
#[derive(Debug, Default)]
struct HeadEnd {
    lines: u64,
    line_length: usize,
    status: [u8; 3],
    is_found: bool,
}

impl HeadEnd {
    /// Returns how many of these bytes are after the end.
    fn read(&mut self, bytes: &[u8]) -> usize {
        for (index, byte) in bytes.iter().enumerate() {
            if self.is_found {
                return bytes.len() - index;
            }
            match byte {
                b'\n' if self.line_length > 0 => {
                    (self.lines, self.line_length) = (self.lines + 1, 0)
                }
                // Empty lines before a head are allowed.
                b'\n' if self.lines == 0 => {}
                b'\n' if self.is_interim() => *self = Self::default(),
                b'\n' => self.is_found = true,
                b'\r' => {}
                byte => {
                    if self.lines == 0 && STATUS.contains(&self.line_length) {
                        self.status[self.line_length - STATUS.start] = *byte;
                    }
                    self.line_length += 1;
                }
            }
        }
        0
    }

    /// Whether another head follows. A 101 is final: the bytes after it belong to another protocol.
    fn is_interim(&self) -> bool {
        self.status[0] == b'1' && self.status != *b"101"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_head_is_found_for_every_split_of_the_bytes() {
        for (head, body) in [
            ("HTTP/1.1 200 OK\r\na: b\r\n\r\n", "body\r\n\r\nmore"),
            ("HTTP/1.1 200 OK\r\n\r\n", ""),
            ("\r\n\nHTTP/1.0 200 OK\na: b\n\n", "\n\n\n"),
            ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\na: b\r\n\r\n", "body"),
            ("HTTP/1.1 103 Hints\r\na: b\r\n\r\nHTTP/1.1 102 P\n\nHTTP/1.1 404 No\r\n\r\n", "x"),
            ("HTTP/1.1 101 Switching Protocols\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n"),
        ] {
            let whole = format!("{head}{body}");
            for cut in 0..=whole.len() {
                let (first, second) = whole.as_bytes().split_at(cut);
                let mut end = HeadEnd::default();
                let behind = end.read(first) + end.read(second);
                assert_eq!(behind, body.len(), "{whole:?} cut at {cut}");
            }
        }
    }

    #[tokio::test]
    async fn a_clone_refers_to_its_exchange() {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let (near, mut far) = tokio::io::duplex(1_024);
        let mut noted = TracedStream::new(near, false, Duration::MAX);
        noted.write_all(b"GET / HTTP/1.1\r\n\r\n").await.expect("written");
        assert!(!noted.trace.clone().is_reused_without_response());
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
        far.write_all(answer).await.expect("written");
        noted.read_exact(&mut vec![0; answer.len()]).await.expect("read");
        let first = noted.trace.clone();
        assert_eq!(first.body_bytes(), 2);
        first.answered(&Activity::new());
        noted.write_all(b"GET / HTTP/1.1\r\n\r\n").await.expect("written");
        let second = noted.trace.clone();
        assert!(second.is_reused_without_response() && !first.is_reused_without_response());
        far.write_all(answer).await.expect("written");
        noted.read_exact(&mut vec![0; answer.len() - 1]).await.expect("read");
        assert_eq!((first.body_bytes(), second.body_bytes()), (2, 1));
        assert!(!second.is_reused_without_response());
    }
}
