//! `tollgate proxy` on the command line.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, value_parser};
use tollgate_http::key::Trust;

use crate::proxy::Upstream;

pub(super) const HELP: &str = "\
Headers:
  To the upstream go the client's headers without those of the connection (Connection, and what it
  names, Keep-Alive, ...; TE: trailers is kept), X-Forwarded-For with the peer's address appended,
  X-Forwarded-Host, X-Forwarded-Proto and Via. Host is the upstream's, unless --preserve-host.

Answers of its own, all of application/problem+json:
  429 a rule denies (with Retry-After, RateLimit-Policy, RateLimit)   503 too many wait for a turn
  400 the host is missing, repeated or malformed; the body is malformed; a rule needs a key that the
      request has not, or depends on how its path is read (tollgate check --explain says why)
  408 the client stops sending its body, or sends it too slowly
  502 the upstream cannot be reached, is not trusted (https), or answers what is no HTTP, or an answer
      that states its length twice (Content-Length and Transfer-Encoding), unknowably or wrongly
  504 the upstream takes too long
  501 CONNECT, and the target `*`
  A gRPC call (content type application/grpc...) that a rule denies is answered in gRPC instead, with
  status 200, grpc-status 8 (RESOURCE_EXHAUSTED) and grpc-retry-pushback-ms.

The upstream:
  http is HTTP/1.1, or HTTP/2 with --upstream-http2 (prior knowledge); https is what the upstream
  chooses by ALPN, its certificate checked against the system's roots and --upstream-ca. Standard
  error says why one was not trusted. Trailers pass both ways, so gRPC does, from an HTTP/2 client to
  an HTTP/2 upstream; over HTTP/1.1 they have to be announced (Trailer, and by a client TE: trailers),
  and a body before them has no Content-Length.
  Connections to the upstream are kept and used again. If a kept connection turns out to be closed, a
  request without a body whose method is idempotent (GET, HEAD, OPTIONS, TRACE, PUT, DELETE) is sent
  once more, on a new connection; tollgate_upstream_retries_total counts these. No other request is
  sent twice, unless nothing of it was sent.
  A response that ends too early or turns out longer than its Content-Length, after its head has been
  passed on, is cut off: HTTP/1.1 clients see a closed connection amid the body, HTTP/2 clients a
  reset stream, and HTTP/1.0 clients, where the answer has no Content-Length, a reset connection;
  tollgate_response_faults_total counts these.

Clients:
  A request that is answered before its body has been read, such as an upload that is denied, receives
  its answer: the rest of the body, up to 16 MiB and for --header-timeout, is read and thrown away, and
  the connection serves again. In HTTP/2 the stream is reset after the answer, with NO_ERROR. A client
  that closes its sending side after its request receives its answer, see --half-close-timeout.

Upgrades (WebSocket and others, HTTP/1.1 on both sides):
  One request, decided as any other; what comes after it is neither read nor limited. What would hide
  requests from the rules is not upgraded to: h2c, HTTP and TLS.

Rules:
  The file is looked at every second, and at once on SIGHUP. A file that is wrong leaves the rules
  in force as they are; standard error and the metric tollgate_rules_last_reload_successful tell so.

Metrics:
  GET /metrics at --admin, in Prometheus's text format; docs/metrics.md explains them.

