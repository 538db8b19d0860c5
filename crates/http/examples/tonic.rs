//! A gRPC server that limits each client to 2 calls a second with a burst of 5. Its service is tonic's
//! health check. After the start, a client in the same process makes 7 calls.
//!
//! ```sh
//! cargo run -p tollgate-http --example tonic
//! ```

use std::net::SocketAddr;

use tollgate_http::key::PeerIp;
use tollgate_http::{Limit, Quota, RateLimitLayer, denial};
use tonic::Code;
use tonic::transport::server::{TcpConnectInfo, TcpIncoming};
use tonic::transport::{Endpoint, Server};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let quota = Quota::per_second(2).burst(5);
    let limit = Limit::gcra("per-client", quota, PeerIp::new())?;
    let layer = RateLimitLayer::builder(limit)
        .peer(|extensions| extensions.get::<TcpConnectInfo>()?.remote_addr())
        .deny_with(denial::grpc)
        .build();
    let (_reporter, health) = tonic_health::server::health_reporter();

    let incoming = TcpIncoming::bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
    let address = incoming.local_addr()?;
    println!("listening on http://{address}");
    let server =
        Server::builder().layer(layer.clone()).add_service(health).serve_with_incoming(incoming);
    tokio::select! {
        ended = server => ended?,
        called = call(address) => called?,
    }
    println!("{:?}", layer.stats());
    Ok(())
}

async fn call(address: SocketAddr) -> Result<(), BoxError> {
    let channel = Endpoint::new(format!("http://{address}"))?.connect().await?;
    let mut client = HealthClient::new(channel);
    for number in 1..=7 {
        match client.check(HealthCheckRequest::default()).await {
            Ok(_) => println!("call {number}: admitted"),
            Err(status) if status.code() == Code::ResourceExhausted => {
                let millis = status.metadata().get("grpc-retry-pushback-ms");
                println!("call {number}: {}, retry in {millis:?} ms", status.message());
            }
            Err(status) => return Err(status.into()),
        }
    }
    Ok(())
}
