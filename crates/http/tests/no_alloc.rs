//! A decision by API key, or else by address, allocates nothing: the allocator counts.
//!
//! The test has a file of its own, because the allocator belongs to the process. It counts for each
//! thread.

mod allocations;

use std::net::SocketAddr;

use bytes::Bytes;
use http::HeaderValue;
use tollgate::Quota;
use tollgate_http::key::{Extractor, Header, PeerIp};
use tollgate_http::{Gate, Limit, Report, Verdict};

use allocations::allocations;

/// A request whose headers are slices of the connection's read buffer, as those of hyper are.
fn request(read: &Bytes, key: Option<std::ops::Range<usize>>) -> http::request::Parts {
    let mut request = http::Request::new(());
    request.extensions_mut().insert(SocketAddr::from(([192, 0, 2, 7], 80)));
    if let Some(range) = key {
        let value = HeaderValue::from_maybe_shared(read.slice(range)).expect("a value");
        request.headers_mut().insert("x-api-key", value);
    }
    request.into_parts().0
}

#[test]
fn a_decision_by_api_key_or_else_by_address_allocates_nothing() {
    assert_eq!(allocations(|| drop(std::hint::black_box(vec![1_u8]))), 1, "the count counts");
    let read = Bytes::from("x-api-key: ".to_owned() + &"k".repeat(200) + " \r\n\r\n");
    let key = Header::new("x-api-key").expect("a name").otherwise(PeerIp::new());
    let gate = Limit::gcra("client", Quota::per_hour(2), key).expect("in range");
    for request in [request(&read, Some(11..212)), request(&read, None)] {
        for is_admitted in [true, true, false] {
            let mut report = Report::default();
            let asked = allocations(|| {
                let verdict = gate.decide(&request, &mut report);
                assert_eq!(matches!(verdict, Verdict::Admit(_)), is_admitted);
            });
            assert_eq!(asked, 0, "{:?}", request.headers);
        }
    }
}
