//! The value that a key part reads from a request, as bytes and as text.
//!
//! [`Value::pass`] normalises a value once, for both forms: [`AsBytes`] and [`AsText`]. Two values have the same
//! bytes if and only if they have the same text. A property in `tests.rs` checks this.

use std::net::{IpAddr, Ipv6Addr};

use super::KeyBytes;
use crate::request::host;
use crate::request::named::{self, CookieValue};
use crate::request::path::{self, Segments, Spelling};

/// The most bytes of a value, but for a path. A key is hashed by each limit of its rule, and with `bytes` several times
/// for each piece of the body, so a client that sends hundreds of kilobytes would pay less for them than the limiter.
/// Tokens of a login may have a few kilobytes, and few servers read a header of more than eight.
const BYTES_MAX: usize = 8_192;

/// The kinds of a host: an address of 16 bytes is not the name of these bytes.
const HOST_NAME: u8 = 0;
const HOST_ADDRESS: u8 = 1;

/// The value that a key part reads from a request, normalised: all spellings of one thing are one value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value<'v> {
    /// An address, of which only the bits that count are set.
    Address(IpAddr),
    /// Bytes that are compared as the client sent them.
    Bytes(&'v [u8]),
    Cookie(CookieValue<'v>),
    /// A value of the query, still encoded.
    Parameter(&'v str),
    /// A method, which is compared in any case.
    Method(&'v str),
    /// A name that is compared in any case.
    HostName(&'v str),
    HostAddress(Ipv6Addr),
    /// A path without its query.
    Path(&'v str, Spelling),
}

impl<'v> Value<'v> {
    /// An IPv4 address counts as a whole, also where it comes mapped into IPv6. Of any other IPv6
    /// address, the bits of the prefix count.
    pub(super) fn address(address: IpAddr, ipv6_prefix: u8) -> Self {
        Self::Address(match address.to_canonical() {
            four @ IpAddr::V4(_) => four,
            IpAddr::V6(six) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(ipv6_prefix)).unwrap_or(0);
                IpAddr::V6((six.to_bits() & mask).into())
            }
        })
    }

    /// A host without its port; `None` if nothing is left.
    pub(super) fn host(host: &'v str) -> Option<Self> {
        let name = host::bare_host(host);
        let value = host::in_brackets(name).map_or(Self::HostName(name), Self::HostAddress);
        (!name.is_empty()).then_some(value)
    }

    /// Whether the value has more than [`BYTES_MAX`] bytes. An encoded one is measured decoded: otherwise a client
    /// could lengthen a value by its spelling until it counts as missing.
    pub(super) fn is_too_long(&self) -> bool {
        match self {
            // A server bounds the target of a request; with the `http` crate, to 65,534 bytes.
            Self::Address(_) | Self::HostAddress(_) | Self::Path(..) => false,
            Self::Bytes(bytes) => bytes.len() > BYTES_MAX,
            Self::Cookie(value) => {
                value.bytes.len() > BYTES_MAX && value.decoded().nth(BYTES_MAX).is_some()
            }
            Self::Parameter(text) => {
                text.len() > BYTES_MAX && named::decoded(text).nth(BYTES_MAX).is_some()
            }
            Self::Method(text) | Self::HostName(text) => text.len() > BYTES_MAX,
        }
    }

    /// Appends the value. Each piece has its length before it, and a host its kind, so that no two lists of values
    /// have the same bytes.
    pub(super) fn write(self, out: &mut KeyBytes) {
        self.pass(&mut AsBytes(out));
    }

    /// The value for people. `address` formats the client's address. Where a client chooses the bytes, those
    /// that are no UTF-8 are written as `%XX`, and so is `%`.
    pub(super) fn text(self, address: &impl Fn(IpAddr) -> String) -> String {
        let mut text = AsText { out: String::new(), address };
        self.pass(&mut text);
        text.out
    }

    /// Passes what counts of the value to one of its forms.
    fn pass(self, out: &mut impl Output) {
        match self {
            Self::Address(its) => out.address(its),
            Self::Bytes(bytes) => out.sent(bytes),
            Self::Cookie(value) => out.decoded(value.decoded()),
            Self::Parameter(text) => out.decoded(named::decoded(text)),
            Self::Method(method) => {
                out.decoded(method.bytes().map(|byte| byte.to_ascii_uppercase()))
            }
            Self::HostName(name) => {
                out.host_name(name.bytes().map(|byte| byte.to_ascii_lowercase()))
            }
            Self::HostAddress(six) => out.host_address(six),
            Self::Path(path, spelling) => {
                let mut segments = Segments::new("");
                path::split_for_keys(path, spelling, &mut segments);
                out.begin_path(segments.as_slice().len());
                for segment in segments.as_slice() {
                    out.segment(path::decoded(segment).map(|byte| spelling.folded(byte)));
                }
            }
        }
    }
}

/// One of the forms of a value, as it is written piece by piece.
trait Output {
    fn address(&mut self, address: IpAddr);
    /// Bytes as the client sent them.
    fn sent(&mut self, bytes: &[u8]);
    /// Bytes that the client chose, normalised.
    fn decoded(&mut self, bytes: impl Iterator<Item = u8> + Clone);
    /// A name in lower case.
    fn host_name(&mut self, bytes: impl Iterator<Item = u8> + Clone);
    fn host_address(&mut self, address: Ipv6Addr);
    /// A path of so many segments.
    fn begin_path(&mut self, segments: usize);
    fn segment(&mut self, bytes: impl Iterator<Item = u8> + Clone);
}

/// The bytes of a key.
struct AsBytes<'o>(&'o mut KeyBytes);

impl Output for AsBytes<'_> {
    fn address(&mut self, address: IpAddr) {
        match address {
            IpAddr::V4(four) => self.sent(&four.octets()),
            IpAddr::V6(six) => self.sent(&six.octets()),
        }
    }

    fn sent(&mut self, bytes: &[u8]) {
        write_count(bytes.len(), self.0);
        self.0.extend(bytes);
    }

    fn decoded(&mut self, bytes: impl Iterator<Item = u8> + Clone) {
        write_count(bytes.clone().count(), self.0);
        bytes.for_each(|byte| self.0.push(byte));
    }

    fn host_name(&mut self, bytes: impl Iterator<Item = u8> + Clone) {
        self.0.push(HOST_NAME);
        self.decoded(bytes);
    }

    fn host_address(&mut self, address: Ipv6Addr) {
        self.0.push(HOST_ADDRESS);
        self.0.extend(&address.octets());
    }

    fn begin_path(&mut self, segments: usize) {
        write_count(segments, self.0);
    }

    fn segment(&mut self, bytes: impl Iterator<Item = u8> + Clone) {
        self.decoded(bytes);
    }
}

/// A value for people.
struct AsText<'a, A> {
    out: String,
    address: &'a A,
}

