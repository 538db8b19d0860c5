//! Crates that limit by key, configured as their documentation says.

#![allow(clippy::disallowed_types, reason = "throttlecrab's users are told to put it in a mutex")]

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use governor::clock::{Clock, DefaultClock};
use governor::middleware::NoOpMiddleware;
use governor::state::keyed::DashMapStateStore;
use governor::{DefaultKeyedRateLimiter, RateLimiter};
use pingora_limits::rate::Rate;
use throttlecrab::AdaptiveStore;
use tokio_rate_limit::algorithm::TokenBucket;
use trypema::local::LocalRateLimiterProvider;
use trypema::{RateLimit, RateLimitDecision, RateLimiterBuilder, WindowSize};

use super::direct::governor_quota;
use crate::peer::{Keyed, TimeGiven};
use crate::plan::Plan;

/// governor as `RateLimiter::keyed` creates it: a `DashMap` with `std`'s hasher.
#[derive(Debug)]
pub struct GovernorDefault(DefaultKeyedRateLimiter<u64>);

impl Keyed for GovernorDefault {
    const NAME: &'static str = "governor, default hasher";
    const EXACT: bool = true;
    const BOUNDED_BY: Option<&'static str> = Some("retain_recent every 100 ms");
    type Key = u64;

    fn new(plan: Plan, _keys: usize) -> Self {
        Self(RateLimiter::keyed(governor_quota(plan)))
    }

    #[inline]
    fn check(&self, key: &u64) -> bool {
        self.0.check_key(key).is_ok()
    }

    fn check_n(&self, key: &u64, n: u32) -> Option<bool> {
        Some(matches!(self.0.check_key_n(key, n.try_into().expect("not zero")), Ok(Ok(()))))
    }

    fn sweep(&self) {
        self.0.retain_recent();
    }
}

type Instant = <DefaultClock as Clock>::Instant;
type AhashStore = DashMapStateStore<u64, ahash::RandomState>;

/// governor with ahash.
#[derive(Debug)]
pub struct GovernorAhash(RateLimiter<u64, AhashStore, DefaultClock, NoOpMiddleware<Instant>>);

impl Keyed for GovernorAhash {
    const NAME: &'static str = "governor, ahash";
    const EXACT: bool = true;
    const BOUNDED_BY: Option<&'static str> = Some("retain_recent every 100 ms");
    type Key = u64;

    fn new(plan: Plan, _keys: usize) -> Self {
        let hasher = ahash::RandomState::new();
        Self(RateLimiter::dashmap_with_hasher(governor_quota(plan), hasher))
    }

    #[inline]
    fn check(&self, key: &u64) -> bool {
        self.0.check_key(key).is_ok()
    }

    fn check_n(&self, key: &u64, n: u32) -> Option<bool> {
        Some(matches!(self.0.check_key_n(key, n.try_into().expect("not zero")), Ok(Ok(()))))
    }

    fn sweep(&self) {
        self.0.retain_recent();
    }
}

/// aerorate: 64 shards of `RwLock<HashMap>` with ahash, as `KeyedRateLimiter::new` creates them.
pub struct Aerorate {
    gate: aerorate::KeyedRateLimiter<u64>,
    idle: Duration,
}

impl std::fmt::Debug for Aerorate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Aerorate").field("idle", &self.idle).finish_non_exhaustive()
    }
}

impl Keyed for Aerorate {
    const NAME: &'static str = "aerorate";
    const EXACT: bool = true;
    const BOUNDED_BY: Option<&'static str> = Some("clean_idle every 100 ms");
    type Key = u64;

    fn new(plan: Plan, _keys: usize) -> Self {
        let quota = aerorate::Quota::with_period(plan.rate, plan.period).allow_burst(plan.burst);
        let idle = Duration::from_secs(plan.window_secs());
        Self { gate: aerorate::KeyedRateLimiter::new(quota), idle }
    }

    #[inline]
    fn check(&self, key: &u64) -> bool {
        self.gate.check(key).is_allowed()
    }

    fn check_n(&self, key: &u64, n: u32) -> Option<bool> {
        Some(self.gate.check_n(key, n).is_allowed())
    }

    fn sweep(&self) {
        self.gate.clean_idle(self.idle);
    }
}

/// trypema's local absolute limiter: a sliding window as long as a burst takes to be restored, with
/// the burst as its limit. Keys are text.
#[derive(Debug)]
pub struct Trypema {
    provider: Arc<LocalRateLimiterProvider>,
    limit: RateLimit,
}

impl Trypema {
    fn with(plan: Plan, cleaned: bool) -> Self {
        let window = plan.window_secs();
        let builder = LocalRateLimiterProvider::builder()
            .window_size(WindowSize::seconds_or_panic(window))
            .stale_after(Duration::from_secs(window))
            .cleanup_interval(Duration::from_millis(100));
        #[allow(clippy::cast_precision_loss, reason = "hours in seconds")]
        let per_second = f64::from(plan.burst) / window as f64;
        Self {
            provider: builder.cleanup_enabled(cleaned).build().expect("in range"),
            limit: RateLimit::per_second_or_panic(per_second),
        }
    }

    #[inline]
    fn ask(&self, key: &str, n: u32) -> bool {
        let decision = self.provider.absolute().inc(key, &self.limit, n.into());
        matches!(decision, RateLimitDecision::Allowed)
    }
}

