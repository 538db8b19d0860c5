//! The limits of one rule that has a store.

use std::ops::RangeInclusive;

use tollgate_redis::{Answer, Leased, RedisLimiter, WithFallback};
use tollgate_rules::{Fallback, Key, Rule, RuleLimit};

/// The limits of a rule that has a store.
#[derive(Debug)]
pub(crate) struct RuleLimits {
    pub(super) key: Key,
    pub(super) limits: Vec<RuleLimit>,
    pub(super) capacity: u64,
    /// The largest costs of a request for which these limits are built.
    pub(super) costs: RangeInclusive<u64>,
    pub(super) store: tollgate_rules::Store,
    /// In the order of `limits`.
    pub(super) store_limits: Vec<StoreLimit>,
}

/// A limit in a store.
#[derive(Debug)]
pub(super) enum StoreLimit {
    /// The store decides each request.
    PerRequest(WithFallback<RedisLimiter>),
    /// The store grants leases, which this process spends.
    Leased(WithFallback<Leased<RedisLimiter>>),
}

impl RuleLimits {
    /// Whether these are the limits of a rule. A new cost keeps them, unless it decides whether leases are taken, or
    /// is never granted.
    pub(super) fn are_of(&self, rule: &Rule) -> bool {
        Some(&self.store) == rule.store()
            && self.limits == rule.limits()
            && self.key == *rule.key()
            && self.capacity == rule.capacity()
            && self.costs.contains(&rule.cost_max())
    }

    /// Whether a request is denied if the store gives no decision.
    pub(super) fn denies_without_store(&self) -> bool {
        self.store.fallback() == Fallback::Deny
    }
}

impl StoreLimit {
    /// The answer, if it is available without waiting.
    pub(super) fn try_check_n(&self, key: &[u8], cells: u64) -> Option<Answer> {
        match self {
            Self::PerRequest(limiter) => limiter.try_check_n(key, cells),
            Self::Leased(limiter) => limiter.try_check_n(key, cells),
        }
    }

    /// The answer, within the deadline of the store.
    pub(super) async fn check_n(&self, key: &[u8], cells: u64) -> Answer {
        match self {
            Self::PerRequest(limiter) => limiter.check_n(key, cells).await,
            Self::Leased(limiter) => limiter.check_n(key, cells).await,
        }
    }
}
