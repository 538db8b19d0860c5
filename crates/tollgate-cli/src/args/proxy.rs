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
  names, Keep-Alive, TE, Upgrade, ...), X-Forwarded-For with the peer's address appended,
  X-Forwarded-Host, X-Forwarded-Proto and Via. Host is the upstream's, unless --preserve-host.

Answers of its own, all of application/problem+json:
  429 a rule refuses (with Retry-After, RateLimit-Policy, RateLimit)   503 too many wait for a turn
  400 a rule needs a key that the request has not, or its body is malformed
  408 the client stops sending its body
  502 the upstream cannot be reached, or answers what is no HTTP       504 it takes too long
  501 CONNECT, and the target `*`

Rules:
  The file is looked at every second, and at once on SIGHUP. A file that is wrong leaves the rules
  in force as they are; standard error and the metric tollgate_rules_last_reload_successful tell so.

Metrics:
  GET /metrics at --admin, in Prometheus's text format; GET /healthz is 200, or 503 while stopping.

Stopping:
  SIGINT and SIGTERM: no more connections, requests under way have --drain-timeout to end, then
  exit code 0; 1 if some had to be cut off. A second signal stops at once.

Not done: TLS on either side (an https upstream is an error), HTTP/2 to the upstream and so gRPC,
upgrades such as WebSocket, retries, several upstreams. A response that has begun may take as long
as it takes, and so may a client that reads it slowly.

Examples:
  tollgate proxy
  tollgate proxy --upstream http://127.0.0.1:3000 --rules rules/example.toml --listen 0.0.0.0:8080";

/// `tollgate proxy`.
#[derive(Args, Debug)]
pub(crate) struct ProxyArgs {
    /// The server behind, such as http://127.0.0.1:3000; without it a small built-in one
    #[arg(long, value_name = "URL")]
    pub(crate) upstream: Option<Upstream>,

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

    /// The upstream is sent the client's Host, not its own
    #[arg(long)]
    pub(crate) preserve_host: bool,

    /// A connection is closed whose client takes longer for the head of a request, the next
    /// included
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub(crate) header_timeout: Duration,

    /// How long the upstream may take to accept a connection
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = seconds)]
    pub(crate) connect_timeout: Duration,

    /// How long nothing may move between a request and the head of its response
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    pub(crate) response_timeout: Duration,

    /// How long requests under way may take to end when the proxy is to stop
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub(crate) drain_timeout: Duration,

    /// Connections at one time; more wait until one ends
    #[arg(long, value_name = "N", default_value = "10000")]
    #[arg(value_parser = value_parser!(u32).range(1..=1_000_000))]
    pub(crate) max_connections: u32,

    /// Requests that may wait for their turn (algorithm leaky-queue) at one time
    #[arg(long, value_name = "N", default_value_t = 1_024)]
    pub(crate) max_waiting: usize,
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
    fn seconds_are_bounded() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for wrong in ["0", "-1", "nan", "inf", "86401", "1e400", "2s", ""] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
