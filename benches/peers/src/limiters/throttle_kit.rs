//! throttle-kit.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use ::throttle_kit::{InMemoryBackend, Quota, RateLimiter};

use crate::peer::Keyed;
use crate::plan::Plan;

/// throttle-kit's GCRA in dashmap 6 with `std`'s hasher; a call locks the shard of its key. Keys are
/// text, and none is ever forgotten. Times and intervals are whole milliseconds, rounded down, but an
/// interval is at least one: 10,000 cells a second become 1,000.
///
/// `check` is async, and is polled once here, since it never waits. `check_sync` would build a runtime
/// for every call.
pub struct ThrottleKit(RateLimiter<InMemoryBackend>);

impl std::fmt::Debug for ThrottleKit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ThrottleKit").finish_non_exhaustive()
    }
}

impl Keyed for ThrottleKit {
    const NAME: &'static str = "throttle-kit (text keys)";
    // With intervals rounded down, 600 cells a second become 1,000. No plan here grants more by it.
    const EXACT: bool = false;
    const BOUNDED_BY: Option<&'static str> = None;
    type Key = str;

    fn new(plan: Plan, _keys: usize) -> Self {
        let quota = Quota::from_parts(plan.interval(), plan.burst);
        Self(RateLimiter::new(quota, InMemoryBackend::new()))
    }

    #[inline]
    fn check(&self, key: &str) -> bool {
        let answer = pin!(self.0.check(key)).poll(&mut Context::from_waker(Waker::noop()));
        match answer {
            Poll::Ready(result) => result.allowed,
            Poll::Pending => unreachable!("it awaits nothing"),
        }
    }
}
