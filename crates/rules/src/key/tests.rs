use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::request::Request;
use crate::request::path::{Separator, Spelling};

fn key(parts: &[Part], request: &Request<'_>) -> Option<Vec<u8>> {
    let mut out = KeyBytes::new(0);
    let key = Key { parts: parts.to_vec() };
    let written = key.write(request, &mut out);
    assert_eq!(written, !out.as_slice().is_empty());
    written.then(|| out.as_slice().to_vec())
}

fn of_peer(ipv6_prefix: u8, peer: &str) -> Option<Vec<u8>> {
    let request = Request { peer: Some(peer.parse().unwrap()), ..Request::default() };
    key(&[Part::Ip { ipv6_prefix }], &request)
}

#[test]
fn all_spellings_of_an_address_have_one_key() {
    assert_eq!(of_peer(64, "192.0.2.7"), of_peer(64, "::ffff:192.0.2.7"));
    assert_ne!(of_peer(64, "192.0.2.7"), of_peer(64, "192.0.2.8"));
    assert_eq!(of_peer(64, "2001:db8::1"), of_peer(64, "2001:db8::ffff:2"));
    assert_ne!(of_peer(64, "2001:db8::1"), of_peer(64, "2001:db8:0:1::1"));
    assert_eq!(of_peer(56, "2001:db8::1"), of_peer(56, "2001:db8:0:ff::1"));
    assert_ne!(of_peer(128, "2001:db8::1"), of_peer(128, "2001:db8::2"));
    assert_eq!(of_peer(1, "8000::"), of_peer(1, "ffff::"));
}

#[test]
fn two_headers_split_differently_have_different_keys() {
    let parts = [Part::Header("a".into()), Part::Header("b".into())];
    let of = |headers| key(&parts, &Request { headers, ..Request::default() });
    assert_ne!(of(&[("a", "xy"), ("b", "z")]), of(&[("a", "x"), ("b", "yz")]));
    assert_eq!(of(&[("a", "xy")]), None);
    assert_eq!(of(&[("a", "xy"), ("b", "")]), None);
}

#[test]
fn all_spellings_of_a_path_have_one_key() {
    let by = |spelling, path| key(&[Part::Path(spelling)], &Request { path, ..Request::default() });
    let of = |path| by(Spelling::default(), path);
    assert_eq!(of("/login"), of("//x/../%6cogin/?next=/"));
    for alike in ["/a/B", "/a%2fb", "/a;v=1/b", "/a\\b", "/a%5Cb", "/x/../a/./b"] {
        assert_eq!(of("/a/b"), of(alike), "{alike}");
    }
    for alike in
        ["/a%00/b", "/%00", "/a%00/../b", "/%25%00", "/x%2f..%2fa/b", "/x/..;/a/b", "/x//../a/b"]
    {
        assert_eq!(of("/a/b%00"), of(alike), "{alike}");
        assert_ne!(of("/a/b"), of(alike), "{alike}");
    }
    let spelling = Spelling {
        encoded_slash: Separator::Never,
        backslash: Separator::Never,
        keeps_params: true,
        keeps_case: true,
    };
    for other in ["/a/B", "/a%2fb", "/a;v=1/b", "/a\\b", "/a%5Cb"] {
        assert_ne!(by(spelling, "/a/b"), by(spelling, other), "{other}");
    }
}

#[test]
fn a_host_key_ignores_port_and_case_and_a_method_key_tells_methods_apart() {
    let of = |host| key(&[Part::Host], &Request { host, ..Request::default() });
    assert_eq!(of(Some("Example.com:80")), of(Some("example.com")));
    assert_eq!(of(None), None);
    assert_eq!(of(Some(":80")), None);
    // An address of the same bytes as the name.
    let name = of(Some("shop.example.com"));
    assert_ne!(of(Some("[7368:6f70:2e65:7861:6d70:6c65:2e63:6f6d]:80")), name);
    let of = |method| key(&[Part::Method], &Request { method, ..Request::default() });
    assert_ne!(of("GET"), of("PUT"));
    assert_eq!(of("GET"), of("Get"));
}

#[test]
fn a_cookie_is_found_in_any_cookie_header_quoted_or_not() {
    let session = [Part::Cookie("session".into())];
    let of =
        |value| key(&session, &Request { headers: &[("Cookie", value)], ..Request::default() });
    let other = of("session=12");
    assert!(other.is_some() && of("session=1").is_some() && other != of("session=1"));
    assert_eq!(of("session=1; a=2"), of("session=1"));
    assert_eq!(of("a=2;  session=\"1\""), of("session=1"));
    assert_eq!(of("sessions=1; xsession=2"), None);
    assert_eq!(of("session="), None);
    let headers = [("cookie", "a=2"), ("cookie", "session=1")];
    let apart = key(&session, &Request { headers: &headers, ..Request::default() });
    assert_eq!(apart, of("session=1"));
}

/// Rack reads a `+` in a cookie as a space; Express and Python read it as it is, and `%2B` as a `+`.
#[test]
fn a_plus_and_a_space_in_a_cookie_are_one_key_however_they_are_written() {
    let session = [Part::Cookie("s".into())];
    let of =
        |value| key(&session, &Request { headers: &[("Cookie", value)], ..Request::default() });
    let one = of("s=a+b+c");
    assert!(one.is_some());
    for alike in
        ["s=a b c", "s=a%20b+c", "s=a%2bb c", "s=a%2Bb%2Bc", "s=\"a\\053b\\040c\"", "s=\"a+b\\+c\""]
    {
        assert_eq!(of(alike), one, "{alike}");
    }
    for other in ["s=a+bc", "s=abc", "s=a%252Bb+c", "s=a++b+c", "s=a-b-c"] {
        assert_ne!(of(other), one, "{other}");
    }
}

