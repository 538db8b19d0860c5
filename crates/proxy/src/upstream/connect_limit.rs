//! Bounds the connections to the upstream by the limit of open files. A request that needs one more waits
//! for a slot, up to the connect timeout.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use pin_project_lite::pin_project;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower_service::Service;

use super::connect::{ConnectError, Connector};

/// Opens connections up to a bound.
#[derive(Clone, Debug)]
pub(super) struct BoundedConnector {
    pub(super) connector: Connector,
    pub(super) slots: Arc<Semaphore>,
    /// How long to wait for a slot.
    pub(super) timeout: Duration,
}

impl Service<Uri> for BoundedConnector {
    type Response = LimitedStream<<Connector as Service<Uri>>::Response>;
    type Error = ConnectError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, ConnectError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        self.connector.poll_ready(context)
    }

    fn call(&mut self, target: Uri) -> Self::Future {
        let Self { mut connector, slots, timeout } = self.clone();
        Box::pin(async move {
            let slot = tokio::time::timeout(timeout, slots.acquire_owned()).await;
            let slot =
                slot.map_err(|_| ConnectError::Timeout)?.expect("the semaphore is never closed");
            Ok(LimitedStream { stream: connector.call(target).await?, _slot: slot })
        })
    }
}

pin_project! {
    /// A connection that holds its slot until it is dropped.
    #[derive(Debug)]
    pub(super) struct LimitedStream<S> {
        #[pin]
        stream: S,
        _slot: OwnedSemaphorePermit,
    }
}

impl<S: Connection> Connection for LimitedStream<S> {
    fn connected(&self) -> Connected {
        self.stream.connected()
    }
}

impl<S: Read> Read for LimitedStream<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        self.project().stream.poll_read(context, buffer)
    }
}

impl<S: Write> Write for LimitedStream<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.project().stream.poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.project().stream.poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.project().stream.poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.project().stream.poll_write_vectored(context, slices)
    }
}
