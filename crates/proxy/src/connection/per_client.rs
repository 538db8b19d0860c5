//! Bounds the open connections of each client address.

#![allow(clippy::disallowed_types, reason = "a lock for each connection, not for each request")]

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tollgate_http::key::Trust;

/// Bits of an IPv6 address that the client chooses freely: providers assign a /64.
const IPV6_OWN_BITS: u32 = 64;

/// Counts connections by the address of the peer. An IPv6 /64 counts as one client.
#[derive(Debug)]
pub(crate) struct PerClient {
    max: u32,
    /// Trusted proxies, each of which has connections of many clients.
    exempt: Option<Trust>,
    open: Mutex<HashMap<IpAddr, u32>>,
}

impl PerClient {
    /// At most `max` connections per address, except for trusted proxies; 0 means no bound.
    pub(crate) fn new(max: u32, exempt: Option<Trust>) -> Arc<Self> {
        Arc::new(Self { max, exempt, open: Mutex::default() })
    }

    /// Counts a connection until the returned slot is dropped; `None` if the address has too many.
    pub(crate) fn acquire(self: &Arc<Self>, peer: IpAddr) -> Option<PerClientSlot> {
        let peer = peer.to_canonical();
        if self.max == 0 || self.exempt.as_ref().is_some_and(|trust| trust.trusts(peer)) {
            return Some(PerClientSlot(None));
        }
        let client = client(peer);
        let mut open = self.open();
        let count = open.entry(client).or_default();
        if *count >= self.max {
            return None;
        }
        *count += 1;
        drop(open);
        Some(PerClientSlot(Some((Arc::clone(self), client))))
    }

    fn open(&self) -> MutexGuard<'_, HashMap<IpAddr, u32>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn client(peer: IpAddr) -> IpAddr {
    match peer {
        IpAddr::V4(_) => peer,
        IpAddr::V6(v6) => {
            let network = v6.to_bits() >> IPV6_OWN_BITS << IPV6_OWN_BITS;
            IpAddr::V6(Ipv6Addr::from_bits(network))
        }
    }
}

/// The slot of a connection; empty if the connection is exempt.
#[derive(Debug)]
pub(crate) struct PerClientSlot(Option<(Arc<PerClient>, IpAddr)>);

impl Drop for PerClientSlot {
    fn drop(&mut self) {
        let Some((counts, client)) = self.0.take() else { return };
        let mut open = counts.open();
        if let Some(count) = open.get_mut(&client) {
            *count -= 1;
            if *count == 0 {
                open.remove(&client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn each_address_has_its_own_bound() {
        let counts = PerClient::new(2, None);
        let [one, other] = ["192.0.2.1", "192.0.2.2"].map(address);
        let held = [one, one, other].map(|peer| counts.acquire(peer).expect("room"));
        assert!(counts.acquire(one).is_none());
        assert!(
            counts.acquire(address("::ffff:192.0.2.1")).is_none(),
            "the same address, written as IPv6"
        );
        drop(held);
        assert!(counts.open().is_empty(), "addresses without connections are forgotten");
        assert!(counts.acquire(one).is_some());
    }

    #[test]
    fn an_ipv6_64_is_one_client() {
        let counts = PerClient::new(1, None);
        let _held = counts.acquire(address("2001:db8::1")).expect("room");
        assert!(counts.acquire(address("2001:db8::ffff:0:0:2")).is_none());
        assert!(counts.acquire(address("2001:db8:0:1::1")).is_some());
    }

    #[test]
    fn trusted_proxies_are_exempt_and_zero_means_no_bound() {
        let near = Trust::networks(["10.0.0.0/8"]).expect("a network");
        let proxy = address("10.0.0.1");
        for (max, exempt, is_free) in [
            (1, Some(near), true),
            (1, Some(Trust::hops(1)), true),
            (1, Some(Trust::hops(0)), false),
            (1, None, false),
            (0, None, true),
        ] {
            let counts = PerClient::new(max, exempt);
            let _held = counts.acquire(proxy).expect("room");
            assert_eq!(counts.acquire(proxy).is_some(), is_free);
        }
    }
}
