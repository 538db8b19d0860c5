//! A response's body on its way to the client: ended if the upstream stops amid it, and cut off where it
//! has not the length that it announces, so that the client does not take it for whole.

use std::error::Error;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::exchange::Trace;
use super::idle::{BoxError, IdleTimeout};
use crate::metrics::{Fault, Metrics, Stall};

/// The body, watched.
#[derive(Debug)]
pub(crate) struct Download {
    body: Incoming,
    idle: IdleTimeout,
    announced: Option<Announced>,
    metrics: Arc<Metrics>,
}

/// The length that an HTTP/1.1 response announces.
#[derive(Debug)]
pub(crate) struct Announced {
    pub(crate) bytes: u64,
    pub(crate) trace: Trace,
}

impl Announced {
    /// Whether more has come already.
    pub(crate) fn is_exceeded(&self) -> bool {
        self.trace.body_bytes() > self.bytes
    }
}

impl Download {
    pub(crate) fn new(
        body: Incoming,
        idle: IdleTimeout,
        announced: Option<Announced>,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self { body, idle, announced, metrics }
    }
}

impl Body for Download {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let Self { body, idle, announced, metrics } = self.get_mut();
        let Some(polled) = idle.poll(body, context) else {
            return Poll::Ready(Some(Err(idle.count(metrics, Stall::Response))));
        };
        if let Poll::Ready(Some(Err(error))) = &polled {
            metrics.count_fault(fault(error));
        }
        // With the last piece the response would be whole.
        let is_too_long = polled.is_ready()
            && body.is_end_stream()
            && announced.as_ref().is_some_and(Announced::is_exceeded);
        if is_too_long {
            metrics.count_fault(Fault::Long);
            return Poll::Ready(Some(Err("more has come than was announced".into())));
        }
        polled.map_err(BoxError::from)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

fn fault(error: &hyper::Error) -> Fault {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        let io = error.downcast_ref::<io::Error>();
        if io.is_some_and(|error| error.kind() == io::ErrorKind::UnexpectedEof) {
            return Fault::Short;
        }
        cause = error.source();
    }
    Fault::Broken
}
