//! Finds the client of a request.

use std::net::{IpAddr, SocketAddr};

use http::request::Parts;
use tollgate_http::key::{ClientIp, Extractor, IpPrefix, Trust};

/// The client of a request; an extension of the request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client {
    /// The other end of the TCP connection.
    pub(crate) peer: IpAddr,
    /// The address that rules count: that of the peer, or the one that trusted proxies name. `None` if a
    /// trusted proxy names something that is not an address.
    pub(crate) address: Option<IpAddr>,
    /// Whether the peer is a trusted proxy, whichever client it names.
    pub(super) is_behind_trusted: bool,
}

/// Finds the client by the peer or by `X-Forwarded-For`.
#[derive(Debug)]
pub(crate) struct ClientFinder(Option<(Trust, ClientIp)>);

impl ClientFinder {
    pub(crate) fn new(trust: Option<Trust>) -> Self {
        // The rules choose the prefix of the address.
        let whole = IpPrefix::new(32, 128);
        Self(trust.map(|trust| (trust.clone(), ClientIp::x_forwarded_for(trust).prefix(whole))))
    }

    /// Finds the client, and stores it as an extension of the request.
    pub(crate) fn mark(&self, request: &mut Parts, peer: SocketAddr) -> Client {
        let address = peer.ip().to_canonical();
        let mut client = Client { peer: address, address: Some(address), is_behind_trusted: false };
        if let Some((trust, finder)) = &self.0 {
            request.extensions.insert(peer);
            client.address = finder.extract(request).ok();
            client.is_behind_trusted = trust.trusts(address);
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
        assert_eq!(found(Some(near), "192.0.2.7, what"), (None, true));
    }

    /// A health check, for example, comes from the proxy itself.
    #[test]
    fn a_trusted_proxy_is_trusted_also_if_it_names_no_other_client() {
        let peer = Some(IpAddr::from([10, 0, 0, 1]));
        let near = Trust::networks(["10.0.0.0/8"]).expect("a network");
        for trust in [near, Trust::hops(1)] {
            for forwarded in ["", "10.0.0.1"] {
                assert_eq!(found(Some(trust.clone()), forwarded), (peer, true), "{trust:?}");
            }
        }
    }
}
