//! A tonic server and its clients, over real sockets.

use std::net::SocketAddr;

use http::Extensions;
use tollgate::Quota;
use tollgate_http::key::{ClientIp, Header, PeerIp, Trust};
use tollgate_http::{Gate, Limit, RateLimitLayer, Stats};
use tonic::metadata::MetadataMap;
use tonic::transport::server::{TcpConnectInfo, TcpIncoming};
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Code, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_types::StatusExt;

const MILLIS_PER_CALL: i64 = 24 * 3_600_000 / 5;

fn with_peer(extensions: &Extensions) -> Option<SocketAddr> {
    extensions.get::<TcpConnectInfo>()?.remote_addr()
}

fn without_peer(_: &Extensions) -> Option<SocketAddr> {
    None
}

fn serve<G: Gate + 'static>(
    gate: G,
    peer: fn(&Extensions) -> Option<SocketAddr>,
) -> (SocketAddr, RateLimitLayer<G>) {
    let layer = RateLimitLayer::builder(gate).peer(peer).build();
    let incoming = TcpIncoming::bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a port");
    let address = incoming.local_addr().expect("bound");
    let (_, health) = tonic_health::server::health_reporter();
    let server =
        Server::builder().layer(layer.clone()).add_service(health).serve_with_incoming(incoming);
    tokio::spawn(server);
    (address, layer)
}

async fn connect(server: SocketAddr) -> HealthClient<Channel> {
    let endpoint = Endpoint::new(format!("http://{server}")).expect("an address");
    HealthClient::new(endpoint.connect().await.expect("listening"))
}

/// The metadata of the call's answer.
async fn check(client: &mut HealthClient<Channel>) -> Result<MetadataMap, Status> {
    let answer = client.check(HealthCheckRequest::default()).await?;
    Ok(answer.metadata().clone())
}

fn text<'a>(metadata: &'a MetadataMap, name: &str) -> &'a str {
    metadata.get(name).map_or("", |value| value.to_str().expect("ASCII"))
}

