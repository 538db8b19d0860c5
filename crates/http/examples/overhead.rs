//! The cost of the layer for a request: calls in the process, without sockets, with and without it.
//!
//! ```sh
//! cargo run --release -p tollgate-http --example overhead --features axum
//! ```
//!
//! The rounds of the variants are interleaved. The median round is printed.

use std::convert::Infallible;
use std::hint::black_box;
use std::net::SocketAddr;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use axum::body::Body;
use axum::routing::get;
use http::{Request, Response};
use tollgate::Quota;
use tollgate_http::key::{ClientIp, PeerIp, Trust};
use tollgate_http::{Gate, Limit, LimitError, RateLimitLayer};
use tower::util::BoxCloneSyncService;
use tower::{Layer, Service, service_fn};

type Variant = (&'static str, BoxCloneSyncService<Request<Body>, Response<Body>, Infallible>);

const CALLS: u32 = 1_000;
const ROUNDS: usize = 301;

async fn bare(_: Request<Body>) -> Result<Response<Body>, Infallible> {
    Ok(Response::new(Body::empty()))
}

fn limited<G: Gate + 'static>(layer: &RateLimitLayer<G>) -> Variant {
    let service = layer.layer(service_fn(bare));
    let service =
        tower::util::MapResponse::new(service, |response: Response<_>| response.map(Body::new));
    ("", BoxCloneSyncService::new(service))
}

fn request(n: u32) -> Request<Body> {
    let mut request = Request::new(Body::empty());
    let address = SocketAddr::from(((n % 10_000 + 0x0a00_0000).to_be_bytes(), 4_711));
    request.extensions_mut().insert(address);
    let client = http::HeaderValue::from_static("6.6.6.6, 192.0.2.7");
    request.headers_mut().insert("x-forwarded-for", client);
    request
}

/// Nanoseconds a call, over one round.
#[expect(clippy::disallowed_types, reason = "it measures real time")]
fn round(service: &mut Variant) -> f64 {
    let mut context = Context::from_waker(Waker::noop());
    let start = std::time::Instant::now();
    for n in 0..CALLS {
        assert!(service.1.poll_ready(&mut context).is_ready());
        match pin!(service.1.call(request(n))).poll(&mut context) {
            Poll::Ready(response) => drop(black_box(response)),
            Poll::Pending => unreachable!("nothing waits"),
        }
    }
    start.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS)
}

fn main() -> Result<(), LimitError> {
    let many = Quota::per_second(1_000_000_000);
    let none = Quota::per_day(1);
    let hops = ClientIp::x_forwarded_for(Trust::hops(1));
    let plain = RateLimitLayer::builder(Limit::gcra("a", many, PeerIp::new())?);
    let router = || axum::Router::new().route("/", get(async || "hello"));
    let limited_router =
        router().layer(RateLimitLayer::new(Limit::gcra("a", many, PeerIp::new())?));
    let routed = |router: axum::Router| BoxCloneSyncService::new(router);
    let named = |name, (_, service): Variant| (name, service);
    let mut variants: Vec<Variant> = vec![
        ("service alone", BoxCloneSyncService::new(service_fn(bare))),
        named("+ layer, no fields", limited(&plain.without_rate_limit_fields().build())),
        named("+ layer", limited(&RateLimitLayer::new(Limit::gcra("a", many, PeerIp::new())?))),
        named(
            "+ layer, X-Forwarded-For",
            limited(&RateLimitLayer::new(Limit::gcra("a", many, hops)?)),
        ),
        named(
            "+ layer, settled",
            limited(&RateLimitLayer::new(
                Limit::gcra("a", many, PeerIp::new())?.settle_bytes(|bytes| bytes),
            )),
        ),
        named(
            "+ layer, denying",
            limited(&RateLimitLayer::new(Limit::gcra("a", none, PeerIp::new())?)),
        ),
        ("axum router alone", routed(router())),
        ("axum router + layer", routed(limited_router)),
    ];
    let mut nanos = vec![Vec::new(); variants.len()];
    for _ in 0..ROUNDS {
        for (variant, nanos) in variants.iter_mut().zip(&mut nanos) {
            nanos.push(round(variant));
        }
    }
    for ((name, _), mut nanos) in variants.iter().zip(nanos) {
        nanos.sort_by(f64::total_cmp);
        println!("{name:26} {:7.0} ns", nanos[ROUNDS / 2]);
    }
    Ok(())
}
