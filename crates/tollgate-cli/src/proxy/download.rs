//! A response's body on its way to the client: ended if the upstream stops amid it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::idle::{BoxError, Idle};
use super::metrics::{Metrics, Stall};

/// The body, watched.
#[derive(Debug)]
pub(super) struct Download {
    body: Incoming,
    idle: Idle,
    metrics: Arc<Metrics>,
}

impl Download {
    pub(super) fn new(body: Incoming, idle: Idle, metrics: Arc<Metrics>) -> Self {
        Self { body, idle, metrics }
    }
}

impl Body for Download {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let Self { body, idle, metrics } = self.get_mut();
        match idle.poll(body, context) {
            Some(polled) => polled.map_err(BoxError::from),
            None => Poll::Ready(Some(Err(idle.count(metrics, Stall::Response)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
