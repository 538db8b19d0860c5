//! The connection of a client, with a write timeout: the connection fails if the client reads nothing for
//! too long, or is gone while its request is in flight.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

use super::usage::Usage;
use crate::metrics::{Metrics, Stall};

/// How long the proxy waits for a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientTimeouts {
    /// For a client that reads nothing of what it is sent, until the connection is a tunnel.
    pub(crate) write: Duration,
    /// For a client that has closed its sending side, while nothing is sent to it.
    pub(crate) half_close: Duration,
}

/// A client's TCP connection.
#[derive(Debug)]
pub(crate) struct ClientStream {
    stream: TcpStream,
    timeouts: ClientTimeouts,
    /// Runs while a write is pending.
    write_timer: Option<Pin<Box<Sleep>>>,
    /// Runs while the client's sending side is closed. Each write restarts it.
    half_close_timer: Option<Pin<Box<Sleep>>>,
    /// A response that ends with its connection would look complete if the connection were closed in the middle of it.
    /// So the connection is reset instead, whether a failure of the response, a timeout or the proxy's exit ends it.
    usage: Arc<Usage>,
    metrics: Arc<Metrics>,
}

impl ClientStream {
    pub(crate) fn new(
        stream: TcpStream,
        timeouts: ClientTimeouts,
        usage: Arc<Usage>,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self { stream, timeouts, write_timer: None, half_close_timer: None, usage, metrics }
    }

    /// Fails if nothing could be written for the timeout. A tunnel may stay so as long as the client sends.
    fn check_stall<R>(
        &mut self,
        polled: Poll<io::Result<R>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<R>> {
        if polled.is_ready() {
            self.write_timer = None;
            self.half_close_timer = None;
            return polled;
        }
        if self.usage.is_tunnel() {
            return Poll::Pending;
        }
        let span = self.timeouts.write;
        let timer = self.write_timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(span)));
        if timer.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        self.write_timer = None;
        self.metrics.count_stall(Stall::Reader);
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    /// Whether the client has reset the connection, or has closed its sending side for too long. TCP does
    /// not show whether it still receives until something is sent.
    fn is_gone(&mut self, context: &mut Context<'_>) -> bool {
        let mut byte = [0];
        match self.stream.poll_peek(context, &mut ReadBuf::new(&mut byte)) {
            Poll::Ready(Ok(0)) => {
                let span = self.timeouts.half_close;
                let timer =
                    self.half_close_timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(span)));
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
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.usage.note_sent();
        }
        polled
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

    /// TCP has nothing to flush. But hyper flushes each time it polls the connection, also while a request
    /// is in flight and hyper does not read. So this is where the proxy notices that the client is gone.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.is_gone(context) {
            false => Poll::Ready(Ok(())),
            true => Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into())),
        }
    }

    /// hyper has flushed all that it has.
    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.usage.may_close() {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

impl Drop for ClientStream {
    fn drop(&mut self) {
        if self.usage.is_cut() {
            // This fails if the client has already closed the connection; then there is nothing to reset.
            let _ = self.stream.set_zero_linger();
        }
    }
}