impl Keyed for Trypema {
    const NAME: &'static str = "trypema (text keys)";
    const EXACT: bool = false;
    const BOUNDED_BY: Option<&'static str> = Some("its cleanup thread, every 100 ms");
    type Key = str;

    fn new(plan: Plan, _keys: usize) -> Self {
        Self::with(plan, false)
    }

    fn bounded(plan: Plan, _keys: usize) -> Self {
        Self::with(plan, true)
    }

    #[inline]
    fn check(&self, key: &str) -> bool {
        self.ask(key, 1)
    }

    fn check_n(&self, key: &str, n: u32) -> Option<bool> {
        Some(self.ask(key, n))
    }
}

/// tokio-rate-limit's token bucket, whose calls are not async. Its rates are whole cells per
/// second, so that an hourly plan refills nothing. Keys are text.
pub struct TokioRateLimit(tokio_rate_limit::RateLimiter<TokenBucket>);

impl std::fmt::Debug for TokioRateLimit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokioRateLimit").finish_non_exhaustive()
    }
}

fn per_second(plan: Plan) -> u64 {
    u64::from(plan.rate) / plan.period.as_secs().max(1)
}

impl Keyed for TokioRateLimit {
    const NAME: &'static str = "tokio-rate-limit (text keys)";
    const EXACT: bool = true;
    const BOUNDED_BY: Option<&'static str> = Some("time to idle");
    type Key = str;

    fn new(plan: Plan, _keys: usize) -> Self {
        let bucket = TokenBucket::new(plan.burst.into(), per_second(plan));
        Self(tokio_rate_limit::RateLimiter::from_algorithm(bucket))
    }

    fn bounded(plan: Plan, _keys: usize) -> Self {
        let idle = Duration::from_secs(plan.window_secs());
        let bucket = TokenBucket::with_ttl(plan.burst.into(), per_second(plan), idle);
        Self(tokio_rate_limit::RateLimiter::from_algorithm(bucket))
    }

    #[inline]
    fn check(&self, key: &str) -> bool {
        self.0.check(key).permitted
    }

    fn check_n(&self, key: &str, n: u32) -> Option<bool> {
        Some(self.0.check_with_cost(key, n.into()).permitted)
    }
}

/// throttlecrab's `AdaptiveStore` in a mutex, as its documentation says. Keys are text.
pub struct Throttlecrab {
    gate: Mutex<throttlecrab::RateLimiter<AdaptiveStore>>,
    plan: Plan,
}

impl std::fmt::Debug for Throttlecrab {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Throttlecrab").field("plan", &self.plan).finish_non_exhaustive()
    }
}

impl Throttlecrab {
    #[inline]
    fn ask(&self, key: &str, n: u32, now: impl FnOnce() -> SystemTime) -> bool {
        let Plan { rate, period, burst } = self.plan;
        let seconds = i64::try_from(period.as_secs()).expect("hours");
        let mut gate = self.gate.lock().expect("no panic");
        let answer = gate.rate_limit(key, burst.into(), rate.into(), seconds, n.into(), now());
        answer.is_ok_and(|(allowed, _)| allowed)
    }
}

impl Keyed for Throttlecrab {
    const NAME: &'static str = "throttlecrab in a mutex (text keys)";
    // Its store forgets a key of burst 1 immediately, and a key that rested may have more than a
    // burst.
    const EXACT: bool = false;
    const BOUNDED_BY: Option<&'static str> = Some("forgets by itself");
    type Key = str;

    fn new(plan: Plan, keys: usize) -> Self {
        let store = AdaptiveStore::with_capacity(keys);
        Self { gate: Mutex::new(throttlecrab::RateLimiter::new(store)), plan }
    }

    #[inline]
    fn check(&self, key: &str) -> bool {
        self.ask(key, 1, SystemTime::now)
    }

    fn check_n(&self, key: &str, n: u32) -> Option<bool> {
        Some(self.ask(key, n, SystemTime::now))
    }
}

impl TimeGiven for Throttlecrab {
    #[inline]
    fn check_at(&self, key: &str, now_nanos: u64) -> bool {
        self.ask(key, 1, || UNIX_EPOCH + Duration::from_nanos(now_nanos))
    }
}

/// pingora-limits' `Rate`: a count-min sketch of 4 times 1,024 counters. Its window is as long as a
/// burst takes to be restored. An observed event is counted even if it is then denied, and keys
/// that share counters are counted together.
pub struct PingoraLimits {
    rate: Rate,
    limit: isize,
}

impl std::fmt::Debug for PingoraLimits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PingoraLimits").field("limit", &self.limit).finish_non_exhaustive()
    }
}

impl Keyed for PingoraLimits {
    const NAME: &'static str = "pingora-limits (approximate)";
    const EXACT: bool = false;
    const BOUNDED_BY: Option<&'static str> = Some("4,096 counters, twice");
    type Key = u64;

    fn new(plan: Plan, _keys: usize) -> Self {
        let limit = isize::try_from(plan.burst).expect("64 bits");
        Self { rate: Rate::new(Duration::from_secs(plan.window_secs())), limit }
    }

    #[inline]
    fn check(&self, key: &u64) -> bool {
        self.rate.observe(key, 1) <= self.limit
    }

    fn check_n(&self, key: &u64, n: u32) -> Option<bool> {
        Some(self.rate.observe(key, isize::try_from(n).expect("64 bits")) <= self.limit)
    }
}
