//! Tracks the requests and the traffic of a connection, to find HTTP/2 connections that idle. hyper closes those of
//! HTTP/1 itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use http::Version;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::open::OpenConnection;

/// How long a client that was asked to close its connection may send nothing. A client that is alive answers
/// the request to close within a round trip.
const SILENCE_MAX: Duration = Duration::from_secs(5);

/// The use of one connection.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    /// Whether a response that ends with its connection has begun, and the connection has not been closed since.
    is_cut: AtomicBool,
    /// Whether hyper has all of that response.
    is_whole: AtomicBool,
    /// Whether a request has arrived.
    is_used: AtomicBool,
    /// Whether a request in HTTP/1 has arrived.
    is_http1: AtomicBool,
    /// Whether the connection has become a tunnel.
    is_tunnel: AtomicBool,
    /// Whether the client has sent bytes since this was last cleared.
    has_sent: AtomicBool,
    /// HTTP/2 requests in flight.
    requests: AtomicUsize,
    /// An HTTP/2 request has arrived.
    began: Notify,
    /// The last HTTP/2 request in flight has ended.
    ended: Notify,
}

impl Usage {
    /// Notes a request, which is in flight until the returned value is dropped.
    pub(crate) fn begin(self: &Arc<Self>, version: Version) -> UsedByRequest {
        self.is_used.store(true, Ordering::Relaxed);
        if version != Version::HTTP_2 {
            self.is_http1.store(true, Ordering::Relaxed);
            return UsedByRequest { usage: None, is_further: false };
        }
        let is_further = self.requests.fetch_add(1, Ordering::Relaxed) > 0;
        self.began.notify_one();
        UsedByRequest { usage: Some(Arc::clone(self)), is_further }
    }

    /// Notes that a response has begun whose end is the end of the connection.
    pub(crate) fn cut(&self) {
        self.is_cut.store(true, Ordering::Relaxed);
    }

    /// Notes that hyper has all of that response.
    pub(crate) fn whole(&self) {
        self.is_whole.store(true, Ordering::Relaxed);
    }

    /// Whether the connection may be closed, now that all that hyper has is sent.
    pub(super) fn may_close(&self) -> bool {
        if self.is_whole.load(Ordering::Relaxed) {
            self.is_cut.store(false, Ordering::Relaxed);
        }
        !self.is_cut()
    }

    /// Whether a response would look complete, and is not, if the connection was closed.
    pub(super) fn is_cut(&self) -> bool {
        self.is_cut.load(Ordering::Relaxed)
    }

    /// Notes that the connection has become a tunnel, which has a timeout of its own.
    pub(crate) fn became_tunnel(&self) {
        self.is_tunnel.store(true, Ordering::Relaxed);
    }

    /// Whether the connection has become a tunnel.
    pub(super) fn is_tunnel(&self) -> bool {
        self.is_tunnel.load(Ordering::Relaxed)
    }

    /// Notes that bytes of the client have arrived.
    pub(super) fn note_sent(&self) {
        self.has_sent.store(true, Ordering::Relaxed);
    }

    /// Whether a request has arrived.
    pub(crate) fn has_request(&self) -> bool {
        self.is_used.load(Ordering::Relaxed)
    }

    /// Completes after this span if no request has arrived; otherwise never.
    pub(crate) async fn lacks_request_for(&self, span: Duration) {
        tokio::time::sleep(span).await;
        if self.has_request() {
            std::future::pending().await
        }
    }

    /// Completes when an HTTP/2 connection has had no request in flight for this span, or has none while another
    /// client waits for its slot.
    pub(crate) async fn idles_for(&self, span: Duration, open: &OpenConnection) {
        self.began.notified().await;
        loop {
            while !self.is_idle() {
                self.ended.notified().await;
            }
            tokio::select! {
                biased;
                // The span begins anew.
                () = self.ended.notified() => continue,
                () = open.asked_to_close() => {}
                () = tokio::time::sleep(span) => {}
            }
            if self.is_idle() {
                return;
            }
        }
    }

    /// Completes when a client that was asked to close its HTTP/2 connection keeps it without a request: it is
    /// silent, or has not read the end of its responses for `read_timeout`. The same holds before the version is
    /// known.
    pub(crate) async fn lingers_for(&self, read_timeout: Duration) {
        let mut idle_since = Instant::now();
        loop {
            self.has_sent.store(false, Ordering::Relaxed);
            tokio::select! {
                biased;
                () = self.ended.notified() => idle_since = Instant::now(),
                () = tokio::time::sleep(SILENCE_MAX) => {
                    let is_silent = !self.has_sent.load(Ordering::Relaxed);
                    let is_over = is_silent || idle_since.elapsed() >= read_timeout;
                    if is_over && self.is_idle() {
                        return;
                    }
                }
            }
        }
    }

    /// Whether no request is in flight. In HTTP/1 that is not known.
    fn is_idle(&self) -> bool {
        !self.is_http1.load(Ordering::Relaxed) && self.requests.load(Ordering::Relaxed) == 0
    }
}

/// A request that uses a connection.
#[derive(Debug)]
pub(crate) struct UsedByRequest {
    usage: Option<Arc<Usage>>,
    is_further: bool,
}

impl UsedByRequest {
    /// Whether the connection had another request in flight when this began.
    pub(crate) fn is_further(&self) -> bool {
        self.is_further
    }
}

impl Drop for UsedByRequest {
    fn drop(&mut self) {
        if let Some(usage) = &self.usage
            && usage.requests.fetch_sub(1, Ordering::Relaxed) == 1
        {
            usage.ended.notify_one();
        }
    }
}
