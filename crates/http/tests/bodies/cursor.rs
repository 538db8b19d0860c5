//! A cursor over the bytes of an input.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The bytes that are not read yet.
pub(super) struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| self.byte())
    }

    /// A number of one byte, of two, or of eight.
    pub(super) fn number(&mut self) -> u64 {
        match self.byte() % 4 {
            0 => self.byte().into(),
            1 => u16::from_le_bytes(self.bytes()).into(),
            2 => u64::MAX - u64::from(self.byte()),
            _ => u64::from_le_bytes(self.bytes()),
        }
    }

    pub(super) fn address(&mut self) -> IpAddr {
        match self.byte() % 3 {
            0 => Ipv4Addr::from(self.bytes::<4>()).into(),
            1 => Ipv4Addr::from(self.bytes::<4>()).to_ipv6_mapped().into(),
            _ => Ipv6Addr::from(self.bytes::<16>()).into(),
        }
    }

    /// At most `bytes` bytes; fewer if the input ends.
    pub(super) fn take(&mut self, bytes: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(bytes.min(self.0.len()));
        self.0 = rest;
        taken
    }

    pub(super) fn rest(self) -> &'a [u8] {
        self.0
    }
}
