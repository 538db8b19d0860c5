//! Pings the stores, so that their health is known without requests.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::{AbortHandle, JoinSet};
use tokio::time::MissedTickBehavior;
use tollgate_redis::{Health, Unavailable};

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
            let denies_requests = self.denying.iter().any(|its| its.shares_connections_with(at));
            StoreDown { store: at.to_string(), health, denies_requests }
        });
        down.collect()
    }
}

/// Pings each store every second, forever. So a store that goes down or comes back is noticed without a
/// request. A store whose last ping has not ended is left out, and delays no other.
pub(crate) async fn watch(stores: impl Fn() -> Arc<StoreLimits>) {
    watch_every(PING_INTERVAL, stores).await;
}

async fn watch_every(interval: Duration, stores: impl Fn() -> Arc<StoreLimits>) {
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut pings = JoinSet::new();
    let mut in_flight: Vec<(tollgate_rules::Store, AbortHandle)> = Vec::new();
    loop {
        ticks.tick().await;
        // The result is visible in the health of the store.
        while let Some(ended) = pings.try_join_next() {
            let _: Result<(), Unavailable> = ended.expect("no ping panics");
        }
        in_flight.retain(|(_, ping)| !ping.is_finished());
        for (at, store) in &stores().stores {
            if in_flight.iter().any(|(pinged, _)| pinged.shares_connections_with(at)) {
                continue;
            }
            let store = store.clone();
            in_flight.push((at.clone(), pings.spawn(async move { store.ping().await })));
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;
    use tokio::time::timeout;
    use tollgate_rules::Rules;

    use super::*;

    /// Whether a rule denies requests because of each store that is down.
    fn denies(limits: &StoreLimits) -> Vec<bool> {
        limits.down().iter().map(|down| down.denies_requests).collect()
    }

    #[tokio::test]
    async fn a_rule_in_shadow_denies_no_request_while_its_store_is_down() {
        // No server listens at this address.
        let text = "[[rule]]\nname = \"a\"\nlimits = \"9/min\"\nshadow = true\n\
                    store = { url = \"redis://127.0.0.1:1\", fallback = \"deny\" }\n";
        let built = |text: &str, before: &StoreLimits| {
            let rules = Rules::parse("rules.toml", text).expect("rules");
            StoreLimits::new(rules.rules().iter(), before).expect("they can be kept")
        };
        let in_shadow = built(text, &StoreLimits::default());
        while in_shadow.down().is_empty() {
            in_shadow.stores[0].1.ping().await.expect_err("no server");
        }
        assert_eq!(denies(&in_shadow), [false]);
        let enforced = built(&text.replace("shadow = true\n", ""), &in_shadow);
        assert!(Arc::ptr_eq(&in_shadow.rules["a"], &enforced.rules["a"]), "its limits are kept");
        assert_eq!(denies(&enforced), [true]);
        assert_eq!(denies(&built(text, &enforced)), [false]);
    }

    #[tokio::test]
    async fn a_store_that_does_not_answer_delays_no_ping_of_another() {
        let silent = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let closes = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let rule = |name: &str, listener: &TcpListener, deadline: &str| {
            let at = listener.local_addr().expect("it is bound");
            format!(
                "[[rule]]\nname = \"{name}\"\nlimits = \"9/min\"\n\
                 store = {{ url = \"redis://{at}\", deadline = \"{deadline}\" }}\n"
            )
        };
        let text = [rule("a", &silent, "60 s"), rule("b", &closes, "1 s")].concat();
        let rules = Rules::parse("rules.toml", &text).expect("rules");
        let limits = StoreLimits::new(rules.rules().iter(), &StoreLimits::default());
        let limits = Arc::new(limits.expect("they can be kept"));
        let watching =
            tokio::spawn(watch_every(Duration::from_millis(10), move || Arc::clone(&limits)));
        let (_unanswered, _) = silent.accept().await.expect("a ping");
        // Each ping finds that its connection is closed, and the next one connects again.
        for ping in 1..=4 {
            let accepted = timeout(Duration::from_secs(10), closes.accept()).await;
            drop(accepted.unwrap_or_else(|_| panic!("ping {ping} does not come")));
        }
        let again = timeout(Duration::from_millis(50), silent.accept()).await;
        assert!(again.is_err(), "its first ping has not ended");
        watching.abort();
    }
}
