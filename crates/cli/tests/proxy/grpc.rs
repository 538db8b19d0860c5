//! gRPC calls through the proxy: tonic on both sides.

use std::net::SocketAddr;

use tonic::Code;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Endpoint, Server};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use crate::server::runtime;
use crate::support::{Proxy, scratch};

#[test]
fn a_denied_grpc_call_is_resource_exhausted_with_a_retry_time() {
    runtime().block_on(async {
        let incoming = TcpIncoming::bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a port");
        let upstream = format!("http://{}", incoming.local_addr().expect("bound"));
        let (_, health) = tonic_health::server::health_reporter();
        tokio::spawn(Server::builder().add_service(health).serve_with_incoming(incoming));
        let rules = scratch("grpc-rules.toml", r#"rule = [{ name = "calls", limits = "2/day" }]"#);
        let rules = rules.to_str().expect("UTF-8");
        let words = ["--upstream", &upstream, "--upstream-http2", "--rules", rules];
        let proxy = Proxy::start("grpc-denied", &words);
        let endpoint = Endpoint::new(format!("http://{}", proxy.listen)).expect("an address");
        let mut client = HealthClient::new(endpoint.connect().await.expect("listening"));
        for _ in 0..2 {
            client.check(HealthCheckRequest::default()).await.expect("within the limit");
        }
        for _ in 0..3 {
            let denied = client.check(HealthCheckRequest::default()).await.expect_err("over it");
            assert_eq!(denied.code(), Code::ResourceExhausted, "{denied:?}");
            let pushback =
                denied.metadata().get("grpc-retry-pushback-ms").expect("the retry time is there");
            let millis: u64 = pushback.to_str().expect("ASCII").parse().expect("a number");
            assert!((1..=12 * 3_600_000).contains(&millis), "{millis}");
        }
        // A stream is denied in the same way.
        let denied = client.watch(HealthCheckRequest::default()).await.expect_err("over it");
        assert_eq!(denied.code(), Code::ResourceExhausted, "{denied:?}");
    });
}
