//! The body of a request on its way to the upstream, with its idle timeout and minimum rate.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::body_rate::{BodyRate, ClientWait};
use super::idle::IdleTimeout;
use crate::metrics::Metrics;
use crate::request::body::RequestBody;
use crate::request::headers::{clean_trailers, remove_ambiguous_names};
use crate::request::whole_body::BoxError;

/// The progress of an upload.
#[derive(Debug, Default)]
pub(super) struct Progress {
    frames: AtomicU64,
    waits_for_client: AtomicBool,
    has_stalled: AtomicBool,
    has_failed: AtomicBool,
    is_answered: AtomicBool,
}

impl Progress {
    /// Frames received from the client.
    pub(super) fn frames(&self) -> u64 {
        self.frames.load(Ordering::Relaxed)
    }

    /// Whether the upstream asks for more than the client has sent.
    pub(super) fn waits_for_client(&self) -> bool {
        self.waits_for_client.load(Ordering::Relaxed)
    }

    /// Whether the client stopped inside its body.
    pub(super) fn has_stalled(&self) -> bool {
        self.has_stalled.load(Ordering::Relaxed)
    }

    /// Whether the client's body ended early or is malformed.
    pub(super) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    /// Notes that the response has begun. From now on, the response cannot report a stall, so it is counted.
    pub(super) fn answered(&self) {
        self.is_answered.store(true, Ordering::Relaxed);
    }
}

/// The result of polling the client's body.
type Polled = Poll<Option<Result<Frame<Bytes>, BoxError>>>;

/// The body of a request, with its checks.
#[derive(Debug)]
pub(super) struct Upload {
    /// `None` for a request without a body.
    body: Option<RequestBody>,
    idle: IdleTimeout,
    wait: ClientWait,
    progress: Arc<Progress>,
    metrics: Arc<Metrics>,
    any_field_names: bool,
}

impl Upload {
    pub(super) fn new(
        body: Option<RequestBody>,
        idle: IdleTimeout,
        body_rate: BodyRate,
        any_field_names: bool,
        metrics: Arc<Metrics>,
    ) -> (Self, Arc<Progress>) {
        let (progress, wait) = (Arc::new(Progress::default()), ClientWait::new(body_rate));
        let upload =
            Self { body, idle, wait, progress: Arc::clone(&progress), metrics, any_field_names };
        (upload, progress)
    }

    /// Whether the client is below the minimum rate. The rate applies only until the response begins.
    fn is_too_slow(&mut self, polled: &Polled, context: &mut Context<'_>) -> bool {
        let bytes = match polled {
            Poll::Pending => None,
            Poll::Ready(Some(Ok(frame))) => Some(frame.data_ref().map_or(0, Bytes::len)),
            Poll::Ready(_) => Some(0),
        };
        let is_too_slow = self.wait.is_too_slow(bytes, context);
        is_too_slow && !self.progress.is_answered.load(Ordering::Relaxed)
    }

    fn stalled(&self) -> BoxError {
        self.progress.has_stalled.store(true, Ordering::Relaxed);
        if self.progress.is_answered.load(Ordering::Relaxed) {
            return self.idle.count(&self.metrics);
        }
        "the client stopped sending its body".into()
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        let Some(body) = &mut this.body else { return Poll::Ready(None) };
        let Some(polled) = this.idle.poll(body, context) else {
            body.abandon();
            return Poll::Ready(Some(Err(this.stalled())));
        };
        if this.is_too_slow(&polled, context) {
            // The rest would arrive as slowly, and would keep the connection busy.
            this.body.iter_mut().for_each(RequestBody::abandon);
            this.metrics.count_slow_body();
            return Poll::Ready(Some(Err(this.stalled())));
        }
        let progress = &this.progress;
        progress.waits_for_client.store(polled.is_pending(), Ordering::Relaxed);
        let mut frame = ready!(polled);
        if let Some(Ok(frame)) = &mut frame
            && let Some(trailers) = frame.trailers_mut()
        {
            clean_trailers(trailers);
            if !this.any_field_names {
                remove_ambiguous_names(trailers);
            }
        }
        progress.frames.fetch_add(1, Ordering::Relaxed);
        if let Some(Err(_)) = frame {
            progress.has_failed.store(true, Ordering::Relaxed);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(RequestBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), RequestBody::size_hint)
    }
}
