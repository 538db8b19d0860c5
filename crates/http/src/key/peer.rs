//! Addresses, and the address of the peer.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use http::Extensions;
use http::request::Parts;

use super::{Extractor, KeyError};

/// How many bits of an address count.
///
/// An IPv4 address written as IPv6 (`::ffff:192.0.2.7`) counts as the IPv4 address. By default, all bits
/// of an IPv4 address count, and the first 64 of an IPv6 address, because a customer of a provider has
/// at least a /64 to choose from.
///
/// ```
/// use tollgate_http::key::IpPrefix;
///
/// let prefix = IpPrefix::default();
/// assert_eq!(prefix.of("2001:db8::1".parse()?), "2001:db8::".parse::<std::net::IpAddr>()?);
/// assert_eq!(prefix.of("::ffff:192.0.2.7".parse()?), "192.0.2.7".parse::<std::net::IpAddr>()?);
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpPrefix {
    v4_mask: u32,
    v6_mask: u128,
}

impl Default for IpPrefix {
    fn default() -> Self {
        Self::new(32, 64)
    }
}

impl IpPrefix {
    /// The first `v4_bits` of an IPv4 address, and `v6_bits` of an IPv6 address. More than 32 or 128
    /// mean all bits.
    ///
    /// ```
    /// # use tollgate_http::key::IpPrefix;
    /// let prefix = IpPrefix::new(24, 56);
    /// assert_eq!(prefix.of("192.0.2.7".parse()?).to_string(), "192.0.2.0");
    /// assert_eq!(prefix.of("2001:db8:0:1ff::1".parse()?).to_string(), "2001:db8:0:100::");
    /// # Ok::<(), std::net::AddrParseError>(())
    /// ```
    #[must_use]
    pub fn new(v4_bits: u8, v6_bits: u8) -> Self {
        let v4_rest = 32_u32.saturating_sub(v4_bits.into());
        let v6_rest = 128_u32.saturating_sub(v6_bits.into());
        Self {
            v4_mask: u32::MAX.checked_shl(v4_rest).unwrap_or(0),
            v6_mask: u128::MAX.checked_shl(v6_rest).unwrap_or(0),
        }
    }

    /// The bits of `address` that count; the other bits are zero.
    ///
    /// ```
    /// # use tollgate_http::key::IpPrefix;
    /// assert_eq!(IpPrefix::new(0, 0).of("192.0.2.7".parse()?).to_string(), "0.0.0.0");
    /// # Ok::<(), std::net::AddrParseError>(())
    /// ```
    #[must_use]
    pub fn of(&self, address: IpAddr) -> IpAddr {
        match address.to_canonical() {
            IpAddr::V4(v4) => Ipv4Addr::from_bits(v4.to_bits() & self.v4_mask).into(),
            IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & self.v6_mask).into(),
        }
    }
}

/// The address of the peer: the other end of the connection.
///
/// It is the address that [`LayerBuilder::peer`](crate::LayerBuilder::peer) finds. Without one it is read from
/// the request's extensions: axum's `ConnectInfo<SocketAddr>` (feature `axum`), or else a [`SocketAddr`] that
/// the server puts there. Without any, the key is [unavailable](KeyError::Unavailable), and the response is
/// 500 with the remedy: serve with `into_make_service_with_connect_info::<SocketAddr>()`. Headers are not
/// read: behind a proxy, use [`ClientIp`](super::ClientIp).
///
/// ```
/// use std::net::SocketAddr;
/// use tollgate_http::key::{Extractor, PeerIp};
///
/// let mut request = http::Request::new(());
/// request.extensions_mut().insert("[2001:db8::1]:4711".parse::<SocketAddr>()?);
/// let (request, ()) = request.into_parts();
/// assert_eq!(PeerIp::new().extract(&request)?.to_string(), "2001:db8::");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct PeerIp {
    prefix: IpPrefix,
}

impl PeerIp {
    /// IPv4 addresses, and IPv6 networks of 64 bits.
    ///
    /// ```
    /// let key = tollgate_http::key::PeerIp::new();
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How many bits of the address count.
    ///
    /// ```
    /// use tollgate_http::key::{IpPrefix, PeerIp};
    /// let key = PeerIp::new().prefix(IpPrefix::new(32, 48));
    /// ```
    #[must_use]
    pub fn prefix(self, prefix: IpPrefix) -> Self {
        Self { prefix }
    }
}

impl Extractor for PeerIp {
    type Key = IpAddr;

    fn extract(&self, request: &Parts) -> Result<IpAddr, KeyError> {
        peer(request).map(|address| self.prefix.of(address)).ok_or(KeyError::Unavailable)
    }
}

/// The peer's address. An IPv4 address written as IPv6 is returned as IPv4.
pub(super) fn peer(request: &Parts) -> Option<IpAddr> {
    let extensions = &request.extensions;
    #[cfg(feature = "axum")]
    let given = extensions.get::<FoundPeer>().map(|found| found.0).or_else(|| {
        let info = extensions.get::<axum::extract::ConnectInfo<SocketAddr>>();
        info.map(|info| info.0)
    });
    #[cfg(not(feature = "axum"))]
    let given = None;
    let address = given.or_else(|| extensions.get::<SocketAddr>().copied());
    address.map(|address| address.ip().to_canonical())
}

/// The address that the layer's function has found. It comes before axum's `ConnectInfo`, which stays as
/// handlers expect it.
#[cfg(feature = "axum")]
#[derive(Clone, Copy)]
struct FoundPeer(SocketAddr);

/// Puts the address that the layer's function has found where keys read it.
pub(crate) fn place_peer(extensions: &mut Extensions, address: SocketAddr) {
    extensions.insert(address);
    #[cfg(feature = "axum")]
    extensions.insert(FoundPeer(address));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prefix_of_the_peers_address_is_the_key() {
        let of = |key: PeerIp, address: &str| {
            let mut request = http::Request::new(()).into_parts().0;
            request.extensions.insert(address.parse::<SocketAddr>().expect("an address"));
            key.extract(&request).map(|its| its.to_string())
        };
        let usual = PeerIp::new();
        assert_eq!(of(usual, "[2001:db8:1:2:3::4]:80").as_deref(), Ok("2001:db8:1:2::"));
        assert_eq!(of(usual, "[::ffff:192.0.2.7]:80").as_deref(), Ok("192.0.2.7"));
        let wide = PeerIp::new().prefix(IpPrefix::new(24, 48));
        assert_eq!(of(wide, "[2001:db8:1:2:3::4]:80").as_deref(), Ok("2001:db8:1::"));
        assert_eq!(of(wide, "192.0.2.7:80").as_deref(), Ok("192.0.2.0"));
        let without = http::Request::new(()).into_parts().0;
        assert_eq!(usual.extract(&without), Err(KeyError::Unavailable));
    }
}
