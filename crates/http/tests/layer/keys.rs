//! Keys of two kinds: an API key, or else an address. And where the address comes from.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};

use axum::extract::ConnectInfo;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use tollgate::Quota;
use tollgate_http::key::{ClientIp, Extractor, Header, PeerIp, Trust};
use tollgate_http::{Gate, KeyError, Limit, RateLimitLayer};
use tower::{Layer, ServiceExt, service_fn};

async fn status<G: Gate + 'static>(
    layer: &RateLimitLayer<G>,
    address: [u8; 4],
    headers: &[(&str, &str)],
) -> u16 {
    let service = layer.layer(service_fn(async |_: Request<()>| {
        Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
    }));
    let mut request = Request::builder().extension(SocketAddr::from((address, 80)));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(()).expect("a request");
    service.oneshot(request).await.expect("infallible").status().as_u16()
}

fn api_key() -> Header {
    Header::new("x-api-key").expect("a name")
}

#[tokio::test]
async fn a_client_is_counted_by_its_api_key_or_else_by_its_address() {
    let key = api_key().otherwise(PeerIp::new());
    let layer = RateLimitLayer::new(Limit::gcra("a", Quota::per_hour(1), key).expect("in range"));
    let (here, there) = ([192, 0, 2, 7], [192, 0, 2, 8]);
    for (address, api_key, expected) in [
        (here, Some("k1"), 200),
        (there, Some("k1"), 429), // one key from two addresses
        (here, Some("k2"), 200),
        (here, None, 200),
        (here, None, 429),
        (there, None, 200),
        (there, Some(" "), 429), // an empty key is none
    ] {
        let headers: Vec<_> = api_key.map(|text| ("x-api-key", text)).into_iter().collect();
        assert_eq!(status(&layer, address, &headers).await, expected, "{address:?} {api_key:?}");
    }
    let twice = [("x-api-key", "k3"), ("x-api-key", "k4")];
    assert_eq!(status(&layer, here, &twice).await, 400);
}

#[tokio::test]
async fn an_api_key_that_reads_as_an_address_does_not_meet_that_address() {
    let key = api_key().otherwise(PeerIp::new());
    let layer = RateLimitLayer::new(Limit::gcra("a", Quota::per_hour(1), key).expect("in range"));
    let victim = [1, 2, 3, 4];
    for text in ["1.2.3.4", "::ffff:1.2.3.4", "2:1.2.3.4"] {
        let headers = [("x-api-key", text)];
        assert_eq!(status(&layer, [6, 6, 6, 6], &headers).await, 200);
        assert_eq!(status(&layer, [6, 6, 6, 6], &headers).await, 429);
    }
    assert_eq!(status(&layer, victim, &[]).await, 200);
    assert_eq!(status(&layer, victim, &[("x-api-key", "1.2.3.4")]).await, 429);
}

#[tokio::test]
async fn behind_proxies_the_second_key_is_the_clients_address() {
    let trust = Trust::networks(["10.0.0.0/8"]).expect("a network");
    let key = api_key().otherwise(ClientIp::x_forwarded_for(trust));
    let layer = RateLimitLayer::new(Limit::gcra("a", Quota::per_hour(1), key).expect("in range"));
    let proxy = [10, 0, 0, 1];
    let from = |client| [("x-forwarded-for", client)];
    assert_eq!(status(&layer, proxy, &from("192.0.2.7")).await, 200);
    assert_eq!(status(&layer, proxy, &from("192.0.2.7")).await, 429);
    assert_eq!(status(&layer, proxy, &from("192.0.2.8")).await, 200);
}

#[test]
fn the_text_of_a_key_begins_with_its_kind() {
    let key = api_key().otherwise(PeerIp::new());
    let text = |headers: &[(&str, &str)]| {
        let mut request = Request::builder().extension(SocketAddr::from(([1, 2, 3, 4], 80)));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        key.extract(&request.body(()).expect("a request").into_parts().0).map(|key| key.to_string())
    };
    assert_eq!(text(&[("x-api-key", "1.2.3.4")]).as_deref(), Ok("1:1.2.3.4"));
    assert_eq!(text(&[]).as_deref(), Ok("2:1.2.3.4"));
}

#[tokio::test]
async fn the_response_of_a_server_without_addresses_names_the_remedy() {
    let limit = Limit::gcra("a", Quota::per_hour(1), PeerIp::new()).expect("in range");
    let app = axum::Router::new()
        .route("/", axum::routing::get(|| async { "hello" }))
        .layer(RateLimitLayer::new(limit));
    let answer = app.oneshot(Request::new(axum::body::Body::empty())).await.expect("infallible");
    assert_eq!(answer.status(), 500);
    let body = answer.into_body().collect().await.expect("a body").to_bytes();
    let problem: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
    let detail = problem["detail"].as_str().expect("a text");
    assert!(detail.contains("into_make_service_with_connect_info"), "{detail}");
    assert_eq!(detail, KeyError::Unavailable.to_string());
}

/// The address that a load balancer has sent by the PROXY protocol.
#[derive(Clone)]
struct Announced(SocketAddr);

#[tokio::test]
async fn the_peer_that_the_layer_finds_comes_before_axums_connect_info() {
    let limit = Limit::gcra("a", Quota::per_hour(1), PeerIp::new()).expect("in range");
    let layer = RateLimitLayer::builder(limit).peer(|its| Some(its.get::<Announced>()?.0)).build();
    let balancer = ConnectInfo(SocketAddr::from(([10, 0, 0, 1], 80)));
    let service = layer.layer(service_fn(async |request: Request<()>| {
        let info = request.extensions().get::<ConnectInfo<SocketAddr>>().expect("for handlers");
        assert_eq!(info.0.ip(), Ipv4Addr::new(10, 0, 0, 1));
        Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
    }));
    for (announced, expected) in
        [(Some(7), 200), (Some(8), 200), (Some(7), 429), (None, 200), (None, 429)]
    {
        let mut request = Request::builder().extension(balancer);
        if let Some(last) = announced {
            request = request.extension(Announced(SocketAddr::from(([192, 0, 2, last], 80))));
        }
        let request = request.body(()).expect("a request");
        let answer = service.clone().oneshot(request).await.expect("infallible");
        assert_eq!(answer.status(), expected, "{announced:?}");
    }
}
