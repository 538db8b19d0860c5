//! How many connections a client's address has open, up to a bound.

#![allow(clippy::disallowed_types, reason = "a lock for each connection, not for each request")]

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tollgate_http::key::Trust;

/// Bits of an IPv6 address that are the client's choice: it is given a network of this size.
const IPV6_OWN_BITS: u32 = 64;

/// Counts connections by the address of the peer. Of IPv6, a /64 is one client.
#[derive(Debug)]
pub(crate) struct PerClient {
    max: u32,
    /// Proxies in front, each of which brings the connections of many clients.
    exempt: Option<Trust>,
    open: Mutex<HashMap<IpAddr, u32>>,
}

impl PerClient {
    /// At most `max` for each address, but for those of trusted proxies; 0 is no bound.
    pub(crate) fn new(max: u32, exempt: Option<Trust>) -> Arc<Self> {
        Arc::new(Self { max, exempt, open: Mutex::default() })
    }

    /// Counts a connection until what is returned is dropped; `None` if there are too many.
    pub(crate) fn enter(self: &Arc<Self>, peer: IpAddr) -> Option<PerClientSlot> {
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

/// A connection that is counted, if it is.
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
    fn an_address_has_so_many_and_another_one_its_own() {
        let counts = PerClient::new(2, None);
        let [one, other] = ["192.0.2.1", "192.0.2.2"].map(address);
        let held = [one, one, other].map(|peer| counts.enter(peer).expect("room"));
        assert!(counts.enter(one).is_none());
        assert!(counts.enter(address("::ffff:192.0.2.1")).is_none(), "the same, written as IPv6");
        drop(held);
        assert!(counts.open().is_empty(), "nothing is kept of those that are gone");
        assert!(counts.enter(one).is_some());
    }

    #[test]
    fn a_network_of_ipv6_is_one_client() {
        let counts = PerClient::new(1, None);
        let _held = counts.enter(address("2001:db8::1")).expect("room");
        assert!(counts.enter(address("2001:db8::ffff:0:0:2")).is_none());
        assert!(counts.enter(address("2001:db8:0:1::1")).is_some());
    }

    #[test]
    fn trusted_proxies_and_no_bound_are_not_counted() {
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
            let _held = counts.enter(proxy).expect("room");
            assert_eq!(counts.enter(proxy).is_some(), is_free);
        }
    }
}
