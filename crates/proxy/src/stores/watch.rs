//! Whether the servers are there, also while no request asks them.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use tollgate_redis::Health;

use super::registry::StoreLimits;

/// How often each server is asked for a sign of life.
const PING_INTERVAL: Duration = Duration::from_secs(1);

/// A store that is down.
#[derive(Debug)]
pub(crate) struct StoreDown {
    /// Its URL, without user and password.
    pub(crate) store: String,
    pub(crate) health: Health,
    /// Requests are denied because of it: a rule has `fallback = "block"`.
    pub(crate) blocks: bool,
}

impl StoreLimits {
    /// Stores that are down, in the order of the file.
    pub(crate) fn down(&self) -> Vec<StoreDown> {
        let stores = self.stores.iter().map(|(at, store)| (at, store.health()));
        let down = stores.filter(|(_, health)| *health != Health::Up);
        let down = down.map(|(at, health)| {
            let mut rules = self.rules.values().filter(|rule| rule.store.is_reached_like(at));
            let blocks = rules.any(|rule| rule.denies_without_store());
            StoreDown { store: at.to_string(), health, blocks }
        });
        down.collect()
    }
}

/// Asks every server every second, for ever. One that is gone is noticed without a request, and so is
/// one that is back.
pub(crate) async fn watch(stores: impl Fn() -> Arc<StoreLimits>) {
    let mut ticks = tokio::time::interval(PING_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let stores = stores();
        let pings = stores.stores.iter().map(|(_, store)| store.clone());
        // What came of it is known by the store's health.
        let pings: JoinSet<_> = pings.map(|store| async move { store.ping().await }).collect();
        pings.join_all().await;
    }
}
