//! The requests in flight of a rule: `concurrency` in a rules file.

use std::sync::Arc;

use tollgate::concurrency::{ConcurrencyDenied, ConcurrencyLimiter, OwnedGuard, WhenNoSlot};
use tollgate::stats::Stats;
use tollgate::{Clock, OnFull, Tick};

use crate::clock::RulesClock;
use crate::error::LimiterError;
use crate::rule::Concurrency;
use crate::shared::{Place, build_at};

/// The requests in flight of each key of a rule.
#[derive(Debug)]
pub(crate) struct InFlight<C: Clock>(Arc<ConcurrencyLimiter<[u8], RulesClock<C>>>);

/// A request in flight.
pub(crate) type Guard<C> = OwnedGuard<ConcurrencyLimiter<[u8], RulesClock<C>>>;

impl<C: Clock> Clone for InFlight<C> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<C: Clock> InFlight<C> {
    pub(crate) fn build(
        concurrency: Concurrency,
        capacity: u64,
        on_full: OnFull,
        place: &Place<'_, C>,
    ) -> Result<Self, LimiterError> {
        let when_no_slot = match on_full {
            OnFull::Admit => WhenNoSlot::Admit,
            // A key in use is never forgotten, and a quota says nothing about requests in flight.
            _ => WhenNoSlot::Deny,
        };
        let mut builder = ConcurrencyLimiter::<[u8]>::builder(concurrency.limit)
            .capacity(capacity)
            .when_no_slot(when_no_slot);
        if let Some(hold) = concurrency.max_hold {
            builder = builder.max_hold(hold);
        }
        build_at!(builder, place).map(Arc::new).map(Self)
    }

    /// Replaces the limit. Requests in flight stay counted.
    pub(crate) fn set_limit(&self, limit: u64) {
        self.0.set_limit(limit).expect("the parser has checked the limit");
    }

    /// Whether a request may enter. A denial is counted in the stats, like the denial of an entry.
    pub(crate) fn precheck(&self, key: &[u8], now: Tick) -> Result<(), ConcurrencyDenied> {
        let ask = self.0.ask(key).at(now);
        // A peek is not counted in the stats, so a denied request tries to enter. If another request has ended
        // meanwhile, the entry succeeds, and its guard is dropped at once.
        ask.peek().inspect_err(|_| drop(ask.enter()))
    }

    pub(crate) fn enter(&self, key: &[u8], now: Tick) -> Result<Guard<C>, ConcurrencyDenied> {
        self.0.ask(key).at(now).enter_owned(&self.0)
    }

    pub(crate) fn stats(&self) -> Stats {
        self.0.stats()
    }

    pub(crate) fn keys(&self) -> usize {
        self.0.len()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.0.memory_bytes()
    }
}
