//! Networks of clients, and sets of them.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// How many networks of a set are shown in plain words.
const SHOWN: usize = 4;

/// A network: the addresses that begin with the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Network {
    /// All bits after the prefix are zero. It is never an IPv4 address that is mapped into IPv6.
    address: IpAddr,
    /// 0 to 32, or to 128 for IPv6.
    bits: u8,
}

/// A mistake in a network: its byte offset, and what to write instead.
type NetworkMistake = (usize, String);

impl Network {
    /// `10.0.0.0/8`, or an address alone.
    pub(crate) fn parse(text: &str) -> Result<Self, NetworkMistake> {
        const NEEDED: &str = "not a network: write one such as \"10.0.0.0/8\" or \
                              \"2001:db8::/32\", or an address such as \"192.0.2.7\"";
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| (0, NEEDED.to_owned()))?;
        let (kind, max) = if address.is_ipv4() { ("IPv4", 32) } else { ("IPv6", 128) };
        let bits = match bits {
            None => max,
            Some(bits) => {
                let is_number = !bits.is_empty() && bits.bytes().all(|its| its.is_ascii_digit());
                let number = bits.parse().ok().filter(|bits| is_number && *bits <= max);
                let after_slash = text.len() - bits.len();
                let advice = format!("a prefix of {kind} has 0 to {max} bits");
                number.ok_or((after_slash, advice))?
            }
        };
        let network = Self { address: masked(address, bits), bits };
        if network.address != address {
            let advice = format!(
                "the address has bits beyond its prefix: write \"{network}\" for the network, or \
                 \"{address}\" for this address alone"
            );
            return Err((0, advice));
        }
        match network.unmapped() {
            Some(four) => {
                let advice = "an IPv4 address counts as IPv4, also where it comes mapped into IPv6";
                Err((0, format!("{advice}: write \"{four}\"")))
            }
            None => Ok(network),
        }
    }

    /// The IPv4 network that this one maps into IPv6, if it does.
    fn unmapped(self) -> Option<Self> {
        match self.address.to_canonical() {
            address @ IpAddr::V4(_) if self.address.is_ipv6() => {
                Some(Self { address, bits: self.bits.checked_sub(96)? })
            }
            _ => None,
        }
    }
}

/// The address, with only its first `bits` bits.
pub(crate) fn masked(address: IpAddr, bits: u8) -> IpAddr {
    let rest = |width: u8| u32::from(width.saturating_sub(bits));
    match address {
        IpAddr::V4(four) => {
            let mask = u32::MAX.checked_shl(rest(32)).unwrap_or(0);
            Ipv4Addr::from_bits(four.to_bits() & mask).into()
        }
        IpAddr::V6(six) => {
            let mask = u128::MAX.checked_shl(rest(128)).unwrap_or(0);
            Ipv6Addr::from_bits(six.to_bits() & mask).into()
        }
    }
}

/// `10.0.0.0/8`; an address alone has no prefix.
impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, bits } = self;
        match (address, bits) {
            (IpAddr::V4(_), 32) | (IpAddr::V6(_), 128) => address.fmt(f),
            _ => write!(f, "{address}/{bits}"),
        }
    }
}

/// A set of networks. An address is looked up by binary search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Networks {
    /// As the file has them.
    networks: Vec<Network>,
    /// The first and the last address of each, in order. Networks within others are left out, so the ranges
    /// are disjoint.
    four: Vec<(u32, u32)>,
    six: Vec<(u128, u128)>,
}

impl Networks {
    pub(crate) fn new(networks: Vec<Network>) -> Self {
        let mut set = Self { networks, four: Vec::new(), six: Vec::new() };
        // A network comes before those within it.
        let mut sorted = set.networks.clone();
        sorted.sort_unstable();
        for Network { address, bits } in sorted {
            match address {
                IpAddr::V4(four) => {
                    let first = four.to_bits();
                    let rest = u32::MAX.checked_shr(bits.into()).unwrap_or(0);
                    add(&mut set.four, (first, first | rest));
                }
                IpAddr::V6(six) => {
                    let first = six.to_bits();
                    let rest = u128::MAX.checked_shr(bits.into()).unwrap_or(0);
                    add(&mut set.six, (first, first | rest));
                }
            }
        }
        set
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.networks.is_empty()
    }

    /// The address and the length of each.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (IpAddr, u8)> {
        self.networks.iter().map(|its| (its.address, its.bits))
    }

    /// Whether an address is in one of the networks. An IPv4 address must not be mapped into IPv6.
    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(four) => holds(&self.four, four.to_bits()),
            IpAddr::V6(six) => holds(&self.six, six.to_bits()),
        }
    }
}

