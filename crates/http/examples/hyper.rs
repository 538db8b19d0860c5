//! A hyper server that limits each client to 2 requests a second with a burst of 5.
//!
//! ```sh
//! cargo run -p tollgate-http --example hyper
//! for i in 1 2 3 4 5 6; do curl -si localhost:3000/ | grep -iE '^(http|ratelimit|retry)'; done
//! ```

use std::convert::Infallible;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tollgate_http::key::PeerIp;
use tollgate_http::{Limit, Quota, RateLimitLayer};
use tower::{Layer, ServiceExt, service_fn};

async fn hello(_: Request<Incoming>) -> Result<Response<String>, Infallible> {
    Ok(Response::new("hello\n".to_owned()))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let limit = Limit::gcra("per-client", Quota::per_second(2).burst(5), PeerIp::new())?;
    let limited = RateLimitLayer::new(limit).layer(service_fn(hello));

    let listener = TcpListener::bind("127.0.0.1:3000").await?;
    println!("listening on http://{}", listener.local_addr()?);
    loop {
        let (stream, peer) = listener.accept().await?;
        let service = limited.clone().map_request(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(peer);
            request
        });
        let service = TowerToHyperService::new(service);
        let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                eprintln!("{peer}: {error}");
            }
        });
    }
}
