//! Hosts, split once for all rules.

use std::net::Ipv6Addr;

use super::path::Segments;

/// A host without user info, port, and final dot.
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

/// The address in brackets, if the host is one.
pub(crate) fn in_brackets(host: &str) -> Option<Ipv6Addr> {
    host.strip_prefix('[')?.strip_suffix(']')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_host_has_no_port_user_info_or_final_dot() {
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
