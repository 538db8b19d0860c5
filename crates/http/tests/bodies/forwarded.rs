//! The headers of proxies, of any bytes and with any trust, compared with a simple reference.

use std::net::{IpAddr, SocketAddr};

use http::Request;
use http::header::{HeaderName, HeaderValue};
use http::request::Parts;
use tollgate_http::KeyError;
use tollgate_http::key::{ClientIp, Extractor, IpPrefix, Trust};

use super::cursor::Cursor;
use super::mistake::{Mistake, planted};

/// The crate reads no more than this; the reference has no bounds.
const BYTES_MAX: usize = 4_096;
const ENTRIES_MAX: usize = 64;
const NETWORKS: [&str; 3] = ["10.0.0.0/8", "127.0.0.1", "2001:db8::/32"];

/// The trusted proxies, for the crate and for the reference.
#[derive(Clone, Copy)]
enum Trusted {
    Hops(usize),
    Networks,
}

impl Trusted {
    fn for_crate(self) -> Trust {
        match self {
            Self::Hops(count) => Trust::hops(count),
            Self::Networks => Trust::networks(NETWORKS).expect("networks"),
        }
    }

    fn covers(self, hop: usize, node_address: Option<IpAddr>) -> bool {
        match self {
            Self::Hops(count) => hop < count,
            Self::Networks => node_address.is_some_and(|address| match address {
                IpAddr::V4(v4) => v4.octets()[0] == 10 || v4.octets() == [127, 0, 0, 1],
                IpAddr::V6(v6) => v6.segments()[..2] == [0x2001, 0xdb8],
            }),
        }
    }
}

/// For any content of the header, the key is the address that the reference finds, or absent if it finds
/// none. The header of an untrusted peer has no effect, and the entries of proxies have one.
pub(crate) fn forwarded(data: &[u8]) {
    let mut cursor = Cursor::new(data);
    let kind = cursor.byte();
    let trusted = if kind & 1 > 0 { Trusted::Networks } else { Trusted::Hops((kind >> 4).into()) };
    let peer = if kind & 2 > 0 { [10, 0, 0, 1].into() } else { cursor.address() };
    let client = cursor.address();
    let lines: Vec<&[u8]> = cursor.rest().split(|byte| *byte == b'\n').collect();
    for is_list in [true, false] {
        let name = if is_list { "x-forwarded-for" } else { "forwarded" };
        let is_stranger = !trusted.covers(0, Some(peer.to_canonical()));
        let found = found(is_list, trusted, is_stranger, request(peer, name, &lines));
        if let Ok(address) = found {
            assert_eq!(IpPrefix::default().of(address), address);
        }
        if is_stranger {
            assert_eq!(found, Ok(IpPrefix::default().of(peer)));
        }
        assert_ne!(found, Err(KeyError::Unavailable));
        if is_list && is_bounded(&lines) {
            assert_eq!(found.ok(), reference(&lines, trusted, peer), "{lines:?}");
        }
        an_appended_entry_is_the_client(is_list, &lines, client);
        empty_elements_change_nothing(is_list, trusted, peer, &lines);
    }
}

/// The key, changed by the planted fault.
fn found(
    is_list: bool,
    trusted: Trusted,
    is_stranger: bool,
    mut request: Parts,
) -> Result<IpAddr, KeyError> {
    let mut trust = trusted.for_crate();
    if planted(Mistake::AllTrusted) && is_list && !is_stranger {
        trust = Trust::hops(ENTRIES_MAX);
    }
    if planted(Mistake::StrangerBelieved) && !is_list && is_stranger {
        trust = Trust::hops(1);
    }
    if planted(Mistake::PeerLost) && !is_list && !is_stranger {
        request.extensions.clear();
    }
    let mut key = key(is_list, trust);
    if planted(Mistake::PrefixLeftOut) && !is_list && !is_stranger {
        key = key.prefix(IpPrefix::new(32, 128));
    }
    key.extract(&request)
}

fn key(is_list: bool, trust: Trust) -> ClientIp {
    if is_list { ClientIp::x_forwarded_for(trust) } else { ClientIp::forwarded(trust) }
}

fn request(peer: IpAddr, name: &'static str, lines: &[&[u8]]) -> Parts {
    let (mut request, ()) = Request::new(()).into_parts();
    request.extensions.insert(SocketAddr::new(peer, 4711));
    for line in lines.iter().filter_map(|line| HeaderValue::from_bytes(line).ok()) {
        request.headers.append(HeaderName::from_static(name), line);
    }
    request
}

