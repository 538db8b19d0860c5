//! Rewrites headers for the next hop: removes those of the connection, and adds those that name the
//! client.

use std::net::IpAddr;

use http::header::{
    CONNECTION, CONTENT_LENGTH, COOKIE, EXPECT, Entry, HOST, HeaderMap, HeaderName, HeaderValue,
    PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE, VIA,
};
use http::{Uri, Version};

use super::client::Client;
use super::values;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
/// Headers that belong to one connection.
const HOP_BY_HOP: [HeaderName; 8] = [
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRANSFER_ENCODING,
    UPGRADE,
    CONNECTION,
];
/// Headers that a client cannot remove by naming them in `Connection`.
const KEPT: [&str; 8] = [
    "content-length",
    "forwarded",
    "host",
    "trailer",
    "via",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
];

/// Removes the headers of the connection, and those that `Connection` names.
fn remove_hop_by_hop(headers: &mut HeaderMap) {
    remove_named_by_connection(headers);
    for name in &HOP_BY_HOP {
        headers.remove(name);
    }
}

/// Removes the headers that `Connection` names (RFC 9110, 7.6.1), so that the rules see the headers that the
/// upstream receives. The headers of the connection itself stay: `Upgrade`, `TE` and the framing of the body are read
/// later.
pub(crate) fn remove_named_by_connection(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = words(headers, CONNECTION)
        .filter_map(|name| HeaderName::from_bytes(name).ok())
        .filter(|name| !KEPT.contains(&name.as_str()) && !HOP_BY_HOP.contains(name))
        .collect();
    for name in &named {
        headers.remove(name);
    }
}

/// Removes the client's fields whose name has another character than letters, digits and hyphens, before the rules see
/// them. CGI, WSGI and others read `X_Api_Key`, and PHP also `X.Api.Key`, as `X-Api-Key`, and would then take what no
/// rule has seen, or a `X_Forwarded_For` for the line that the proxy writes. nginx removes the same names by default.
pub(crate) fn remove_ambiguous_names(fields: &mut HeaderMap) {
    let is_clear = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let ambiguous: Vec<HeaderName> =
        fields.keys().filter(|name| !name.as_str().bytes().all(is_clear)).cloned().collect();
    for name in &ambiguous {
        fields.remove(name);
    }
}

/// Removes what trailers must not have: the fields of the connection, the length, and the host (RFC 9110, 6.5.1), and
/// white space around values. In HTTP/2, a recipient takes a message with such a field for malformed.
pub(crate) fn clean_trailers(trailers: &mut HeaderMap) {
    for name in HOP_BY_HOP.iter().chain(&[CONTENT_LENGTH, HOST, TRAILER]) {
        trailers.remove(name);
    }
    values::trim(trailers);
}

/// The host of a request: the target's if it has one, else the value of `Host`.
pub(crate) fn requested_host<'a>(target: &'a Uri, headers: &'a HeaderMap) -> Option<&'a str> {
    let of_target = target.authority().map(|authority| authority.as_str());
    of_target.or_else(|| headers.get(HOST)?.to_str().ok())
}

/// Rewrites a client's headers for the upstream. Unless `preserve_host` is set, `Host` is removed: the
/// HTTP client then adds the upstream's own, or its `:authority` in HTTP/2.
pub(crate) fn to_upstream(
    headers: &mut HeaderMap,
    client: &Client,
    asked: &Uri,
    version: Version,
    preserve_host: bool,
) {
    let takes_trailers = takes_trailers(headers);
    remove_hop_by_hop(headers);
    if takes_trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
    // hyper answers `100 Continue` itself when the body is first read.
    headers.remove(EXPECT);
    join_cookies(headers);

    let requested_host =
        requested_host(asked, headers).and_then(|host| HeaderValue::from_str(host).ok());
    add_peer(headers, client.peer);
    // The client's own value is kept only if the client is a trusted proxy.
    let set =
        |headers: &mut HeaderMap, name: HeaderName, value: HeaderValue| match headers.entry(name) {
            Entry::Occupied(_) if client.is_behind_trusted => {}
            Entry::Occupied(mut entry) => drop(entry.insert(value)),
            Entry::Vacant(entry) => drop(entry.insert(value)),
        };
    match &requested_host {
        Some(value) => set(headers, X_FORWARDED_HOST, value.clone()),
        None if client.is_behind_trusted => {}
        None => drop(headers.remove(X_FORWARDED_HOST)),
    }
    set(headers, X_FORWARDED_PROTO, HeaderValue::from_static("http"));
    match requested_host {
        Some(value) if preserve_host => drop(headers.insert(HOST, value)),
        _ => drop(headers.remove(HOST)),
    }
    headers.append(VIA, via(version));
}

