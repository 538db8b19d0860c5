//! The body of a response. It fails if the upstream stops sending or resets its stream, or if its length is not the
//! announced one; then the client does not take it for complete.

use std::error::Error;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::causes::causes;
use super::exchange::Trace;
use super::idle::IdleTimeout;
use crate::metrics::{Fault, Metrics};
use crate::request::headers::clean_trailers;
use crate::request::whole_body::{BoxError, CutOff, WholeBody};

/// The body of a response, with its checks.
#[derive(Debug)]
pub(crate) struct Download {
    body: WholeBody,
    idle: IdleTimeout,
    announced: Option<Announced>,
    metrics: Arc<Metrics>,
}

/// The length that an HTTP/1.1 response announces.
#[derive(Debug)]
pub(super) struct Announced {
    pub(super) bytes: u64,
    pub(super) trace: Trace,
}

impl Announced {
    /// Whether more bytes have arrived than announced.
    pub(super) fn is_exceeded(&self) -> bool {
        self.trace.body_bytes() > self.bytes
    }
}

impl Download {
    pub(super) fn new(
        body: WholeBody,
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
        idle.activity().taken();
        let Some(mut polled) = idle.poll(body, context) else {
            return Poll::Ready(Some(Err(idle.count(metrics))));
        };
        if let Poll::Ready(Some(Ok(frame))) = &mut polled {
            frame.trailers_mut().into_iter().for_each(clean_trailers);
        }
        if let Poll::Ready(Some(Err(error))) = &polled {
            metrics.count_fault(fault(&**error));
        }
        // Check before the last frame is passed on: with it, the response would look complete.
        let is_too_long = polled.is_ready()
            && body.is_end_stream()
            && announced.as_ref().is_some_and(Announced::is_exceeded);
        if is_too_long {
            metrics.count_fault(Fault::Long);
            return Poll::Ready(Some(Err("the body is longer than announced".into())));
        }
        if let Poll::Ready(Some(Ok(_))) = &polled {
            idle.activity().handed_on();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Download {
    fn drop(&mut self) {
        self.idle.activity().taken();
    }
}

fn fault(error: &(dyn Error + 'static)) -> Fault {
    let is_short = |error: &(dyn Error + 'static)| {
        let io = error.downcast_ref::<io::Error>();
        let is_eof = io.is_some_and(|error| error.kind() == io::ErrorKind::UnexpectedEof);
        is_eof || error.is::<CutOff>()
    };
    if is_short(error) || causes(error).any(is_short) { Fault::Short } else { Fault::Broken }
}
