//! Connections to the upstream, no more than there are descriptors for. A request that would need
//! one more waits until one is free or ends, for as long as a connection may take.

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

use super::connect::{Dial, DialError};

/// Opens connections, up to a bound.
#[derive(Clone, Debug)]
pub(crate) struct Bounded {
    pub(crate) dial: Dial,
    pub(crate) places: Arc<Semaphore>,
    /// How long to wait for a place.
    pub(crate) timeout: Duration,
}

impl Service<Uri> for Bounded {
    type Response = Held<<Dial as Service<Uri>>::Response>;
    type Error = DialError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, DialError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), DialError>> {
        self.dial.poll_ready(context)
    }

    fn call(&mut self, target: Uri) -> Self::Future {
        let Self { mut dial, places, timeout } = self.clone();
        Box::pin(async move {
            let place = tokio::time::timeout(timeout, places.acquire_owned()).await;
            let place = place.map_err(|_| DialError::Timeout)?.expect("it is never closed");
            Ok(Held { stream: dial.call(target).await?, _place: place })
        })
    }
}

pin_project! {
    /// A connection, which keeps its place until it is dropped.
    #[derive(Debug)]
    pub(crate) struct Held<S> {
        #[pin]
        stream: S,
        _place: OwnedSemaphorePermit,
    }
}

impl<S: Connection> Connection for Held<S> {
    fn connected(&self) -> Connected {
        self.stream.connected()
    }
}

impl<S: Read> Read for Held<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        self.project().stream.poll_read(context, buffer)
    }
}

impl<S: Write> Write for Held<S> {
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
