//! A forged header never chooses the key.

use std::net::{IpAddr, SocketAddr};

use http::{HeaderValue, Request};
use proptest::prelude::*;
use tollgate_http::KeyError;
use tollgate_http::key::{ClientIp, Extractor, PeerIp, Trust};

const PROXY: &str = "10.0.0.1";
const STRANGER: &str = "203.0.113.9";

fn extract(
    key: &impl Extractor<Key = IpAddr>,
    peer: &str,
    name: &'static str,
    lines: &[&[u8]],
) -> Result<String, KeyError> {
    let (mut request, ()) = Request::new(()).into_parts();
    let peer: IpAddr = peer.parse().expect("an address");
    request.extensions.insert(SocketAddr::new(peer, 4711));
    for line in lines {
        request.headers.append(name, HeaderValue::from_bytes(line).expect("a value"));
    }
    key.extract(&request).map(|address| address.to_string())
}

fn by_networks() -> Trust {
    Trust::networks(["10.0.0.0/8", "2001:db8:ffff::/48"]).expect("networks")
}

fn xff(trust: Trust, peer: &str, lines: &[&str]) -> Result<String, KeyError> {
    let lines: Vec<_> = lines.iter().map(|line| line.as_bytes()).collect();
    extract(&ClientIp::x_forwarded_for(trust), peer, "x-forwarded-for", &lines)
}

fn forwarded(trust: Trust, peer: &str, lines: &[&str]) -> Result<String, KeyError> {
    let lines: Vec<_> = lines.iter().map(|line| line.as_bytes()).collect();
    extract(&ClientIp::forwarded(trust), peer, "forwarded", &lines)
}

fn is(text: &str) -> Result<String, KeyError> {
    Ok(text.into())
}

#[test]
fn an_untrusted_peer_is_the_client_whatever_it_sends() {
    for line in ["6.6.6.6", "6.6.6.6, 10.0.0.1", "unknown", ";;;\"", ""] {
        assert_eq!(xff(by_networks(), STRANGER, &[line]), is(STRANGER), "{line}");
        assert_eq!(forwarded(by_networks(), STRANGER, &[line]), is(STRANGER), "{line}");
        assert_eq!(xff(Trust::hops(0), STRANGER, &[line]), is(STRANGER), "{line}");
    }
}

#[test]
fn the_first_untrusted_from_the_right_is_the_client() {
    let trust = by_networks;
    assert_eq!(xff(trust(), PROXY, &["192.0.2.7"]), is("192.0.2.7"));
    assert_eq!(xff(trust(), PROXY, &["6.6.6.6, 192.0.2.7, 10.9.9.9"]), is("192.0.2.7"));
    assert_eq!(xff(trust(), PROXY, &["10.0.0.5, 192.0.2.7"]), is("192.0.2.7"));
    assert_eq!(xff(trust(), PROXY, &["6.6.6.6", "192.0.2.7"]), is("192.0.2.7"));
    assert_eq!(xff(trust(), PROXY, &["192.0.2.7:8080"]), is("192.0.2.7"));
    assert_eq!(xff(trust(), PROXY, &["::ffff:192.0.2.7"]), is("192.0.2.7"));
    assert_eq!(xff(trust(), "::ffff:10.0.0.1", &["192.0.2.7"]), is("192.0.2.7"));
    assert_eq!(xff(trust(), PROXY, &["2001:db8:1:2:3:4:5:6"]), is("2001:db8:1:2::"));
    assert_eq!(xff(trust(), "2001:db8:ffff::1", &["192.0.2.7"]), is("192.0.2.7"));
    // If all nodes are proxies, or the header is absent, the client is the furthest known node.
    assert_eq!(xff(trust(), PROXY, &["10.0.0.3, 10.0.0.2"]), is("10.0.0.3"));
    assert_eq!(xff(trust(), PROXY, &[]), is(PROXY));
}

#[test]
fn a_network_of_ipv4_may_be_written_as_ipv6() {
    for network in ["::ffff:10.0.0.0/104", "::ffff:10.0.0.1", "10.0.0.1/32", "::ffff:0:0/96"] {
        let trust = Trust::networks([network]).expect(network);
        assert_eq!(xff(trust.clone(), PROXY, &["192.0.2.7"]), is("192.0.2.7"), "{network}");
        assert_eq!(xff(trust, "2001:db8::1", &["192.0.2.7"]), is("2001:db8::"), "{network}");
    }
    for text in ["", "10.0.0.0/33", "localhost", "10.0.0.0/8/8", "::/129"] {
        assert!(Trust::networks([text]).is_err(), "{text}");
    }
}

