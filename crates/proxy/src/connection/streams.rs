//! Ends an HTTP/2 stream whose client reads nothing of it. Other streams keep the connection active, so
//! the write timeout of [`ClientStream`](super::write_timeout::ClientStream) does not see the stall.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hyper::rt::Executor;
use tokio::time::Instant;

use crate::metrics::{Metrics, Stall};

tokio::task_local! {
    static READER: Arc<Reader>;
}

/// Runs each stream in its own task, with a read timeout.
#[derive(Clone, Debug)]
pub(crate) struct Streams {
    pub(crate) read_timeout: Duration,
    pub(crate) metrics: Arc<Metrics>,
}

impl<F> Executor<F> for Streams
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, stream: F) {
        let Self { read_timeout, metrics } = self.clone();
        tokio::spawn(async move {
            let reader = Arc::new(Reader::new());
            tokio::select! {
                _ = READER.scope(Arc::clone(&reader), stream) => {}
                // Dropping the stream resets it.
                () = reader.stalls_for(read_timeout) => metrics.count_stall(Stall::Reader),
            }
        });
    }
}

/// Notes that the body of a response was polled, and whether it returned a frame. The next poll comes
/// only when the client has read that frame.
pub(crate) fn note(has_frame: bool) {
    // An HTTP/1.1 connection has no such task; its write timeout is enough.
    let _ = READER.try_with(|reader| reader.note(has_frame));
}

/// Whether the client reads its stream.
#[derive(Debug)]
struct Reader {
    began: Instant,
    /// When the unread frame was handed over, in microseconds; 0 if there is none.
    pending_since_micros: AtomicU64,
}

impl Reader {
    fn new() -> Self {
        Self { began: Instant::now(), pending_since_micros: AtomicU64::new(0) }
    }

    fn note(&self, has_frame: bool) {
        let micros = || u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX).max(1);
        self.pending_since_micros.store(if has_frame { micros() } else { 0 }, Ordering::Relaxed);
    }

    /// Completes when the client has read nothing for `span`, at most one more `span` later.
    async fn stalls_for(&self, span: Duration) {
        loop {
            let now = Instant::now();
            let since = match self.pending_since_micros.load(Ordering::Relaxed) {
                0 => now,
                micros => self.began + Duration::from_micros(micros),
            };
            if since + span <= now {
                return;
            }
            tokio::time::sleep_until(since + span).await;
        }
    }
}