Health:
  GET /healthz is 200, or 503 while stopping. GET /readyz is 503, too, while a store is down that a rule
  needs (fallback = \"deny\"); it names all stores that are down, and why. Each store is asked for a sign
  of life every second.

Log:
  The proxy writes one line per message to standard error: time (UTC), level, message. It never waits for
  the reader: lines that do not fit the queue are dropped and counted.

Stopping:
  SIGINT and SIGTERM: no more connections, requests under way and upgraded connections have --drain-timeout to end, then
  exit code 0; 1 if some had to be cut off. A second signal stops at once.

Bounds:
  The soft limit of open files is raised to the hard one. A quarter of it (64 to 512) is kept for files,
  stores and --admin. Half of the rest bounds the connections of clients, and what those leave bounds
  the ones to the upstream. Connections beyond --max-connections wait in the system's queue (4096), and
  meanwhile HTTP/1 connections are closed after their next answer to make room. A request that
  needs a connection to the upstream when all are in use waits for one up to --connect-timeout.

  A client that sends the body of a request more slowly than --min-body-rate is answered 408 before there
  is a response; set 0 where clients stream messages that are far between.

Not done: TLS to clients, other retries, several upstreams, upgrades over HTTP/2 (RFC 8441). The body of a
response that moves, however slowly, is not ended.

Examples:
  tollgate proxy
  tollgate proxy --upstream http://127.0.0.1:3000 --rules rules/example.toml --listen 0.0.0.0:8080";

/// A browser opens about as many.
const CLIENT_CONNECTIONS_MIN: u32 = 8;

/// `tollgate proxy`.
#[derive(Args, Debug)]
pub(crate) struct ProxyArgs {
    /// The server behind, such as http://127.0.0.1:3000 or https://backend; without it a small built-in one
    #[arg(long, value_name = "URL")]
    pub(crate) upstream: Option<Upstream>,

    /// Certificates (PEM) that an https upstream's may be signed by, besides the system's
    #[arg(long, value_name = "FILE", requires = "upstream")]
    pub(crate) upstream_ca: Option<PathBuf>,

    /// Speaks HTTP/2 to the upstream, and nothing else: over http without asking, over https by ALPN
    #[arg(long, requires = "upstream", conflicts_with = "preserve_host")]
    pub(crate) upstream_http2: bool,

    /// The rules; without it a few built-in ones, to look at
    #[arg(long, value_name = "FILE")]
    pub(crate) rules: Option<PathBuf>,

    /// Where clients connect; port 0 is any that is free
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    pub(crate) listen: SocketAddr,

    /// Where /metrics and /healthz are
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8081")]
    pub(crate) admin: SocketAddr,

    /// Proxies in front, whose X-Forwarded-For is believed: addresses and prefixes such as
    /// 10.0.0.0/8, separated by commas
    #[arg(long, value_name = "NETWORKS", conflicts_with = "trusted_hops", value_parser = networks)]
    pub(crate) trusted_proxies: Option<Trust>,

    /// So many proxies are in front, whose X-Forwarded-For is believed
    #[arg(long, value_name = "N", value_parser = value_parser!(u8).range(1..=64))]
    pub(crate) trusted_hops: Option<u8>,

    /// The upstream is sent the client's Host, not its own; it is then spoken to in HTTP/1.1
    #[arg(long)]
    pub(crate) preserve_host: bool,

    /// A connection is closed whose client takes longer for the head of a request, the next
    /// included, or for the rest of a body that was answered early
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub(crate) header_timeout: Duration,

    /// How long the upstream may take to accept a connection, TLS included
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = seconds)]
    pub(crate) connect_timeout: Duration,

    /// How long nothing may move between a request and the head of its response
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    pub(crate) response_timeout: Duration,

    /// How long nothing may move of a response that has begun and of its request's body, and how long
    /// a client may read nothing of what it is sent
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pub(crate) body_timeout: Duration,

    /// How long a client that has closed its sending side is waited for while nothing is sent to it;
    /// then its request is given up. A client that resets its connection is given up at once
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub(crate) half_close_timeout: Duration,

    /// How long nothing may move either way on an upgraded connection, such as a WebSocket
    #[arg(long, value_name = "SECONDS", default_value = "3600", value_parser = seconds)]
    pub(crate) tunnel_timeout: Duration,

    /// How long requests under way may take to end when the proxy is to stop
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub(crate) drain_timeout: Duration,

    /// How long a client may be waited for while it sends a body, and a second more for each
    /// --min-body-rate bytes that it has sent; then it is answered 408
    #[arg(long, value_name = "SECONDS", default_value = "20", value_parser = seconds)]
    pub(crate) body_grace: Duration,

    /// Bytes a second that a client must send of a body, until there is a response; 0 is no such
    /// limit
    #[arg(long, value_name = "BYTES", default_value = "500")]
    #[arg(value_parser = value_parser!(u32).range(0..=1_000_000_000))]
    pub(crate) min_body_rate: u32,

    /// Connections of clients at one time; more wait until one ends. It is lowered to what the limit
    /// of open files has room for
    #[arg(long, value_name = "N", default_value = "10000")]
    #[arg(value_parser = value_parser!(u32).range(1..=1_000_000))]
    pub(crate) max_connections: u32,

    /// Connections that one client address (of IPv6, one /64) may have at one time, 0 for no limit;
    /// more are closed at once. Trusted proxies are not limited [default: half of --max-connections, at least 8]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(0..=1_000_000))]
    pub(crate) max_connections_per_client: Option<u32>,

    /// Requests that may wait for their turn (algorithm leaky-queue) at one time; 128 of one key
    #[arg(long, value_name = "N", default_value_t = 1_024)]
    pub(crate) max_waiting: usize,
}

impl ProxyArgs {
    /// As chosen, or half of all connections, so that no address has all of them.
    pub(crate) fn max_connections_per_client(&self) -> u32 {
        let half = (self.max_connections / 2).max(CLIENT_CONNECTIONS_MIN);
        self.max_connections_per_client.unwrap_or(half)
    }
}

/// `10.0.0.0/8,192.0.2.7`.
fn networks(text: &str) -> Result<Trust, String> {
    Trust::networks(text.split(',').map(str::trim)).map_err(|error| error.to_string())
}

/// `2` or `0.5`, above zero and at most a day.
fn seconds(text: &str) -> Result<Duration, String> {
    let span = text.parse().ok().and_then(|secs| Duration::try_from_secs_f64(secs).ok());
    span.filter(|span| !span.is_zero() && *span <= Duration::from_secs(86_400))
        .ok_or_else(|| "write seconds above 0 and up to 86400, such as 2 or 0.5".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_half_of_all_connections_unless_said_otherwise() {
        #[derive(clap::Parser)]
        struct Words {
            #[command(flatten)]
            args: ProxyArgs,
        }

        let most = |words: &[&str]| {
            let words: Words = clap::Parser::parse_from([&["proxy"], words].concat());
            words.args.max_connections_per_client()
        };
        assert_eq!(most(&[]), 5_000);
        assert_eq!(most(&["--max-connections", "3"]), 8);
        assert_eq!(most(&["--max-connections-per-client", "7"]), 7);
        assert_eq!(most(&["--max-connections-per-client", "0"]), 0);
    }

    #[test]
    fn seconds_are_bounded() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for wrong in ["0", "-1", "nan", "inf", "86401", "1e400", "2s", ""] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