#[test]
fn hops_are_counted_from_the_right() {
    let lines = &["6.6.6.6, 192.0.2.7, 198.51.100.1"];
    assert_eq!(xff(Trust::hops(1), PROXY, lines), is("198.51.100.1"));
    assert_eq!(xff(Trust::hops(2), PROXY, lines), is("192.0.2.7"));
    assert_eq!(xff(Trust::hops(2), PROXY, &["192.0.2.7"]), is("192.0.2.7"));
    assert_eq!(xff(Trust::hops(2), PROXY, &[]), is(PROXY));
    // An inner proxy may hide its neighbour. If the outermost does, the key is missing.
    let hidden = &["for=6.6.6.6, for=192.0.2.7, for=_gate"];
    assert_eq!(forwarded(Trust::hops(2), PROXY, hidden), is("192.0.2.7"));
    assert_eq!(forwarded(Trust::hops(1), PROXY, hidden), Err(KeyError::Missing));
}

#[test]
fn forwarded_is_read_with_its_quotes() {
    for (lines, client) in [
        (vec!["for=192.0.2.7;proto=https;by=10.0.0.1"], "192.0.2.7"),
        (vec!["For=\"[2001:db8::1]:4711\""], "2001:db8::"),
        (vec!["for=6.6.6.6, for=\"192.0.2.7:80\", for=10.0.0.2"], "192.0.2.7"),
        (vec!["for=6.6.6.6", "for=192.0.2.7"], "192.0.2.7"),
        // A quote that a client opens hides nothing that a proxy appends, on that line or another.
        (vec!["for=\", for=192.0.2.7"], "192.0.2.7"),
        (vec!["for=\"6.6.6.6\\, for=192.0.2.7"], "192.0.2.7"),
        (vec!["for=\"", "for=192.0.2.7"], "192.0.2.7"),
        // Quoted commas of a proxy do not separate entries.
        (vec!["for=192.0.2.7;host=\"a\\\", for=6.6.6.6;b=\\\"\""], "192.0.2.7"),
        (vec!["for=6.6.6.6;, for=192.0.2.7;host=\"a, for=6.6.6.6\""], "192.0.2.7"),
    ] {
        assert_eq!(forwarded(by_networks(), PROXY, &lines), is(client), "{lines:?}");
    }
}

#[test]
fn only_the_named_header_is_read() {
    let key = ClientIp::x_forwarded_for(Trust::hops(1));
    assert_eq!(extract(&key, PROXY, "forwarded", &[b"for=6.6.6.6"]), is(PROXY));
    assert_eq!(extract(&key, PROXY, "x-real-ip", &[b"6.6.6.6"]), is(PROXY));
    assert_eq!(extract(&PeerIp::new(), STRANGER, "x-forwarded-for", &[b"6.6.6.6"]), is(STRANGER));
}

#[test]
fn a_hidden_client_is_missing_and_an_entry_without_address_malformed() {
    for line in ["6.6.6.6, unknown", "6.6.6.6, _hidden"] {
        assert_eq!(xff(by_networks(), PROXY, &[line]), Err(KeyError::Missing), "{line}");
    }
    for line in ["6.6.6.6, x", "6.6.6.6, 1.2.3", "6.6.6.6, \"1.1.1.1\"", "6.6.6.6, ;"] {
        assert_eq!(xff(by_networks(), PROXY, &[line]), Err(KeyError::Malformed), "{line}");
    }
    assert_eq!(
        forwarded(by_networks(), PROXY, &["for=1.1.1.1, proto=http"]),
        Err(KeyError::Missing)
    );
    assert_eq!(forwarded(by_networks(), PROXY, &["for=1.1.1.1, for"]), Err(KeyError::Malformed));
    assert_eq!(forwarded(by_networks(), PROXY, &["for=1.1.1.1\""]), Err(KeyError::Malformed));
}

#[test]
fn empty_elements_are_ignored_and_shift_no_entry() {
    for lines in [
        &["6.6.6.6,, 192.0.2.7, ,\t,10.0.0.2"][..],
        &["6.6.6.6, 192.0.2.7, 10.0.0.2, ,"],
        &[",,6.6.6.6,,192.0.2.7", "", ",", "10.0.0.2", " , "],
    ] {
        assert_eq!(xff(by_networks(), PROXY, lines), is("192.0.2.7"), "{lines:?}");
        assert_eq!(xff(Trust::hops(2), PROXY, lines), is("192.0.2.7"), "{lines:?}");
        assert_eq!(xff(Trust::hops(1), PROXY, lines), is("10.0.0.2"), "{lines:?}");
    }
    let lines = &["for=6.6.6.6, for=192.0.2.7,, for=10.0.0.2;by=\",,\",", ","];
    assert_eq!(forwarded(by_networks(), PROXY, lines), is("192.0.2.7"));
    assert_eq!(forwarded(Trust::hops(2), PROXY, lines), is("192.0.2.7"));
    // An element with a separator of pairs is not empty. It is one without `for`.
    let hidden = &["for=6.6.6.6, ;, for=10.0.0.2"];
    assert_eq!(forwarded(by_networks(), PROXY, hidden), Err(KeyError::Missing));
    // A list of empty elements is an empty list: the client is the furthest known node.
    for (line, client) in [("", PROXY), (", ,", PROXY), (", 10.0.0.2", "10.0.0.2")] {
        assert_eq!(xff(by_networks(), PROXY, &[line]), is(client), "{line}");
        assert_eq!(xff(Trust::hops(2), PROXY, &[line]), is(client), "{line}");
    }
    let many = format!("192.0.2.7{}10.0.0.2", ",".repeat(4_096));
    assert_eq!(xff(by_networks(), PROXY, &[&many]), Err(KeyError::Malformed));
}