/// A trusted proxy appends the client to the last line that is a valid header value.
fn an_appended_entry_is_the_client(is_list: bool, lines: &[&[u8]], client: IpAddr) {
    let (name, entry) = match (is_list, client) {
        (true, client) => ("x-forwarded-for", client.to_string()),
        (false, IpAddr::V4(v4)) => ("forwarded", format!("proto=https;for={v4}")),
        (false, IpAddr::V6(v6)) => ("forwarded", format!("for=\"[{v6}]:4711\";by=\"a,\\\"b\"")),
    };
    let sendable = |line: &&&[u8]| HeaderValue::from_bytes(line).is_ok();
    let last = lines.iter().rev().find(sendable).copied().unwrap_or_default();
    let mut line = [last, b", ", entry.as_bytes()].concat();
    if planted(Mistake::EntryLost) {
        line = last.to_vec();
    }
    let request = request([10, 0, 0, 1].into(), name, &[lines, &[&line]].concat());
    let found = key(is_list, Trust::hops(1)).extract(&request);
    assert_eq!(found, Ok(IpPrefix::default().of(client)), "{}", line.escape_ascii());
}

/// Empty elements between the others change nothing. Those within quotes make no text an address, since no address
/// has a comma.
fn empty_elements_change_nothing(is_list: bool, trusted: Trusted, peer: IpAddr, lines: &[&[u8]]) {
    let name = if is_list { "x-forwarded-for" } else { "forwarded" };
    let commas: &[u8] = if planted(Mistake::EmptyCounted) { b", _a," } else { b", ,\t," };
    let pad = |line: &&[u8]| line.split(|byte| *byte == b',').collect::<Vec<_>>().join(commas);
    let padded: Vec<Vec<u8>> = lines.iter().map(pad).collect();
    let padded: Vec<&[u8]> = padded.iter().map(Vec::as_slice).collect();
    if padded.iter().map(|line| line.len()).sum::<usize>() < BYTES_MAX {
        let found = |lines| key(is_list, trusted.for_crate()).extract(&request(peer, name, lines));
        assert_eq!(found(&padded), found(lines), "{lines:?}");
    }
}

fn is_bounded(lines: &[&[u8]]) -> bool {
    let bytes: usize = lines.iter().map(|line| line.len()).sum();
    let commas = lines.iter().flat_map(|line| line.iter()).filter(|byte| **byte == b',').count();
    bytes < BYTES_MAX && lines.len() + commas < ENTRIES_MAX
}

/// The reference: splits the lists at all commas and goes through the entries from the right, without empty ones.
fn reference(lines: &[&[u8]], trusted: Trusted, peer: IpAddr) -> Option<IpAddr> {
    let sent: Vec<&[u8]> =
        lines.iter().copied().filter(|line| HeaderValue::from_bytes(line).is_ok()).collect();
    let mut node_address = Some(peer.to_canonical());
    let mut hop = 0;
    for line in sent.iter().rev() {
        let entries = line.split(|byte| *byte == b',').rev();
        for entry in entries.filter(|entry| !entry.iter().all(|byte| b" \t".contains(byte))) {
            if !trusted.covers(hop, node_address) {
                return node_address.map(|address| IpPrefix::default().of(address));
            }
            node_address = node(&String::from_utf8_lossy(entry))?;
            hop += 1;
        }
    }
    node_address.map(|address| IpPrefix::default().of(address))
}

/// An address; `Some(None)` if it is hidden, and `None` if it is malformed.
fn node(text: &str) -> Option<Option<IpAddr>> {
    let text = text.trim_matches([' ', '\t']);
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(Some(address.to_canonical()));
    }
    let is_name = |text: &str| {
        let rest = text.strip_prefix('_').filter(|rest| !rest.is_empty());
        rest.is_some_and(|rest| {
            rest.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
        })
    };
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some(split) => split,
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    let is_port = port.is_empty()
        || port.strip_prefix(':').is_some_and(|port| {
            let is_number = port.chars().all(|c| c.is_ascii_digit());
            is_name(port) || (is_number && (1..=5).contains(&port.len()))
        });
    if !is_port {
        return None;
    }
    if text.starts_with('[') {
        return host.parse().ok().map(|v6: std::net::Ipv6Addr| Some(v6.to_canonical()));
    }
    match host.parse::<std::net::Ipv4Addr>() {
        Ok(v4) => Some(Some(v4.into())),
        Err(_) => (is_name(host) || host.eq_ignore_ascii_case("unknown")).then_some(None),
    }
}
