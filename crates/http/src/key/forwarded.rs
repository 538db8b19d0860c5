//! The client's address behind proxies.

use core::fmt;
use core::net::IpAddr;

use http::header::{FORWARDED, HeaderName, HeaderValue};
use http::request::Parts;
use ipnet::IpNet;

use super::node::{Node, forwarded_node, node, split_last};
use super::peer::peer;
use super::{Extractor, IpPrefix, KeyError};

/// How many bytes of a header are read at most, from its end.
const BYTES_MAX: usize = 4_096;
/// How many entries of a header are read at most, from its end.
const ENTRIES_MAX: usize = 64;

/// The proxies that are trusted.
///
/// ```
/// use tollgate_http::key::Trust;
/// let trust = Trust::networks(["10.0.0.0/8", "192.0.2.1", "2001:db8::/32"])?;
/// # Ok::<(), tollgate_http::key::ParseNetworkError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trust(Trusted);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Trusted {
    Hops(usize),
    Networks(Box<[IpNet]>),
}

impl Trust {
    /// Trusts the last `count` hops; the peer is the first of them. The client is the node that connected
    /// to the outermost proxy: the entry at this position from the right. If a request came through fewer
    /// hops, the client is the furthest known node. With a `count` of 0, headers are not read.
    ///
    /// **Not guaranteed.** A client that can reach the server past the proxies can choose any address. If
    /// that is possible, use [`networks`](Self::networks).
    ///
    /// ```
    /// let behind_one_proxy = tollgate_http::key::Trust::hops(1);
    /// ```
    #[must_use]
    pub fn hops(count: usize) -> Self {
        Self(Trusted::Hops(count.min(ENTRIES_MAX)))
    }

    /// Trusts every node with an address in one of `networks`, each an address or a prefix
    /// (`10.0.0.0/8`). The client is the first node that is not trusted, beginning with the peer and
    /// then from the right. If all are trusted, it is the furthest.
    ///
    /// # Errors
    ///
    /// A text is neither an address nor a prefix.
    ///
    /// ```
    /// # use tollgate_http::key::Trust;
    /// assert_eq!(Trust::networks(["10.0.0.0/33"]).unwrap_err().to_string(),
    ///     "`10.0.0.0/33` is neither an address nor a prefix such as `10.0.0.0/8`");
    /// ```
    pub fn networks<I>(networks: I) -> Result<Self, ParseNetworkError>
    where
        I: IntoIterator<Item: AsRef<str>>,
    {
        let networks: Result<_, _> =
            networks.into_iter().map(|text| parse_network(text.as_ref())).collect();
        Ok(Self(Trusted::Networks(networks?)))
    }

    /// Whether a peer with this address is a trusted proxy. If hops are counted, every peer is, unless
    /// the count is 0.
    ///
    /// ```
    /// # use tollgate_http::key::Trust;
    /// let trust = Trust::networks(["10.0.0.0/8"])?;
    /// assert!(trust.trusts("10.0.0.1".parse()?) && !trust.trusts("192.0.2.7".parse()?));
    /// assert!(Trust::hops(1).trusts("192.0.2.7".parse()?));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn trusts(&self, peer: IpAddr) -> bool {
        self.covers(Ok(peer.to_canonical()), 0)
    }

    /// Whether the node at `hop` is a trusted proxy. Its address is an error if it is hidden.
    fn covers(&self, node: Result<IpAddr, KeyError>, hop: usize) -> bool {
        match &self.0 {
            Trusted::Hops(count) => hop < *count,
            Trusted::Networks(networks) => {
                node.is_ok_and(|address| networks.iter().any(|net| net.contains(&address)))
            }
        }
    }
}

/// A network of IPv4 addresses written as IPv6 is a network of IPv4.
fn parse_network(text: &str) -> Result<IpNet, ParseNetworkError> {
    let address = || text.parse::<IpAddr>().ok().map(IpNet::from);
    let network: Option<IpNet> = text.parse().ok().or_else(address);
    let network = network.ok_or_else(|| ParseNetworkError(text.into()))?;
    let mapped = match (network.addr().to_canonical(), network.prefix_len().checked_sub(96)) {
        (v4 @ IpAddr::V4(_), Some(bits)) => IpNet::new(v4, bits).ok(),
        _ => None,
    };
    Ok(mapped.unwrap_or(network))
}