fn counted(stats: Stats) -> (u64, u64, u64) {
    (stats.admitted, stats.denied, stats.denied_no_key)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cap_of_5_admits_5_over_two_connections_and_tells_the_6th_when_to_retry() {
    let limit = Limit::gcra("calls", Quota::per_day(5), PeerIp::new()).expect("in range");
    let (server, layer) = serve(limit, with_peer);
    let mut clients = [connect(server).await, connect(server).await];
    for call in 0..5_usize {
        let metadata = check(&mut clients[call % 2]).await.expect("within the quota");
        assert_eq!(text(&metadata, "ratelimit-policy"), "\"calls\";q=5;w=86400");
        let left = format!("\"calls\";r={};", 4 - call);
        assert!(text(&metadata, "ratelimit").starts_with(&left), "{metadata:?}");
        assert_eq!(text(&metadata, "grpc-retry-pushback-ms"), "");
    }
    for client in &mut clients {
        let status = check(client).await.expect_err("over the quota");
        assert_eq!(status.code(), Code::ResourceExhausted);
        assert_eq!(status.message(), "rate limit exceeded");
        let metadata = status.metadata();
        let pushback: i64 = text(metadata, "grpc-retry-pushback-ms").parse().expect("a number");
        assert!((MILLIS_PER_CALL - 60_000..=MILLIS_PER_CALL).contains(&pushback), "{pushback}");
        let secs: i64 = text(metadata, "retry-after").parse().expect("a number");
        assert_eq!(secs, (pushback + 999) / 1_000);
        let delay = status.get_details_retry_info().and_then(|info| info.retry_delay);
        let millis = delay.expect("a delay").as_nanos().div_ceil(1_000_000);
        assert_eq!(i64::try_from(millis), Ok(pushback));
        let failure = status.get_details_quota_failure().expect("a failure");
        assert_eq!(failure.violations.len(), 1);
        assert_eq!(failure.violations[0].subject, "calls");
        assert_eq!(text(metadata, "ratelimit"), format!("\"calls\";r=0;t={secs}"));
    }
    assert_eq!(counted(layer.stats()), (5, 2, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_calls_over_many_connections_share_one_limit() {
    let limit = Limit::gcra("calls", Quota::per_day(5), PeerIp::new()).expect("in range");
    let (server, layer) = serve(limit, with_peer);
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            tokio::spawn(async move {
                let mut client = connect(server).await;
                let mut admitted = 0;
                for _ in 0..10 {
                    match check(&mut client).await {
                        Ok(_) => admitted += 1,
                        Err(status) => assert_eq!(status.code(), Code::ResourceExhausted),
                    }
                }
                admitted
            })
        })
        .collect();
    let mut admitted = 0;
    for task in tasks {
        admitted += task.await.expect("no panic");
    }
    assert_eq!(admitted, 5);
    assert_eq!(counted(layer.stats()), (5, 75, 0));
}

#[tokio::test]
async fn a_stream_is_one_call() {
    let limit = Limit::gcra("calls", Quota::per_day(1), PeerIp::new()).expect("in range");
    let (server, layer) = serve(limit, with_peer);
    let mut client = connect(server).await;
    let answer = client.watch(HealthCheckRequest::default()).await.expect("the first");
    let mut stream = answer.into_inner();
    assert!(stream.message().await.expect("open").is_some());
    let denied = client.watch(HealthCheckRequest::default()).await.expect_err("the second");
    assert_eq!(denied.code(), Code::ResourceExhausted);
    assert_eq!(counted(layer.stats()), (1, 1, 0));
}

#[tokio::test]
async fn a_call_that_never_fits_has_a_pushback_of_minus_one() {
    let limit = Limit::gcra("calls", Quota::per_day(5), PeerIp::new()).expect("in range");
    let (server, _) = serve(limit.cost(|_| 6), with_peer);
    let status = check(&mut connect(server).await).await.expect_err("6 of at most 5");
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert_eq!(text(status.metadata(), "grpc-retry-pushback-ms"), "-1");
    assert!(status.get_details_retry_info().is_none());
    assert!(status.get_details_quota_failure().is_some());
    assert_eq!(text(status.metadata(), "retry-after"), "");
}

#[tokio::test]
async fn a_call_without_a_key_fails_with_the_code_of_the_reason() {
    // The layer does not get the address.
    let limit = Limit::gcra("calls", Quota::per_day(5), PeerIp::new()).expect("in range");
    let (server, layer) = serve(limit, without_peer);
    let status = check(&mut connect(server).await).await.expect_err("no address");
    assert_eq!(status.code(), Code::Internal);
    assert_eq!(counted(layer.stats()), (0, 0, 1));

    let key = Header::new("x-api-key").expect("a name");
    let policy = tollgate_http::Policy::new("calls", &Quota::per_day(5)).expect("a name");
    let limiter = tollgate::Limiter::<str>::builder(Quota::per_day(5)).build().expect("in range");
    let (server, _) = serve(Limit::new(policy, limiter.into(), key), without_peer);
    let status = check(&mut connect(server).await).await.expect_err("no such metadata");
    assert_eq!(status.code(), Code::InvalidArgument);
    assert_eq!(text(status.metadata(), "grpc-retry-pushback-ms"), "");
}

#[tokio::test]
async fn behind_a_proxy_the_client_is_read_from_metadata() {
    let key = ClientIp::x_forwarded_for(Trust::networks(["127.0.0.0/8"]).expect("a network"));
    let limit = Limit::gcra("calls", Quota::per_day(1), key).expect("in range");
    let (server, layer) = serve(limit, with_peer);
    let mut client = connect(server).await;
    for (forwarded, is_admitted) in
        [("192.0.2.7", true), ("6.6.6.6, 192.0.2.7", false), ("192.0.2.8", true)]
    {
        let mut request = tonic::Request::new(HealthCheckRequest::default());
        request.metadata_mut().insert("x-forwarded-for", forwarded.parse().expect("ASCII"));
        assert_eq!(client.check(request).await.is_ok(), is_admitted, "{forwarded}");
    }
    assert_eq!(counted(layer.stats()), (2, 1, 0));
}
