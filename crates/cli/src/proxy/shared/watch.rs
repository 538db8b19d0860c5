//! Whether the servers are there, also while no request asks them.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use tollgate_redis::Health;

use super::Shared;
use crate::proxy::rules::RulesGate;

/// How often each server is asked for a sign of life.
const PING_INTERVAL: Duration = Duration::from_secs(1);

/// A store that is down.
#[derive(Debug)]
pub(in crate::proxy) struct Down {
    /// Its URL, without user and password.
    pub(in crate::proxy) store: String,
    pub(in crate::proxy) health: Health,
    /// Requests are denied because of it: a rule has `fallback = "deny"`.
    pub(in crate::proxy) blocks: bool,
}

impl Shared {
    /// Stores that are down, in the order of the file.
    pub(in crate::proxy) fn down(&self) -> Vec<Down> {
        let stores = self.stores.iter().map(|(at, store)| (at, store.health()));
        let down = stores.filter(|(_, health)| *health != Health::Up);
        let down = down.map(|(at, health)| {
            let mut rules =
                self.rules.values().filter(|rule| rule.store.shares_connections_with(at));
            let blocks = rules.any(|rule| rule.denies_without_store());
            Down { store: at.to_string(), health, blocks }
        });
        down.collect()
    }
}

/// Asks every server every second, for ever. One that is gone is noticed without a request, and so is
/// one that is back.
pub(in crate::proxy) async fn watch(gate: Arc<RulesGate>) {
    let mut ticks = tokio::time::interval(PING_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let stores = gate.shared();
        let pings = stores.stores.iter().map(|(_, store)| store.clone());
        // What came of it is known by the store's health.
        let pings: JoinSet<_> = pings.map(|store| async move { store.ping().await }).collect();
        pings.join_all().await;
    }
}