impl Networks {
    /// Whether every client in the other networks is in these. No network at all means any client.
    pub(crate) fn includes(&self, other: &Self) -> bool {
        if self.is_empty() || other.is_empty() {
            return self.is_empty();
        }
        other.four.iter().all(|range| holds_range(&self.four, *range))
            && other.six.iter().all(|range| holds_range(&self.six, *range))
    }
}

/// Adds a range, unless it is within the last one.
fn add<T: Ord>(ranges: &mut Vec<(T, T)>, range: (T, T)) {
    if ranges.last().is_none_or(|(_, last)| range.0 > *last) {
        ranges.push(range);
    }
}

fn holds<T: Ord + Copy>(ranges: &[(T, T)], address: T) -> bool {
    holds_range(ranges, (address, address))
}

/// Whether one of the ranges holds another range.
fn holds_range<T: Ord + Copy>(ranges: &[(T, T)], (begin, end): (T, T)) -> bool {
    let after = ranges.partition_point(|(first, _)| *first <= begin);
    after.checked_sub(1).is_some_and(|at| end <= ranges[at].1)
}

impl fmt::Display for Networks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (shown, rest) = self.networks.split_at(self.networks.len().min(SHOWN));
        f.write_str(&super::listed(shown))?;
        if rest.is_empty() { Ok(()) } else { write!(f, " or {} more", rest.len()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn networks(texts: &[&str]) -> Networks {
        Networks::new(texts.iter().map(|text| Network::parse(text).expect("one")).collect())
    }

    #[test]
    fn an_address_is_in_a_set_if_it_has_the_prefix_of_a_network() {
        let set = networks(&["10.0.0.0/8", "10.1.0.0/16", "192.0.2.7", "2001:db8::/32", "::1"]);
        for (address, is_in) in [
            ("10.0.0.0", true),
            ("10.255.255.255", true),
            ("10.1.2.3", true),
            ("9.255.255.255", false),
            ("11.0.0.0", false),
            ("192.0.2.7", true),
            ("192.0.2.6", false),
            ("192.0.2.8", false),
            ("2001:db8::", true),
            ("2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", true),
            ("2001:db9::", false),
            ("2001:db7:ffff::", false),
            ("::1", true),
            ("::", false),
        ] {
            assert_eq!(set.contains(address.parse().expect("an address")), is_in, "{address}");
        }
        for (all, other) in [("0.0.0.0/0", "::/0"), ("::/0", "0.0.0.0/0")] {
            let of = |text: &str| Network::parse(text).expect("one").address;
            assert!(networks(&[all]).contains(of(all)) && !networks(&[all]).contains(of(other)));
        }
    }

    #[test]
    fn a_long_set_is_shown_in_part() {
        let five = ["10.0.0.0/8", "::1", "1.1.1.1", "2.2.2.2", "3.3.3.3"];
        let four = "10.0.0.0/8 or ::1 or 1.1.1.1 or 2.2.2.2";
        assert_eq!(networks(&five[..4]).to_string(), four);
        assert_eq!(networks(&five).to_string(), format!("{four} or 1 more"));
    }

    fn any_network() -> impl Strategy<Value = Network> {
        let four = (0..4_u32, 0..=32_u8).prop_map(|(bits, prefix)| {
            (IpAddr::from(Ipv4Addr::from_bits(bits.rotate_right(2) | bits)), prefix)
        });
        let six = (0..4_u128, 0..=128_u8).prop_map(|(bits, prefix)| {
            (IpAddr::from(Ipv6Addr::from_bits(bits.rotate_right(2) | bits)), prefix)
        });
        let network = |(address, bits)| Network { address: masked(address, bits), bits };
        prop_oneof![four, six].prop_map(network)
    }

    proptest! {
        #[test]
        fn a_set_contains_what_its_networks_contain_and_is_written_as_it_is_read(
            list in prop::collection::vec(any_network(), 0..8), near in any_network(),
        ) {
            let is_in = |its: &Network| masked(near.address, its.bits) == its.address
                && near.address.is_ipv4() == its.address.is_ipv4();
            prop_assert_eq!(Networks::new(list.clone()).contains(near.address), list.iter().any(is_in));
            let read = Network::parse(&near.to_string());
            prop_assert!(read == Ok(near) || near.unmapped().is_some());
        }
    }
}
