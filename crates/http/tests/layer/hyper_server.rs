//! The layer around a service of hyper, as the README shows it, over a real socket.

use std::convert::Infallible;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tollgate::Quota;
use tollgate_http::key::PeerIp;
use tollgate_http::{Limit, RateLimitLayer};
use tower::{Layer, ServiceExt, service_fn};

async fn hello(_: Request<Incoming>) -> Result<Response<String>, Infallible> {
    Ok(Response::new("hello".to_owned()))
}

/// Two requests over one connection.
async fn ask_twice(server: std::net::SocketAddr) -> String {
    let mut stream = TcpStream::connect(server).await.expect("listening");
    let request = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";
    let last = "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    stream.write_all(format!("{request}{last}").as_bytes()).await.expect("connected");
    let mut answers = String::new();
    stream.read_to_string(&mut answers).await.expect("answers");
    answers
}

#[tokio::test]
async fn a_quota_of_3_admits_3_requests_over_two_connections_of_hyper() {
    let limit = Limit::gcra("per-client", Quota::per_day(3), PeerIp::new()).expect("in range");
    let layer = RateLimitLayer::new(limit);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    for statuses in [["200 OK", "200 OK"], ["200 OK", "429 Too Many Requests"]] {
        let client = tokio::spawn(ask_twice(address));
        let (stream, peer) = listener.accept().await.expect("a client");
        let limited = layer.layer(service_fn(hello)).map_request(move |mut request: Request<_>| {
            request.extensions_mut().insert(peer);
            request
        });
        let service = TowerToHyperService::new(limited);
        let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        connection.await.expect("served");
        let answers = client.await.expect("no panic");
        let found: Vec<_> = answers
            .split("HTTP/1.1 ")
            .skip(1)
            .map(|answer| answer.lines().next().unwrap_or_default())
            .collect();
        assert_eq!(found, statuses);
    }
}