#[test]
fn a_parameter_has_one_key_in_all_its_spellings_and_counts_by_its_first_value() {
    let of = |path| key(&[Part::Query("k".into())], &Request { path, ..Request::default() });
    let one = of("/?k=a+1");
    assert!(one.is_some());
    for alike in ["/?x=2&k=a%201", "/?%6b=%61+1", "/b?k=a+1&k=2", "/?k=a+1#x"] {
        assert_eq!(of(alike), one, "{alike}");
    }
    for other in ["/?k=a%2B1", "/?k=A+1", "/?k=2&k=a+1", "/?k=a%2520"] {
        assert!(of(other).is_some_and(|other| Some(other) != one), "{other}");
    }
    for none in ["/", "/?", "/?k", "/?k=", "/?K=a", "/?kk=a", "/k=a"] {
        assert_eq!(of(none), None, "{none}");
    }
}

#[test]
fn paths_of_different_bytes_have_different_texts() {
    let spelling = Spelling { encoded_slash: Separator::Never, ..Spelling::default() };
    let key = Key { parts: vec![Part::Path(spelling)] };
    let text = |path| {
        let request = Request { path, ..Request::default() };
        key.values(&request, |its| its.to_string()).expect("a path").remove(0)
    };
    assert_eq!(text("/%ff"), "/%FF");
    assert_eq!(text("/%AA;"), "/%AA");
    assert_eq!(text("/%25ff"), "/%25ff");
    assert_eq!(text("/a%2fb"), "/a%2Fb");
    assert_eq!(text("/a%252Fb"), "/a%252fb");
    assert_eq!(text("/%c3%a9"), "/\u{e9}");
}

#[test]
fn a_value_of_more_than_8192_bytes_counts_as_missing_in_all_its_spellings() {
    let has_key = |part: Part, request: Request<'_>| key(&[part], &request).is_some();
    let of = |length: usize| {
        let (plain, encoded) = ("a".repeat(length), "%61".repeat(length));
        let query = |value| format!("/?k={value}");
        let paths = [query(&plain), query(&encoded)];
        let cookie = |value| format!("c=\"{value}\"");
        let cookies = [&plain, &encoded, &"\\141".repeat(length)].map(cookie);
        let spaced = format!("  {plain} ");
        let header = |name, value: &str| {
            let headers = [(name, value)];
            let part =
                if name == "h" { Part::Header("h".into()) } else { Part::Cookie("c".into()) };
            has_key(part, Request { headers: &headers, ..Request::default() })
        };
        let with = Request::default();
        let mut are_keys = vec![
            header("h", &plain),
            header("h", &spaced),
            has_key(Part::Method, Request { method: &plain, ..with }),
            has_key(Part::Host, Request { host: Some(&format!("x@{plain}:80")), ..with }),
        ];
        are_keys.extend(cookies.iter().map(|value| header("cookie", value)));
        are_keys.extend(
            paths.iter().map(|path| has_key(Part::Query("k".into()), Request { path, ..with })),
        );
        are_keys
    };
    assert_eq!(of(8_192), [true; 9]);
    assert_eq!(of(8_193), [false; 9]);
    let path = format!("/{}", "a".repeat(60_000));
    assert!(has_key(
        Part::Path(Spelling::default()),
        Request { path: &path, ..Request::default() }
    ));
}

fn key_of_six_parts() -> Key {
    let header = Part::Header("a".to_owned());
    let cookie = Part::Cookie("c".to_owned());
    Key {
        parts: vec![
            Part::Ip { ipv6_prefix: 64 },
            Part::Path(Spelling::default()),
            Part::Host,
            header,
            cookie,
            Part::Query("q".to_owned()),
        ],
    }
}

proptest! {
    #[test]
    fn requests_have_equal_key_bytes_if_and_only_if_they_have_equal_key_text(
        requests in prop::collection::vec(
            ("(::[12]|1:0:0:[12]::1|7\\.7\\.7\\.[12])", "[/abA.%250f;]{0,6}(\\?[q=&+1%25]{0,6})?",
             "(A|a|b:1|shop\\.example\\.com|\\[7368:6f70:2e65:7861:6d70:6c65:2e63:6f6d\\]|)",
             "[xy]?", "(c=\"?[1%25\\\\0-1]{0,4}\"?|d=2)"), 1..40),
    ) {
        let mut texts = HashMap::new();
        let mut buckets = HashMap::new();
        for (peer, path, host, header, cookie) in &requests {
            let headers = [("a", header.as_str()), ("cookie", cookie.as_str())];
            let (path, host) = (path.as_str(), Some(host.as_str()));
            let peer = peer.parse().ok();
            let request = Request { peer, path, host, headers: &headers, ..Request::default() };
            let mut bytes = KeyBytes::new(0);
            let written = key_of_six_parts().write(&request, &mut bytes);
            let values = key_of_six_parts().values(&request, |its| its.to_string());
            prop_assert_eq!(written, values.is_some());
            let Some(values) = values else { continue };
            let bytes = bytes.as_slice().to_vec();
            prop_assert_eq!(texts.entry(values.clone()).or_insert(bytes.clone()), &bytes);
            prop_assert_eq!(buckets.entry(bytes).or_insert(values.clone()), &values);
        }
    }
}