/// Adds the address of the peer to `X-Forwarded-For`, as one line: some servers read only the first, and that could be
/// the client's own.
fn add_peer(headers: &mut HeaderMap, peer: IpAddr) {
    let peer = peer.to_string();
    let lines = headers.get_all(X_FORWARDED_FOR).iter().map(HeaderValue::as_bytes);
    let lines = lines.filter(|line| !line.trim_ascii().is_empty());
    let lines: Vec<_> = lines.chain([peer.as_bytes()]).collect();
    let line = HeaderValue::from_bytes(&lines.join(&b", "[..]));
    headers.insert(X_FORWARDED_FOR, line.expect("it consists of values and an address"));
}

/// Sets `Connection` for HTTP/1.1: it names `TE` and `Upgrade` if they are present.
pub(crate) fn name_connection_options(headers: &mut HeaderMap) {
    let options = match (headers.contains_key(TE), headers.contains_key(UPGRADE)) {
        (false, false) => return,
        (true, false) => "te",
        (false, true) => "upgrade",
        (true, true) => "te, upgrade",
    };
    headers.insert(CONNECTION, HeaderValue::from_static(options));
}

/// The words of a header whose value is a list.
pub(crate) fn words(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &[u8]> {
    let values = headers.get_all(name).into_iter();
    let words = values.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    words.map(<[u8]>::trim_ascii).filter(|word| !word.is_empty())
}

/// Whether the client accepts trailers. Each hop must forward that; gRPC requires it.
fn takes_trailers(headers: &HeaderMap) -> bool {
    words(headers, TE).any(|word| word.eq_ignore_ascii_case(b"trailers"))
}

/// Rewrites the upstream's headers for the client.
pub(crate) fn to_client(headers: &mut HeaderMap, version: Version) {
    remove_hop_by_hop(headers);
    // In HTTP/1, hyper has done so.
    if version == Version::HTTP_2 {
        values::trim(headers);
    }
    headers.append(VIA, via(version));
}

/// The `Via` entry for a message received in this version.
fn via(version: Version) -> HeaderValue {
    HeaderValue::from_static(match version {
        Version::HTTP_09 | Version::HTTP_10 => "1.0 tollgate",
        Version::HTTP_2 => "2 tollgate",
        _ => "1.1 tollgate",
    })
}

/// Joins cookies: HTTP/2 may have several lines, HTTP/1.1 has one.
fn join_cookies(headers: &mut HeaderMap) {
    if headers.get_all(COOKIE).iter().nth(1).is_none() {
        return;
    }
    let cookies: Vec<_> = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if let Ok(one) = HeaderValue::from_bytes(&cookies.join(&b"; "[..])) {
        headers.insert(COOKIE, one);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let line = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        lines.iter().map(line).collect()
    }

    fn sent(
        lines: &[(&'static str, &'static str)],
        is_behind_trusted: bool,
        preserve_host: bool,
    ) -> Vec<String> {
        let mut headers = map(lines);
        let peer = [192, 0, 2, 7].into();
        let client = Client { peer, address: Some(peer), is_behind_trusted };
        let asked = Uri::from_static("/x");
        to_upstream(&mut headers, &client, &asked, Version::HTTP_11, preserve_host);
        let line = |(name, value): (&HeaderName, &HeaderValue)| {
            format!("{name}: {}", value.to_str().expect("ASCII"))
        };
        let mut lines: Vec<_> = headers.iter().map(line).collect();
        lines.sort();
        lines
    }

    #[test]
    fn headers_of_the_connection_are_removed() {
        let mut headers = map(&[
            ("connection", "close, X-Private"),
            ("connection", "content-length,,x-forwarded-for, bad name"),
            ("x-private", "1"),
            ("x-public", "1"),
            ("keep-alive", "timeout=5"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "websocket"),
            ("proxy-authorization", "Basic eA=="),
            ("proxy-connection", "keep-alive"),
            ("content-length", "3"),
            ("x-forwarded-for", "192.0.2.1"),
        ]);
        remove_hop_by_hop(&mut headers);
        let mut left: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["content-length", "x-forwarded-for", "x-public"]);
    }

    #[test]
    fn rules_see_no_header_that_connection_names() {
        let mut headers = map(&[
            ("connection", "Authorization, upgrade, te, transfer-encoding, host"),
            ("connection", "x-api-key"),
            ("authorization", "Bearer a"),
            ("x-api-key", "a"),
            ("x-api-key", "b"),
            ("host", "a.example"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "websocket"),
        ]);
        remove_named_by_connection(&mut headers);
        let mut left: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["connection", "host", "te", "transfer-encoding", "upgrade"]);
    }

    #[test]
    fn only_names_of_letters_digits_and_hyphens_are_clear() {
        let names = ["x-a1", "x_a", "x.a", "x-a_b", "_", "x~a", "-", "9", "x+a", "content_length"];
        let mut fields = map(&names.map(|name| (name, "1")));
        fields.append("x_a", HeaderValue::from_static("2"));
        remove_ambiguous_names(&mut fields);
        let mut left: Vec<_> = fields.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["-", "9", "x-a1"]);
    }

    #[test]
    fn the_upstream_receives_client_host_and_protocol() {
        let expected = [
            "cookie: a=1; b=2",
            "host: a.example",
            "te: trailers",
            "via: 1.1 tollgate",
            "x-forwarded-for: 192.0.2.7",
            "x-forwarded-host: a.example",
            "x-forwarded-proto: http",
        ];
        let lines = [("host", "a.example"), ("cookie", "a=1"), ("cookie", "b=2"), ("expect", "x")];
        let lines = [&lines[..], &[("te", "gzip, Trailers"), ("connection", "te")]].concat();
        assert_eq!(sent(&lines, false, true), expected);
        assert!(!sent(&lines, false, false).iter().any(|line| line.starts_with("host")));
    }

    #[test]
    fn only_trusted_proxies_set_forwarded_host_and_protocol() {
        let lines = [
            ("host", "a.example"),
            ("x-forwarded-for", "192.0.2.1"),
            ("x-forwarded-host", "b.example"),
            ("x-forwarded-proto", "https"),
        ];
        let [fors, own_host, own_proto] = [
            "x-forwarded-for: 192.0.2.1, 192.0.2.7",
            "x-forwarded-host: a.example",
            "x-forwarded-proto: http",
        ];
        let expected = ["via: 1.1 tollgate", fors, own_host, own_proto];
        assert_eq!(sent(&lines, false, false).join("\n"), expected.join("\n"));
        let kept = ["x-forwarded-host: b.example", "x-forwarded-proto: https"];
        let expected = [&["via: 1.1 tollgate", fors], &kept[..]].concat();
        assert_eq!(sent(&lines, true, false).join("\n"), expected.join("\n"));
    }

    /// A server that reads only the first line would read what the client has sent.
    #[test]
    fn the_upstream_receives_one_line_of_addresses() {
        let lines = ["192.0.2.1", "", "192.0.2.2,192.0.2.3"].map(|line| ("x-forwarded-for", line));
        let expected = "x-forwarded-for: 192.0.2.1, 192.0.2.2,192.0.2.3, 192.0.2.7";
        for is_behind_trusted in [false, true] {
            let sent = sent(&lines, is_behind_trusted, false);
            let lines: Vec<_> = sent.iter().filter(|line| line.starts_with("x-f")).collect();
            assert_eq!(lines, [expected, "x-forwarded-proto: http"]);
        }
    }

    #[test]
    fn connection_names_te_and_upgrade_if_present() {
        for (lines, expected) in [
            (&[("x", "1")][..], None),
            (&[("te", "trailers")], Some("te")),
            (&[("upgrade", "websocket")], Some("upgrade")),
            (&[("te", "trailers"), ("upgrade", "websocket")], Some("te, upgrade")),
        ] {
            let mut headers = map(lines);
            name_connection_options(&mut headers);
            assert_eq!(
                headers.get(CONNECTION).map(HeaderValue::as_bytes),
                expected.map(str::as_bytes)
            );
        }
    }

    #[test]
    fn the_host_of_the_target_takes_precedence() {
        let headers = map(&[("host", "a.example")]);
        assert_eq!(requested_host(&Uri::from_static("/x"), &headers), Some("a.example"));
        assert_eq!(requested_host(&Uri::from_static("http://b/x"), &headers), Some("b"));
        assert_eq!(requested_host(&Uri::from_static("/x"), &HeaderMap::new()), None);
    }
}
