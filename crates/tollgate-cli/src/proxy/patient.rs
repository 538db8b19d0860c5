//! A client's connection, given up when the client reads nothing of what it is sent for too long.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use super::metrics::{Metrics, Stall};

/// The connection.
#[derive(Debug)]
pub(super) struct Patient<T> {
    stream: T,
    span: Duration,
    /// Set while a write waits.
    alarm: Option<Pin<Box<Sleep>>>,
    metrics: Arc<Metrics>,
}

impl<T> Patient<T> {
    pub(super) fn new(stream: T, span: Duration, metrics: Arc<Metrics>) -> Self {
        Self { stream, span, alarm: None, metrics }
    }

    fn judge<R>(
        &mut self,
        polled: Poll<io::Result<R>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<R>> {
        if polled.is_ready() {
            self.alarm = None;
            return polled;
        }
        let span = self.span;
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(tokio::time::sleep(span)));
        if alarm.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        self.alarm = None;
        self.metrics.count_stall(Stall::Reader);
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Patient<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Patient<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.judge(polled, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.judge(polled, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(context);
        // TCP has nothing to flush; a write that waits must not lose its alarm by it.
        match polled {
            Poll::Ready(_) => polled,
            Poll::Pending => self.judge(polled, context),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