/// A text that is neither an address nor a prefix.
///
/// ```
/// use tollgate_http::key::{ParseNetworkError, Trust};
/// let error: ParseNetworkError = Trust::networks(["proxy.example"]).unwrap_err();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseNetworkError(Box<str>);

impl fmt::Display for ParseNetworkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is neither an address nor a prefix such as `10.0.0.0/8`", self.0)
    }
}

impl core::error::Error for ParseNetworkError {}

/// The client's address, as trusted proxies report it.
///
/// **Guarantee.** One header is read, from its right end, and only as long as each hop is trusted.
/// Everything to the left of that, other headers, and headers from an untrusted peer have no effect,
/// whatever they hold. At most 4,096 bytes and 64 entries are read. Empty entries are ignored.
///
/// If a trusted proxy hides the client (`unknown`, `_name`), the key is [missing](KeyError::Missing). (If
/// hops are counted, a hidden proxy in between does not matter.) If an entry is no address, or the header
/// is longer than is read, the key is [malformed](KeyError::Malformed).
///
/// **Not guaranteed.** The proxies must write the header. A proxy that forwards it unchanged lets clients
/// choose their key: name a header that your proxy writes. The same holds for a proxy that appends an empty
/// entry in place of an address.
///
/// ```
/// use std::net::SocketAddr;
/// use tollgate_http::key::{ClientIp, Extractor, Trust};
///
/// let key = ClientIp::x_forwarded_for(Trust::networks(["10.0.0.0/8"])?);
/// let mut request = http::Request::builder()
///     .header("x-forwarded-for", "6.6.6.6, 192.0.2.7, 10.0.0.9") // the first is forged
///     .body(())?;
/// request.extensions_mut().insert("10.0.0.1:80".parse::<SocketAddr>()?);
/// let (request, ()) = request.into_parts();
/// assert_eq!(key.extract(&request)?.to_string(), "192.0.2.7");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ClientIp {
    header: HeaderName,
    syntax: Syntax,
    trust: Trust,
    prefix: IpPrefix,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Syntax {
    /// `for=192.0.2.7;proto=https, for="[2001:db8::1]"`
    Forwarded,
    /// `192.0.2.7, 2001:db8::1`
    Addresses,
}

impl ClientIp {
    /// Reads the `Forwarded` header (RFC 7239).
    ///
    /// ```
    /// use tollgate_http::key::{ClientIp, Trust};
    /// let key = ClientIp::forwarded(Trust::hops(1));
    /// ```
    #[must_use]
    pub fn forwarded(trust: Trust) -> Self {
        Self { header: FORWARDED, syntax: Syntax::Forwarded, trust, prefix: IpPrefix::default() }
    }

    /// Reads the `X-Forwarded-For` header.
    ///
    /// ```
    /// use tollgate_http::key::{ClientIp, Trust};
    /// let key = ClientIp::x_forwarded_for(Trust::hops(2));
    /// ```
    #[must_use]
    pub fn x_forwarded_for(trust: Trust) -> Self {
        Self::addresses(HeaderName::from_static("x-forwarded-for"), trust)
    }

    /// Reads a header of one or more addresses, such as `X-Real-IP` or `CF-Connecting-IP`. The last
    /// address is the nearest.
    ///
    /// ```
    /// use http::HeaderName;
    /// use tollgate_http::key::{ClientIp, Trust};
    /// let key = ClientIp::addresses(HeaderName::from_static("x-real-ip"), Trust::hops(1));
    /// ```
    #[must_use]
    pub fn addresses(header: HeaderName, trust: Trust) -> Self {
        Self { header, syntax: Syntax::Addresses, trust, prefix: IpPrefix::default() }
    }

