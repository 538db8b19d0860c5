//! Hosts, taken apart once for all rules.

use std::net::Ipv6Addr;

use crate::path::Segments;

/// A host without user info, its port, and a dot at its end.
pub(crate) fn bare_host(host: &str) -> &str {
    let host = host.rsplit('@').next().unwrap_or_default();
    let bare = match host.rfind(':') {
        // An IPv6 address in brackets has colons of its own.
        Some(at) if !host[at..].contains(']') => &host[..at],
        _ => host,
    };
    bare.strip_suffix('.').unwrap_or(bare)
}

/// The labels of a host. An IPv6 address in brackets is one.
pub(crate) fn split_host<'h>(host: &'h str, labels: &mut Segments<'h>) {
    let bare = bare_host(host);
    if bare.starts_with('[') {
        return labels.push(bare);
    }
    for label in bare.split('.') {
        labels.push(label);
    }
}

/// The address that stands in brackets.
pub(crate) fn in_brackets(host: &str) -> Option<Ipv6Addr> {
    host.strip_prefix('[')?.strip_suffix(']')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_lose_their_port_and_user_info() {
        for (host, bare) in [
            ("example.com:80", "example.com"),
            ("example.com.:80", "example.com"),
            ("[2001:db8::1]:80", "[2001:db8::1]"),
            ("[2001:db8::1]", "[2001:db8::1]"),
            ("x@example.com", "example.com"),
            ("x:y@z@example.com:80", "example.com"),
            ("x@[2001:db8::1]:80", "[2001:db8::1]"),
            ("", ""),
        ] {
            assert_eq!(bare_host(host), bare, "{host}");
        }
    }
}
