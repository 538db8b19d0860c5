//! The value that a key part reads from a request, as bytes and as text.
//!
//! Both forms of a kind of value are in this file, side by side. Two values have the same bytes
//! if and only if they have the same text. A property in `tests.rs` checks this.

use std::net::{IpAddr, Ipv6Addr};

use super::KeyBytes;
use crate::host;
use crate::named::{self, CookieValue};
use crate::path::{self, Segments, Spelling};

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
        match self {
            Self::Address(IpAddr::V4(four)) => write_sized(&four.octets(), out),
            Self::Address(IpAddr::V6(six)) => write_sized(&six.octets(), out),
            Self::Bytes(bytes) => write_sized(bytes, out),
            Self::Cookie(value) => {
                write_count(value.decoded().count(), out);
                value.decoded().for_each(|byte| out.push(byte));
            }
            Self::Parameter(text) => {
                write_count(named::decoded(text).count(), out);
                named::decoded(text).for_each(|byte| out.push(byte));
            }
            Self::Method(method) => {
                write_count(method.len(), out);
                method.bytes().for_each(|byte| out.push(byte.to_ascii_uppercase()));
            }
            Self::HostName(name) => {
                out.push(HOST_NAME);
                write_count(name.len(), out);
                name.bytes().for_each(|byte| out.push(byte.to_ascii_lowercase()));
            }
            Self::HostAddress(six) => {
                out.push(HOST_ADDRESS);
                out.extend(&six.octets());
            }
            Self::Path(path, spelling) => {
                let mut segments = Segments::new("");
                path::split_for_keys(path, spelling, &mut segments);
                write_count(segments.as_slice().len(), out);
                for segment in segments.as_slice() {
                    write_count(path::decoded(segment).count(), out);
                    path::decoded(segment).for_each(|byte| out.push(spelling.folded(byte)));
                }
            }
        }
    }

    /// The value for people. `address` formats the client's address. Where a client chooses the bytes, those
    /// that are no UTF-8 are written as `%XX`, and so is `%`.
    pub(super) fn text(self, address: &impl Fn(IpAddr) -> String) -> String {
        match self {
            Self::Address(its) => address(its),
            Self::Bytes(bytes) => escape(bytes, &['%']),
            Self::Cookie(value) => escape(&value.decoded().collect::<Vec<_>>(), &['%']),
            Self::Parameter(text) => escape(&named::decoded(text).collect::<Vec<_>>(), &['%']),
            Self::Method(method) => escape(method.to_ascii_uppercase().as_bytes(), &['%']),
            Self::HostName(name) => name.to_ascii_lowercase(),
            Self::HostAddress(six) => format!("[{six}]"),
            Self::Path(path, spelling) => {
                let mut segments = Segments::new("");
                path::split_for_keys(path, spelling, &mut segments);
                let decoded = |segment: &&str| {
                    let bytes = path::decoded(segment).map(|byte| spelling.folded(byte));
                    let bytes: Vec<u8> = bytes.collect();
                    format!("/{}", escape(&bytes, &['%', '/', '\0']))
                };
                let whole: String = segments.as_slice().iter().map(decoded).collect();
                if whole.is_empty() { "/".to_owned() } else { whole }
            }
        }
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

fn write_sized(bytes: &[u8], out: &mut KeyBytes) {
    write_count(bytes.len(), out);
    out.extend(bytes);
}
