//! An axum server that limits each client to 2 requests a second with a burst of 5. An upload costs 5.
//!
//! ```sh
//! cargo run -p tollgate-http --example axum --features axum
//! for i in 1 2 3 4 5 6; do curl -si localhost:3000/ | grep -iE '^(http|ratelimit|retry)'; done
//! ```

use std::net::SocketAddr;

use axum::Router;
use axum::routing::get;
use tokio::net::TcpListener;
use tollgate::Quota;
use tollgate_http::key::PeerIp;
use tollgate_http::{Limit, RateLimitLayer};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let quota = Quota::per_second(2).burst(5);
    let limit = Limit::gcra("per-client", quota, PeerIp::new())?
        .cost(|request| if request.method == http::Method::POST { 5 } else { 1 });
    let layer =
        RateLimitLayer::builder(limit).skip(|request| request.uri.path() == "/stats").build();

    let stats = layer.clone();
    let app = Router::new()
        .route("/", get(|| async { "hello\n" }).post(|| async { "uploaded\n" }))
        .route("/stats", get(|| async move { format!("{:#?}\n", stats.stats()) }))
        .layer(layer);

    let listener = TcpListener::bind("127.0.0.1:3000").await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}