    /// How many bits of the address count.
    ///
    /// ```
    /// use tollgate_http::key::{ClientIp, IpPrefix, Trust};
    /// let key = ClientIp::forwarded(Trust::hops(1)).prefix(IpPrefix::new(32, 56));
    /// ```
    #[must_use]
    pub fn prefix(self, prefix: IpPrefix) -> Self {
        Self { prefix, ..self }
    }

    fn client(&self, request: &Parts) -> Result<IpAddr, KeyError> {
        let mut client = Ok(peer(request).ok_or(KeyError::Unavailable)?);
        let mut entries = Entries::new(request.headers.get_all(&self.header), self.syntax);
        for hop in 0..=ENTRIES_MAX {
            if !self.trust.covers(client, hop) {
                return client;
            }
            client = match entries.next() {
                None => return client,
                Some(Node::Address(address)) => Ok(address),
                Some(Node::Hidden) => Err(KeyError::Missing),
                Some(Node::Malformed) => return Err(KeyError::Malformed),
            };
        }
        Err(KeyError::Malformed)
    }
}

impl Extractor for ClientIp {
    type Key = IpAddr;

    fn extract(&self, request: &Parts) -> Result<IpAddr, KeyError> {
        self.client(request).map(|address| self.prefix.of(address))
    }
}

/// The entries of a header's lines, from the right.
struct Entries<'a, I> {
    lines: I,
    /// The unread part of the current line.
    rest: Option<&'a [u8]>,
    syntax: Syntax,
    bytes_left: usize,
}

impl<'a, I: DoubleEndedIterator<Item = &'a HeaderValue>> Entries<'a, I> {
    fn new(lines: impl IntoIterator<IntoIter = I>, syntax: Syntax) -> Self {
        Self { lines: lines.into_iter(), rest: None, syntax, bytes_left: BYTES_MAX }
    }

    /// The next entry that is not empty. Proxies write none that is, and from the right a client cannot shift
    /// their entries, so empty ones are ignored (RFC 9110, 5.6.1.2).
    fn next(&mut self) -> Option<Node> {
        loop {
            let line = match self.rest.take() {
                Some(rest) => rest,
                None => self.lines.next_back()?.as_bytes(),
            };
            let Some(entry) = self.split_off(line) else { return Some(Node::Malformed) };
            if !entry.is_empty() {
                return Some(match self.syntax {
                    Syntax::Forwarded => forwarded_node(entry),
                    Syntax::Addresses => node(entry),
                });
            }
        }
    }

    /// Splits the last entry off a line, of which the part to the left is next. `None`: no entry can be told.
    fn split_off(&mut self, line: &'a [u8]) -> Option<&'a [u8]> {
        let cut = line.len().saturating_sub(self.bytes_left);
        let seen = &line[cut..];
        let (left, entry) = split_last(seen, self.syntax == Syntax::Forwarded)?;
        if left.is_none() && cut > 0 {
            return None; // the entry begins before the bytes that are read
        }
        let left_bytes = left.map_or(0, <[u8]>::len);
        self.bytes_left -= seen.len() - left_bytes;
        self.rest = left.map(|_| &line[..cut + left_bytes]);
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use core::net::SocketAddr;

    use super::*;

    #[test]
    fn the_prefix_of_the_clients_address_is_the_key() {
        let of = |key: ClientIp| {
            let mut request = http::Request::new(()).into_parts().0;
            let proxy = SocketAddr::from(([192, 0, 2, 1], 80));
            request.extensions.insert(proxy);
            let client = HeaderValue::from_static("for=\"[2001:db8:1:2:3::4]\"");
            request.headers.insert(FORWARDED, client);
            key.extract(&request).map(|its| its.to_string())
        };
        let usual = ClientIp::forwarded(Trust::hops(1));
        assert_eq!(of(usual.clone()).as_deref(), Ok("2001:db8:1:2::"));
        assert_eq!(of(usual.prefix(IpPrefix::new(24, 48))).as_deref(), Ok("2001:db8:1::"));
    }
}
