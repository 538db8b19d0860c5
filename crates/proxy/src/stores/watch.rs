//! Pings the stores, so that their health is known without requests.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use tollgate_redis::Health;

use super::registry::StoreLimits;

/// How often each store is pinged.
const PING_INTERVAL: Duration = Duration::from_secs(1);

/// A store that is down.
#[derive(Debug)]
pub(crate) struct StoreDown {
    /// Its URL, without user and password.
    pub(crate) store: String,
    pub(crate) health: Health,
    /// Whether a rule denies requests because of it.
    pub(crate) denies_requests: bool,
}

impl StoreLimits {
    /// The stores that are down, in the order of the file.
    pub(crate) fn down(&self) -> Vec<StoreDown> {
        let stores = self.stores.iter().map(|(at, store)| (at, store.health()));
        let down = stores.filter(|(_, health)| *health != Health::Up);
        let down = down.map(|(at, health)| {
            let mut rules =
                self.rules.values().filter(|rule| rule.store.shares_connections_with(at));
            let denies_requests = rules.any(|rule| rule.denies_without_store());
            StoreDown { store: at.to_string(), health, denies_requests }
        });
        down.collect()
    }
}

/// Pings each store every second, forever. So a store that goes down or comes back is noticed without a
/// request.
pub(crate) async fn watch(stores: impl Fn() -> Arc<StoreLimits>) {
    let mut ticks = tokio::time::interval(PING_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let stores = stores();
        let pings = stores.stores.iter().map(|(_, store)| store.clone());
        // The result is visible in the health of the store.
        let pings: JoinSet<_> = pings.map(|store| async move { store.ping().await }).collect();
        pings.join_all().await;
    }
}
