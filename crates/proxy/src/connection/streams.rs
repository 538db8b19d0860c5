//! Streams of HTTP/2: one whose client takes nothing is ended by itself, since its connection moves on
//! with the others, and [`ClientStream`](crate::connection::write_timeout::Patient) has nothing to complain of.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hyper::rt::Executor;
use tokio::time::Instant;

use crate::metrics::{Metrics, Stall};

tokio::task_local! {
    static READER: Arc<Reader>;
}

/// Runs streams, each in a task of its own.
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
                // What is dropped is reset.
                () = reader.rests(read_timeout) => metrics.count_stall(Stall::Reader),
            }
        });
    }
}

/// Notes that a response's body was polled: whether it gave a piece, which the client is to take
/// before another is asked for.
pub(crate) fn note(has_given: bool) {
    // In HTTP/1.1 there is no such task, and nothing to note.
    let _ = READER.try_with(|reader| reader.note(has_given));
}

/// Whether the client takes what there is.
#[derive(Debug)]
struct Reader {
    began: Instant,
    /// When it was last given something that it has not taken; 0 if there is nothing.
    given_micros: AtomicU64,
}

impl Reader {
    fn new() -> Self {
        Self { began: Instant::now(), given_micros: AtomicU64::new(0) }
    }

    fn note(&self, has_given: bool) {
        let micros = || u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX).max(1);
        self.given_micros.store(if has_given { micros() } else { 0 }, Ordering::Relaxed);
    }

    /// Until it has taken nothing for so long; at most as long again is added to it.
    async fn rests(&self, span: Duration) {
        loop {
            let now = Instant::now();
            let given = match self.given_micros.load(Ordering::Relaxed) {
                0 => now,
                micros => self.began + Duration::from_micros(micros),
            };
            if given + span <= now {
                return;
            }
            tokio::time::sleep_until(given + span).await;
        }
    }
}
