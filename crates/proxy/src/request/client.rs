//! Who sent a request.

use std::net::{IpAddr, SocketAddr};

use http::request::Parts;
use tollgate_http::key::{ClientIp, Extractor, IpPrefix, Trust};

/// Who sent a request; an extension of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client {
    /// The other end of the connection.
    pub(crate) peer: IpAddr,
    /// Whom rules count: the peer, or whom trusted proxies name. `None` where one of them writes
    /// what is no address.
    pub(crate) address: Option<IpAddr>,
    /// The peer is a trusted proxy, and named a client.
    pub(crate) is_behind_trusted: bool,
}

/// How the client is found.
#[derive(Debug)]
pub(crate) struct ClientFinder(Option<ClientIp>);

impl ClientFinder {
    pub(crate) fn new(trust: Option<Trust>) -> Self {
        // The rules say how much of an address counts.
        let whole = IpPrefix::new(32, 128);
        Self(trust.map(|trust| ClientIp::x_forwarded_for(trust).prefix(whole)))
    }

    /// Finds the client, and leaves it with the request.
    pub(crate) fn mark(&self, request: &mut Parts, peer: SocketAddr) -> Client {
        let address = peer.ip().to_canonical();
        let mut client = Client { peer: address, address: Some(address), is_behind_trusted: false };
        if let Some(finder) = &self.0 {
            request.extensions.insert(peer);
            client.address = finder.extract(request).ok();
            client.is_behind_trusted = client.address.is_some_and(|found| found != address);
        }
        request.extensions.insert(client);
        client
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(trust: Option<Trust>, forwarded: &str) -> (Option<IpAddr>, bool) {
        let request = http::Request::builder().header("x-forwarded-for", forwarded);
        let (mut parts, ()) = request.body(()).expect("a request").into_parts();
        let peer = SocketAddr::from(([10, 0, 0, 1], 4_000));
        let client = ClientFinder::new(trust).mark(&mut parts, peer);
        (client.address, client.is_behind_trusted)
    }

    #[test]
    fn only_trusted_proxies_name_clients() {
        let named = Some(IpAddr::from([192, 0, 2, 7]));
        let peer = Some(IpAddr::from([10, 0, 0, 1]));
        let near = Trust::networks(["10.0.0.0/8"]).expect("a network");
        let far = Trust::networks(["172.16.0.0/12"]).expect("a network");
        assert_eq!(found(None, "192.0.2.7"), (peer, false));
        assert_eq!(found(Some(far), "192.0.2.7"), (peer, false));
        assert_eq!(found(Some(near.clone()), "1.1.1.1, 192.0.2.7"), (named, true));
        assert_eq!(found(Some(Trust::hops(1)), "1.1.1.1, 192.0.2.7"), (named, true));
        assert_eq!(found(Some(near), "192.0.2.7, what"), (None, false));
    }
}
