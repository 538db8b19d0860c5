//! A client's connection, given up when the client reads nothing of what it is sent for too long, or is
//! gone while it waits for an answer.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

use crate::metrics::{Metrics, Stall};

/// How long a client is waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientTimeouts {
    /// One that reads nothing of what it is sent.
    pub(crate) reader: Duration,
    /// One that has closed its sending side, and is sent nothing.
    pub(crate) half_closed: Duration,
}

/// The connection.
#[derive(Debug)]
pub(crate) struct ClientStream {
    stream: TcpStream,
    timeouts: ClientTimeouts,
    /// Set while a write waits.
    timer: Option<Pin<Box<Sleep>>>,
    /// Set while the client's sending side is closed, and begun anew by each write.
    half_closed: Option<Pin<Box<Sleep>>>,
    /// Whether an answer was cut off that ends with the connection. The connection is then reset: a
    /// close would make the answer look complete.
    is_cut: Arc<AtomicBool>,
    metrics: Arc<Metrics>,
}

impl ClientStream {
    pub(crate) fn new(
        stream: TcpStream,
        timeouts: ClientTimeouts,
        is_cut: Arc<AtomicBool>,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self { stream, timeouts, timer: None, half_closed: None, is_cut, metrics }
    }

    fn check_stall<R>(
        &mut self,
        polled: Poll<io::Result<R>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<R>> {
        if polled.is_ready() {
            self.timer = None;
            self.half_closed = None;
            return polled;
        }
        let span = self.timeouts.reader;
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(span)));
        if timer.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        self.timer = None;
        self.metrics.count_stall(Stall::Reader);
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    /// Whether the client has reset the connection, or has closed its sending side for too long. Whether
    /// it still receives cannot be seen before something is sent to it.
    fn is_gone(&mut self, context: &mut Context<'_>) -> bool {
        let mut byte = [0];
        match self.stream.poll_peek(context, &mut ReadBuf::new(&mut byte)) {
            Poll::Ready(Ok(0)) => {
                let span = self.timeouts.half_closed;
                let timer =
                    self.half_closed.get_or_insert_with(|| Box::pin(tokio::time::sleep(span)));
                timer.as_mut().poll(context).is_ready()
            }
            Poll::Ready(Err(_)) => true,
            Poll::Ready(Ok(_)) | Poll::Pending => false,
        }
    }
}

impl AsyncRead for ClientStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for ClientStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.check_stall(polled, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.check_stall(polled, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// TCP has nothing to flush. But hyper flushes whenever it looks at the connection, also while it
    /// reads nothing since a request is under way.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.is_gone(context) {
            false => Poll::Ready(Ok(())),
            true => Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into())),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_cut.load(Ordering::Relaxed) {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

impl Drop for ClientStream {
    fn drop(&mut self) {
        if self.is_cut.load(Ordering::Relaxed) {
            // If the client has closed the connection already, there is nothing to reset.
            let _ = self.stream.set_zero_linger();
        }
    }
}
