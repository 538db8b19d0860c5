//! An idle timeout for the two bodies of a request and its response.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use http_body::{Body, Frame};
use tokio::time::{Instant, Sleep};

use crate::metrics::{Metrics, Stall};
use crate::request::whole_body::BoxError;

/// The result of polling a body.
type Polled<B> = Poll<Option<Result<Frame<<B as Body>::Data>, <B as Body>::Error>>>;

/// When bytes last moved.
#[derive(Debug)]
pub(super) struct LastMove {
    began: Instant,
    micros: AtomicU64,
}

impl LastMove {
    /// Now.
    pub(super) fn new() -> Self {
        Self { began: Instant::now(), micros: AtomicU64::new(0) }
    }

    pub(super) fn note(&self) {
        let micros = u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.micros.store(micros, Ordering::Relaxed);
    }

    pub(super) fn at(&self) -> Instant {
        self.began + Duration::from_micros(self.micros.load(Ordering::Relaxed))
    }
}

/// When a frame last moved in either direction. One idle direction does not make the exchange idle.
#[derive(Debug)]
pub(super) struct Activity {
    last: LastMove,
    /// Whether the client, or the pace of its response, has not taken the response's last frame yet. That may take
    /// longer than the timeout, and other timeouts bound it.
    is_response_unread: AtomicBool,
    is_over: AtomicBool,
    has_upload_ended: AtomicBool,
    has_response_ended: AtomicBool,
}

impl Activity {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            last: LastMove::new(),
            is_response_unread: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            has_upload_ended: AtomicBool::new(false),
            has_response_ended: AtomicBool::new(false),
        })
    }

    /// Notes that a frame of the response was handed on.
    pub(super) fn handed_on(&self) {
        self.is_response_unread.store(true, Ordering::Relaxed);
    }

    /// Notes that the response's last frame was taken, or that its body is gone.
    pub(super) fn taken(&self) {
        if self.is_response_unread.swap(false, Ordering::Relaxed) {
            self.last.note();
        }
    }

    /// Whether there is still an upload, and the response has ended, or is no longer wanted.
    pub(super) fn is_only_upload(&self) -> bool {
        self.has_response_ended.load(Ordering::Relaxed)
            && !self.has_upload_ended.load(Ordering::Relaxed)
    }
}

/// One of the two bodies.
#[derive(Clone, Copy, Debug)]
pub(super) enum Side {
    Upload,
    Response,
}

/// The idle timeout of one of the two bodies. Dropping it notes that the body has ended.
#[derive(Debug)]
pub(super) struct IdleTimeout {
    activity: Arc<Activity>,
    of: Side,
    span: Duration,
    /// Created when the body first waits, and reset only when it fires, so that an active body costs no
    /// timer operations.
    timer: Option<Pin<Box<Sleep>>>,
    is_waiting: bool,
}

impl IdleTimeout {
    pub(super) fn new(activity: Arc<Activity>, of: Side, span: Duration) -> Self {
        Self { activity, of, span, timer: None, is_waiting: false }
    }

    /// Polls a body; `None` if the exchange was idle for too long.
    pub(super) fn poll<B: Body + Unpin>(
        &mut self,
        body: &mut B,
        context: &mut Context<'_>,
    ) -> Option<Polled<B>> {
        let polled = Pin::new(body).poll_frame(context);
        let is_waiting = polled.is_pending();
        // Time in which no frame was requested does not count.
        if !is_waiting || !self.is_waiting {
            self.activity.last.note();
        }
        self.is_waiting = is_waiting;
        (!is_waiting || !self.is_over(context)).then_some(polled)
    }

    fn is_over(&mut self, context: &mut Context<'_>) -> bool {
        let Self { activity, span, timer, .. } = self;
        let due = || match activity.is_response_unread.load(Ordering::Relaxed) {
            true => Instant::now() + *span,
            false => activity.last.at() + *span,
        };
        let timer = timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(due())));
        while timer.as_mut().poll(context).is_ready() {
            if due() <= Instant::now() {
                return true;
            }
            timer.as_mut().reset(due());
        }
        false
    }

    /// The progress of both bodies of the exchange.
    pub(super) fn activity(&self) -> &Activity {
        &self.activity
    }

    /// Counts the stall, unless the other body has counted it. Returns the error for the body.
    pub(super) fn count(&self, metrics: &Metrics) -> BoxError {
        if !self.activity.is_over.swap(true, Ordering::Relaxed) {
            metrics.count_stall(match self.of {
                Side::Upload => Stall::Upload,
                Side::Response => Stall::Response,
            });
        }
        "the exchange was idle for too long".into()
    }
}

impl Drop for IdleTimeout {
    fn drop(&mut self) {
        let has_ended = match self.of {
            Side::Upload => &self.activity.has_upload_ended,
            Side::Response => &self.activity.has_response_ended,
        };
        has_ended.store(true, Ordering::Relaxed);
    }
}