#[test]
fn an_oversized_header_is_read_from_its_end_only() {
    let junk = "6.6.6.6,".repeat(100_000);
    assert_eq!(xff(by_networks(), PROXY, &[&format!("{junk}192.0.2.7")]), is("192.0.2.7"));
    let one_entry = format!("192.0.2.7{}", "0".repeat(10_000));
    assert_eq!(xff(by_networks(), PROXY, &[&one_entry]), Err(KeyError::Malformed));
    // The bounds hold for all lines together, and for the entries.
    let wide = format!("192.0.2.7,{}10.0.0.1", " ".repeat(4_080));
    assert_eq!(xff(by_networks(), PROXY, &[&wide]), Err(KeyError::Malformed));
    assert_eq!(xff(by_networks(), PROXY, &["192.0.2.7", &wide[20..]]), is("192.0.2.7"));
    let long = "10.0.0.1,".repeat(63);
    assert_eq!(
        xff(by_networks(), PROXY, &[&format!("192.0.2.7,{long}10.0.0.1")]),
        Err(KeyError::Malformed)
    );
    assert_eq!(
        xff(by_networks(), PROXY, &[&format!("192.0.2.7,{}", long.trim_end_matches(','))]),
        is("192.0.2.7")
    );
}

#[test]
fn without_a_peer_there_is_no_key() {
    let (mut request, ()) = Request::new(()).into_parts();
    request.headers.insert("x-forwarded-for", HeaderValue::from_static("6.6.6.6"));
    let key = ClientIp::x_forwarded_for(Trust::hops(1));
    assert_eq!(key.extract(&request), Err(KeyError::Unavailable));
    assert_eq!(PeerIp::new().extract(&request), Err(KeyError::Unavailable));
}

/// Bytes that the value of a header may have.
fn forged() -> impl Strategy<Value = Vec<u8>> {
    let tricky = prop::sample::select(b"\",;=\\[]: for_0123456789.".to_vec());
    let any = any::<u8>().prop_filter("a control character", |byte| *byte >= 32 && *byte != 127);
    prop::collection::vec(prop_oneof![3 => tricky, 1 => any], 0..200)
}

fn after(left: &[u8], right: &str) -> Vec<u8> {
    [left, b", ", right.as_bytes()].concat()
}

proptest! {
    /// Whether the client writes on the line of the proxies or on earlier lines, the entries of the
    /// proxies decide.
    #[test]
    fn no_forged_bytes_choose_the_key(
        forged in forged(),
        before in forged(),
        empty in "(,[ \t]{0,2}){0,9}",
        client: [u8; 4],
    ) {
        let client = IpAddr::from(client).to_string();
        prop_assume!(!client.starts_with("10."));
        let outer = format!("for={client};proto=https");
        let xff = ClientIp::x_forwarded_for;
        for line in [client.clone().into_bytes(), after(&forged, &client)] {
            for trust in [by_networks(), Trust::hops(1)] {
                let found = extract(&xff(trust), PROXY, "x-forwarded-for", &[&before, &line]);
                prop_assert_eq!(found, Ok(client.clone()));
            }
        }
        let client_and_empty = format!("{client}{empty}");
        let both = after(&after(&forged, &client_and_empty), &format!("10.0.0.2{empty}"));
        for trust in [by_networks(), Trust::hops(2)] {
            let found = extract(&xff(trust), PROXY, "x-forwarded-for", &[&before, &both]);
            prop_assert_eq!(found, Ok(client.clone()));
        }
        let inner = format!("by=\"x\";for=\"10.0.0.2:80\"{empty}");
        let quoted = after(&after(&forged, &format!("{outer}{empty}")), &inner);
        for trust in [by_networks(), Trust::hops(2)] {
            let key = ClientIp::forwarded(trust);
            prop_assert_eq!(extract(&key, PROXY, "forwarded", &[&before, &quoted]), Ok(client.clone()));
        }
    }

    /// A header from an untrusted peer has no effect, and parsing never panics.
    #[test]
    fn the_header_of_an_untrusted_peer_has_no_effect(lines in prop::collection::vec(forged(), 0..4)) {
        let lines: Vec<_> = lines.iter().map(Vec::as_slice).collect();
        for (key, name) in [
            (ClientIp::x_forwarded_for(by_networks()), "x-forwarded-for"),
            (ClientIp::forwarded(by_networks()), "forwarded"),
        ] {
            prop_assert_eq!(extract(&key, STRANGER, name, &lines), Ok(STRANGER.to_owned()));
            let _ = extract(&key, PROXY, name, &lines);
        }
    }
}