impl<A: Fn(IpAddr) -> String> Output for AsText<'_, A> {
    fn address(&mut self, address: IpAddr) {
        self.out += &(self.address)(address);
    }

    fn sent(&mut self, bytes: &[u8]) {
        self.out += &escape(bytes, &['%']);
    }

    fn decoded(&mut self, bytes: impl Iterator<Item = u8> + Clone) {
        self.sent(&bytes.collect::<Vec<_>>());
    }

    fn host_name(&mut self, bytes: impl Iterator<Item = u8> + Clone) {
        self.out += &escape(&bytes.collect::<Vec<_>>(), &[]);
    }

    fn host_address(&mut self, address: Ipv6Addr) {
        self.out += &format!("[{address}]");
    }

    fn begin_path(&mut self, segments: usize) {
        if segments == 0 {
            self.out.push('/');
        }
    }

    fn segment(&mut self, bytes: impl Iterator<Item = u8> + Clone) {
        self.out.push('/');
        self.out += &escape(&bytes.collect::<Vec<_>>(), &['%', '/', '\0']);
    }
}

/// The bytes as text, in which bytes that are no UTF-8 and these characters of ASCII are written as `%XX`.
fn escape(bytes: &[u8], ascii: &[char]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for its in chunk.valid().chars() {
            if ascii.contains(&its) {
                text.push_str(&format!("%{:02X}", u32::from(its)));
            } else {
                text.push(its);
            }
        }
        chunk.invalid().iter().for_each(|byte| text.push_str(&format!("%{byte:02X}")));
    }
    text
}

fn write_count(count: usize, out: &mut KeyBytes) {
    // No value in memory is longer. If one were, its bytes would still tell it apart.
    out.extend(&u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes());
}
