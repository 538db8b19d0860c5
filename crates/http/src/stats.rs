//! The counters of the layer and its queue. No other file of the crate uses atomics.
//!
//! Relaxed suffices everywhere: each counter stands alone, and no other memory depends on it. The
//! counters are striped over threads, because a cache line that all threads write costs more than a
//! decision.

use core::cell::Cell;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::Arc;

use crate::key::KeyError;

/// Counts since the layer was built, over all its clones. They are read without a lock, and may be of
/// slightly different moments.
///
/// ```
/// use tollgate::Quota;
/// use tollgate_http::{Limit, RateLimitLayer, key::PeerIp};
///
/// let layer = RateLimitLayer::new(Limit::gcra("a", Quota::per_second(5), PeerIp::new())?);
/// assert_eq!(layer.stats().denied, 0);
/// # Ok::<(), tollgate_http::LimitError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Requests that were admitted, including those that waited.
    pub admitted: u64,
    /// Requests over a limit.
    pub denied: u64,
    /// Requests that had to wait for their turn, including those whose client left.
    pub waited: u64,
    /// Requests denied because too many were waiting.
    pub queue_full: u64,
    /// Requests denied because the store of a limit could not be reached.
    pub unavailable: u64,
    /// Requests with a pending verdict, because another process decided.
    pub pending: u64,
    /// Denials by limits in shadow.
    pub shadow_denied: u64,
    /// Requests that were [skipped](crate::LayerBuilder::skip): no limit was asked.
    pub skipped: u64,
    /// Requests denied because they have no key.
    pub denied_no_key: u64,
    /// Requests that are [not allowed](crate::Verdict::Forbidden), whatever any limit has left.
    pub forbidden: u64,
    /// How often a limit found no key because it was missing.
    pub key_missing: u64,
    /// How often a limit found no key because it was malformed.
    pub key_malformed: u64,
    /// How often a limit found no key because the server does not provide it.
    pub key_unavailable: u64,
}

/// The counters.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    Admitted,
    Denied,
    Waited,
    QueueFull,
    Unavailable,
    Pending,
    ShadowDenied,
    Skipped,
    DeniedNoKey,
    Forbidden,
    KeyMissing,
    KeyMalformed,
    KeyUnavailable,
}

const EVENTS: usize = 13;
const STRIPES: usize = 16;

#[derive(Debug, Default)]
#[repr(align(128))]
struct Stripe([AtomicU64; EVENTS]);

/// One counter per event and stripe.
#[derive(Debug, Default)]
pub(crate) struct Counters([Stripe; STRIPES]);

impl Counters {
    pub(crate) fn count(&self, event: Event) {
        self.0[stripe()].0[event as usize].fetch_add(1, Relaxed);
    }

    pub(crate) fn count_key_error(&self, error: KeyError) {
        self.count(match error {
            KeyError::Missing => Event::KeyMissing,
            KeyError::Malformed => Event::KeyMalformed,
            KeyError::Unavailable => Event::KeyUnavailable,
        });
    }

    pub(crate) fn read(&self) -> Stats {
        let total = |event: Event| -> u64 {
            self.0.iter().map(|stripe| stripe.0[event as usize].load(Relaxed)).sum()
        };
        Stats {
            admitted: total(Event::Admitted),
            denied: total(Event::Denied),
            waited: total(Event::Waited),
            queue_full: total(Event::QueueFull),
            unavailable: total(Event::Unavailable),
            pending: total(Event::Pending),
            shadow_denied: total(Event::ShadowDenied),
            skipped: total(Event::Skipped),
            denied_no_key: total(Event::DeniedNoKey),
            forbidden: total(Event::Forbidden),
            key_missing: total(Event::KeyMissing),
            key_malformed: total(Event::KeyMalformed),
            key_unavailable: total(Event::KeyUnavailable),
        }
    }
}

/// The stripe of this thread.
fn stripe() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static OWN: Cell<Option<usize>> = const { Cell::new(None) };
    }
    OWN.with(|own| {
        own.get().unwrap_or_else(|| {
            let stripe = NEXT.fetch_add(1, Relaxed) % STRIPES;
            own.set(Some(stripe));
            stripe
        })
    })
}

/// How many requests may wait at a time, and how many do.
#[derive(Debug)]
pub(crate) struct Queue {
    waiting: Arc<AtomicUsize>,
    max: usize,
}

impl Queue {
    pub(crate) fn new(max: usize) -> Self {
        Self { waiting: Arc::default(), max }
    }

    /// Whether all places are taken.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting.load(Relaxed) >= self.max
    }

    /// A place for a request that was charged when one was free. If other threads have taken it since,
    /// the queue is over its bound by one.
    pub(crate) fn enter_even_if_full(&self) -> QueueGuard {
        self.waiting.fetch_add(1, Relaxed);
        QueueGuard(Arc::clone(&self.waiting))
    }

    /// A place, unless all are taken.
    pub(crate) fn enter(&self) -> Option<QueueGuard> {
        let next = |waiting| (waiting < self.max).then_some(waiting + 1);
        self.waiting.fetch_update(Relaxed, Relaxed, next).ok()?;
        Some(QueueGuard(Arc::clone(&self.waiting)))
    }
}

/// A place in the queue, freed when it is dropped.
#[derive(Debug)]
pub(crate) struct QueueGuard(Arc<AtomicUsize>);

impl Drop for QueueGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_has_a_place_again_after_one_is_dropped() {
        let queue = Queue::new(2);
        let places = (queue.enter().expect("first"), queue.enter().expect("second"));
        assert!(queue.enter().is_none());
        drop(places.0);
        assert!(queue.enter().is_some());
    }
}
