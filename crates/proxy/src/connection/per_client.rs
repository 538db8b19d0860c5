//! Bounds the open connections of each client address, and its requests in flight.

#![allow(clippy::disallowed_types, reason = "a lock for each connection, not for each request")]

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tollgate_http::key::Trust;

/// Bits of an IPv6 address that the client chooses freely: providers assign a /64.
const IPV6_OWN_BITS: u32 = 64;

/// The bounds of each client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PerClientMax {
    /// Open connections; 0 means no bound on these and on requests.
    pub(crate) connections: u32,
    /// Requests that may be in flight: one of each connection, and further ones of HTTP/2 connections. At least
    /// `connections`.
    pub(crate) requests: u32,
}

/// Counts connections by the address of the peer. An IPv6 /64 counts as one client.
#[derive(Debug)]
pub(crate) struct PerClient {
    max: PerClientMax,
    /// Trusted proxies, each of which has connections of many clients.
    exempt: Option<Trust>,
    open: Mutex<HashMap<IpAddr, Client>>,
}

/// The open connections of a client, and its requests in flight.
#[derive(Debug, Default)]
struct Client {
    connections: u32,
    requests: Arc<Requests>,
}

/// The requests that a client may have in flight: one of each connection, and further ones of HTTP/2 connections.
#[derive(Debug, Default)]
struct Requests(AtomicU32);

impl Requests {
    /// Counts one more, unless there are `max`.
    fn begin(&self, max: u32) -> bool {
        let one_more = |count| if count < max { Some(count + 1) } else { None };
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok()
    }

    fn end(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl PerClient {
    /// At most `max` per address, except for trusted proxies.
    pub(crate) fn new(max: PerClientMax, exempt: Option<Trust>) -> Arc<Self> {
        Arc::new(Self { max, exempt, open: Mutex::default() })
    }

    /// Counts a connection until the returned slot is dropped; `None` if the address has too many.
    pub(crate) fn acquire(self: &Arc<Self>, peer: IpAddr) -> Option<PerClientSlot> {
        let peer = peer.to_canonical();
        if self.max.connections == 0 || self.exempt.as_ref().is_some_and(|trust| trust.trusts(peer))
        {
            return Some(PerClientSlot(None));
        }
        let address = client(peer);
        let mut open = self.open();
        let client = open.entry(address).or_default();
        if client.connections >= self.max.connections || !client.requests.begin(self.max.requests) {
            return None;
        }
        client.connections += 1;
        let requests = Arc::clone(&client.requests);
        drop(open);
        Some(PerClientSlot(Some(Held { clients: Arc::clone(self), address, requests })))
    }

    fn open(&self) -> MutexGuard<'_, HashMap<IpAddr, Client>> {
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
pub(crate) struct PerClientSlot(Option<Held>);

#[derive(Debug)]
struct Held {
    clients: Arc<PerClient>,
    address: IpAddr,
    requests: Arc<Requests>,
}

impl PerClientSlot {
    /// Counts a request in flight until the returned slot is dropped. The connection counts as long: the body of a
    /// request may be forwarded after the connection has closed. A request that is not a further one of its connection
    /// has the connection's place. `None` if the client has too many.
    pub(super) fn acquire_request(self: &Arc<Self>, is_further: bool) -> Option<RequestSlot> {
        let counts = self.0.as_ref().filter(|_| is_further);
        let has_room = counts.is_none_or(|held| held.requests.begin(held.clients.max.requests));
        has_room.then(|| RequestSlot { connection: Arc::clone(self), is_further })
    }
}

impl Drop for PerClientSlot {
    fn drop(&mut self) {
        let Some(Held { clients, address, requests }) = self.0.take() else { return };
        requests.end();
        let mut open = clients.open();
        if let Some(client) = open.get_mut(&address) {
            client.connections -= 1;
            if client.connections == 0 {
                open.remove(&address);
            }
        }
    }
}

/// The slot of a request, and that of its connection.
#[derive(Debug)]
pub(crate) struct RequestSlot {
    connection: Arc<PerClientSlot>,
    is_further: bool,
}

impl Drop for RequestSlot {
    fn drop(&mut self) {
        if let Some(held) = self.connection.0.as_ref().filter(|_| self.is_further) {
            held.requests.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    fn at_most(connections: u32, requests: u32) -> PerClientMax {
        PerClientMax { connections, requests }
    }

    #[test]
    fn each_address_has_its_own_bound() {
        let counts = PerClient::new(at_most(2, 2), None);
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
        let counts = PerClient::new(at_most(1, 1), None);
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
            let counts = PerClient::new(at_most(max, max), exempt);
            let held = Arc::new(counts.acquire(proxy).expect("room"));
            assert_eq!(counts.acquire(proxy).is_some(), is_free);
            assert_eq!(held.acquire_request(true).is_some(), is_free);
        }
    }

    #[test]
    fn connections_and_further_requests_of_an_address_have_one_bound() {
        let counts = PerClient::new(at_most(2, 3), None);
        let [one, other] = ["192.0.2.1", "192.0.2.2"].map(address);
        let first = Arc::new(counts.acquire(one).expect("room"));
        let further = [(); 2].map(|()| first.acquire_request(true).expect("room"));
        assert!(first.acquire_request(true).is_none() && counts.acquire(one).is_none());
        assert!(counts.acquire(other).is_some());
        drop(further);
        let second = Arc::new(counts.acquire(one).expect("room"));
        let third = second.acquire_request(true).expect("room");
        assert!(first.acquire_request(true).is_none());
        drop((second, third));
        assert!(first.acquire_request(true).is_some());
    }

    #[test]
    fn a_connection_that_has_closed_counts_until_the_last_of_its_requests_has_ended() {
        for is_further in [false, true] {
            let counts = PerClient::new(at_most(1, 2), None);
            let one = address("192.0.2.1");
            let connection = Arc::new(counts.acquire(one).expect("room"));
            let request = connection.acquire_request(is_further).expect("room");
            drop(connection);
            assert!(counts.acquire(one).is_none());
            drop(request);
            assert!(counts.open().is_empty());
        }
    }
}
