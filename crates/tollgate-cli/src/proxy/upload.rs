//! A request's body on its way to the upstream, watched: whether it moves, and for whom it waits.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

/// What is known of an upload.
#[derive(Debug, Default)]
pub(super) struct Progress {
    frames: AtomicU64,
    waits_for_client: AtomicBool,
    has_failed: AtomicBool,
}

impl Progress {
    /// Frames that have been taken from the client.
    pub(super) fn frames(&self) -> u64 {
        self.frames.load(Ordering::Relaxed)
    }

    /// The upstream would take more, and the client has not sent it yet.
    pub(super) fn waits_for_client(&self) -> bool {
        self.waits_for_client.load(Ordering::Relaxed)
    }

    /// The client's body broke off, or is malformed.
    pub(super) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }
}

/// The body, watched.
#[derive(Debug)]
pub(super) struct Upload {
    body: Incoming,
    progress: Arc<Progress>,
}

impl Upload {
    pub(super) fn new(body: Incoming) -> (Self, Arc<Progress>) {
        let progress = Arc::new(Progress::default());
        (Self { body, progress: Arc::clone(&progress) }, progress)
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        let progress = &self.progress;
        progress.waits_for_client.store(polled.is_pending(), Ordering::Relaxed);
        let frame = ready!(polled);
        progress.frames.fetch_add(1, Ordering::Relaxed);
        if let Some(Err(_)) = frame {
            progress.has_failed.store(true, Ordering::Relaxed);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
