//! The options of `tollgate proxy`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, value_parser};
use tollgate_proxy::{BodyRate, Config, Dialect, Timeouts, Trust, Upstream};

pub(super) const HELP: &str = "\
Headers:
  The upstream receives the client's headers without those of the connection (Connection, the headers
  that it names, Keep-Alive, ...; TE: trailers is kept). The proxy appends the peer's address to
  X-Forwarded-For, which becomes one line, and sets X-Forwarded-Host, X-Forwarded-Proto and Via. Those
  of Host and Proto that a trusted proxy has set are kept. Forwarded passes as the client sent it, so
  the upstream must not trust it. Host is the upstream's, unless --preserve-host is given.
  A header or trailer of the client whose name has another character than letters, digits and hyphens
  is dropped, as nginx does by default, and so is metadata of gRPC calls with _ or . in its name: CGI,
  WSGI and others read X_Api_Key as X-Api-Key. --any-field-names forwards them. Responses keep such
  names. Rules see neither dropped headers nor those that Connection names. An OPTIONS or TRACE request
  with Max-Forwards: 0 is answered by the proxy; a greater number is reduced by one. Expect is not
  forwarded: the proxy itself sends 100 Continue, as soon as it forwards the body, in HTTP/1.1 only.

Responses of the proxy itself, all of type application/problem+json:
  429 a rule denies (with Retry-After, RateLimit-Policy, RateLimit)
  403 a rule with action = \"deny\" matches
  503 too many requests wait for their turn; a store does not answer and its fallback is \"deny\"; the
      address of the client has too many requests in flight (see Bounds)
  400 the target or the host is malformed, or the host missing or repeated; the body is malformed, or
      has another transfer coding than chunked; a value of HTTP/2 begins or ends with white space; the
      path goes above the root by `..` although --upstream has a path; a rule needs a key that the
      request does not have, or depends on how its path is read (see tollgate check --explain)
  408 the client stops sending its body, or sends it too slowly
  502 the upstream cannot be reached, is not trusted (https), or answers with something that is not
      HTTP, or that states its length twice (Content-Length and Transfer-Encoding), in an unknown way
      or wrongly
  504 the upstream takes too long
  414 the target is too long behind the path of --upstream
  501 the method is CONNECT, or the target is `*`
  405 the method is TRACE, with Max-Forwards: 0
  A head that is not HTTP receives 400, and one that is too large 414 or 431 (see Bounds), without a
  body. No rule decides such a request, and no metric counts it.
  A gRPC call (POST, content type application/grpc...) that a rule denies receives a gRPC response
  instead: status 200 and grpc-status 8 (RESOURCE_EXHAUSTED) for the 429 above, 7 for action = \"deny\",
  3 without a key or with an unclear path, and 14 for a 503 of the rules. A call that is over a limit
  or finds a full queue also receives grpc-retry-pushback-ms.

Upstream:
  The version is HTTP/1.1, or HTTP/2 with --upstream-http2. The certificate of an https upstream is
  verified against the system's roots and --upstream-ca, and the log says why one was not trusted.
  Trailers pass in both directions, so gRPC works from an HTTP/2 client with --upstream-http2. Over
  HTTP/1.1, trailers must be announced (Trailer, and by a client TE: trailers), and the body before
  them has no Content-Length.
  With --upstream-http2, all requests share one connection. If it fails, all of them fail. The
  upstream limits how many are in flight on it (often to 100 or 128); further ones wait for up to
  --response-timeout, so slow clients can hold up the others. An upstream that ends its connection
  without a graceful GOAWAY, as nginx does every keepalive_requests (1000), fails the requests with a
  body that are on their way: raise that number.
  Connections to the upstream are reused. If a reused connection turns out to be closed, a request
  without a body whose method is idempotent (GET, HEAD, OPTIONS, TRACE, PUT, DELETE) is sent once more,
  on a new connection, which in HTTP/2 it shares with others, and if that one closes too, on one of its
  own; tollgate_upstream_retries_total counts these. No other request is sent twice, unless no byte of
  it was sent.
  If a response ends too early, or exceeds its Content-Length after its head was sent to the client,
  it is cut off: an HTTP/1.1 client sees the connection close inside the body, an HTTP/2 client sees a
  reset stream, and an HTTP/1.0 client without a Content-Length sees a reset connection.
  tollgate_response_faults_total counts these. A client sees the same if the proxy cuts the response
  off after a timeout, or when it stops.

Clients:
  If a request is answered before its body is read (a denied upload, for example), the client receives
  the answer: the proxy reads and discards the rest of the body, up to 16 MiB and for up to
  --header-timeout, and the connection stays usable. In HTTP/2 the stream is reset with NO_ERROR after
  the answer. In HTTP/1.1, a client that closes its sending side after its request still receives its
  answer; see --half-close-timeout. In HTTP/2, that ends the connection.

Upgrades (WebSocket and others, HTTP/1.1 on both sides):
  An upgrade is decided as one request. The bytes after it are neither inspected nor limited. The
  proxy does not upgrade to protocols that would carry requests past the rules: h2c, HTTP and TLS.
  If the upstream requires an upgrade (426), the client learns to which protocols, except these. It
  receives 502 if none is left, or if it does not speak HTTP/1.1.

Rules:
  The proxy checks the file every second, and immediately on SIGHUP. If the file has a mistake, the
  rules in force stay unchanged; the log and the metric tollgate_rules_last_reload_successful say so.
  They stay, too, if its limits cannot be built, for lack of memory for example; that is tried again
  every second.

Metrics:
  GET /metrics at --admin, in the Prometheus text format; docs/metrics.md describes each metric.

Health:
  GET /healthz is 200, or 503 while the proxy stops. GET /readyz is also 503 while a store is down and
  a rule denies requests because of that; it names each store that is down, and why. The proxy pings
  each store every second.

Log:
  The proxy writes one line per message to standard error: time (UTC), level, message. It never waits
  for the reader: messages that do not fit the queue are dropped and counted.

Stopping:
  On SIGINT or SIGTERM the proxy accepts no more connections. Requests in flight and upgraded
  connections have --drain-timeout to finish. The exit code is 0, or 1 if a connection on which a
  request had arrived was cut off. An HTTP/2 client without a request in flight that sends nothing for
  5 seconds is not waited for. A second signal stops the proxy immediately.

Bounds:
  The proxy raises the soft limit of open files to the hard limit. It reserves a quarter of the files
  (64 to 512) for files, stores and --admin. Half of the rest bounds the connections of clients; what
  they leave bounds the connections to the upstream, of which --upstream-http2 needs one. Connections
  beyond --max-connections wait in the system's queue (4096); meanwhile HTTP/1 connections are closed
  after their next response to make room, and HTTP/2 connections without a request in flight are asked
  to close (GOAWAY), one a second. A connection that idles for --header-timeout is asked too. A client
  that then sends nothing for 5 seconds, or does not read the end of its responses for --body-timeout,
  is cut off. A request that needs an upstream connection when all are in use waits up to
  --connect-timeout. So does one that needs the address of the upstream's name while 128 lookups run.
  The head of a request has at most 100 fields and 128 kB in HTTP/1.1, and its target at most 64 kB, the
  path of --upstream included; in HTTP/2 it has at most 16 kB. More is answered 431, or 414 for the
  target; a Content-Length of 2^64 - 2 or more is answered 431, too. A response whose head has more than
  128 kB, or in HTTP/1.1 more than 100 fields, is a 502. In HTTP/1.1, a head that arrives in large pieces
  may have about twice as much.
  An HTTP/1 connection takes up to 128 kB of memory while its head is incomplete, and about 500 kB while
  its client does not read the response: 10000 of them take 5 GB. An HTTP/2 connection has at most 128
  requests in flight, and sends up to 64 kB of each body, 8 MB in total, before the upstream reads it.
  The requests in flight of a client address are bounded too, unless --max-connections-per-client is 0,
  so that HTTP/2 connections cannot take all connections to the upstream: to half of the connections of
  clients (at least 128, but at most half of those to the upstream), or to --max-connections-per-client
  if that is more. A connection counts as a request while it idles, and after it has closed until its
  last upload has ended. Further requests on an HTTP/2 connection receive 503. Trusted proxies are exempt.
  A client that sends the body of a request more slowly than --min-body-rate receives 408 if there is
  no response yet; set it to 0 where clients send messages at long intervals.

Not supported: TLS to clients, other retries, several upstreams, upgrades over HTTP/2 (RFC 8441), a
minimum rate for the body of a response, interim responses of the upstream such as 100 (Continue) and
103 (Early Hints), which are dropped, and an upstream that authenticates connections instead of
requests (NTLM, Negotiate): clients share the connections to it.

Examples:
  tollgate proxy
  tollgate proxy --upstream http://127.0.0.1:3000 --rules rules/example.toml --listen 0.0.0.0:8080";

/// `tollgate proxy`.
#[derive(Args, Debug)]
pub(crate) struct ProxyArgs {
    /// The server behind the proxy, such as http://127.0.0.1:3000 or https://backend [default: a
    /// built-in demonstration server]
    #[arg(long, value_name = "URL")]
    upstream: Option<Upstream>,

    /// Certificate authorities (PEM) to trust for an https upstream, besides the system's; or its own
    /// certificate, self-signed, if that is not an authority (basicConstraints CA:FALSE)
    #[arg(long, value_name = "FILE", requires = "upstream")]
    upstream_ca: Option<PathBuf>,

    /// Speaks HTTP/2 to the upstream, on one connection for all requests: by prior knowledge over http,
    /// by ALPN over https
    #[arg(long, requires = "upstream", conflicts_with = "preserve_host")]
    upstream_http2: bool,

    /// The rules file [default: a few built-in demonstration rules]
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,

    /// The address for clients; port 0 means any free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080", value_parser = address)]
    listen: SocketAddr,

    /// The address for /metrics, /healthz and /readyz
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8081", value_parser = address)]
    admin: SocketAddr,

    /// Proxies in front whose X-Forwarded-For is trusted: addresses and prefixes such as
    /// 10.0.0.0/8, separated by commas
    #[arg(long, value_name = "NETWORKS", conflicts_with = "trusted_hops", value_parser = networks)]
    trusted_proxies: Option<Trust>,

    /// The number of proxies in front whose X-Forwarded-For is trusted
    #[arg(long, value_name = "N", value_parser = value_parser!(u8).range(1..=64))]
    trusted_hops: Option<u8>,

    /// Sends the client's Host to the upstream instead of the upstream's own, in HTTP/1.1
    #[arg(long)]
    preserve_host: bool,

    /// Forwards headers and trailers whatever characters their names have, such as gRPC metadata with
    /// _ or . in its name. Only for upstreams to which X_Api_Key and X-Api-Key are two names:
    /// others take a client's X_Forwarded_For for the X-Forwarded-For that the proxy writes
    #[arg(long)]
    any_field_names: bool,

    /// How long a client may take to send the head of a request (idle time between requests
    /// included), or the rest of a body that was answered early
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    header_timeout: Duration,

    /// How long the upstream may take to accept a connection, TLS handshake included
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = seconds)]
    connect_timeout: Duration,

    /// How long the upstream may take to send the head of a response while the request makes no
    /// progress; an upstream that reads the request slowly makes progress each time it has read some
    /// hundred kilobytes (on other systems than Linux, up to some megabytes)
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    response_timeout: Duration,

    /// How long a response and the body of its request may make no progress, and how long a client
    /// may read nothing of what it is sent; not for upgraded connections. A client of HTTP/1.1 must
    /// read about half a megabyte in this time, and more if its receive buffer is larger than 4 MB (on
    /// other systems than Linux, up to some megabytes); one of HTTP/2 16 KiB of each response
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    body_timeout: Duration,

    /// How long the proxy waits for the response of a client that has closed its sending side, while
    /// nothing is sent to that client; a reset connection is given up immediately
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    half_close_timeout: Duration,

    /// How long an upgraded connection, such as a WebSocket, may be idle in both directions; a slow
    /// reader counts each time it has read some hundred kilobytes (on other systems than Linux, up to
    /// some megabytes)
    #[arg(long, value_name = "SECONDS", default_value = "3600", value_parser = seconds)]
    tunnel_timeout: Duration,

    /// How long requests in flight may take to finish when the proxy stops
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    drain_timeout: Duration,

    /// How long the proxy waits in total for a client that sends a body, plus one second for each
    /// --min-body-rate bytes received; then the client receives 408
    #[arg(long, value_name = "SECONDS", default_value = "20", value_parser = seconds)]
    body_grace: Duration,

    /// Bytes per second that a client must send of a body until there is a response; 0 means no
    /// minimum
    #[arg(long, value_name = "BYTES", default_value = "500")]
    #[arg(value_parser = value_parser!(u32).range(0..=1_000_000_000))]
    min_body_rate: u32,

    /// Connections of clients at one time; further clients wait until one ends. Lowered if the limit
    /// of open files is too small
    #[arg(long, value_name = "N", default_value = "10000")]
    #[arg(value_parser = value_parser!(u32).range(1..=1_000_000))]
    max_connections: u32,

    /// Connections of one client address (in IPv6, one /64) at one time, 0 for no limit; further ones
    /// are closed immediately. A closed one counts until its uploads have ended. Trusted proxies are
    /// exempt [default: half of those of all clients, at least 8]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(0..=1_000_000))]
    max_connections_per_client: Option<u32>,

    /// Requests that may wait for their turn (algorithm leaky-queue) at one time, at most 128 per key
    #[arg(long, value_name = "N", default_value_t = 1_024)]
    max_waiting: usize,

    /// Another form of the rate limit fields: draft-7 in place of that of the newest draft, or
    /// X-RateLimit-* besides, as envoy or github writes them
    #[arg(long, value_name = "NAME", value_parser = dialect)]
    dialect: Option<Dialect>,
}

impl ProxyArgs {
    /// The configuration for the library.
    pub(crate) fn config(self) -> Config {
        Config {
            listen: self.listen,
            admin: self.admin,
            rules: self.rules,
            upstream: self.upstream,
            upstream_ca: self.upstream_ca,
            upstream_http2: self.upstream_http2,
            preserve_host: self.preserve_host,
            any_field_names: self.any_field_names,
            trusted_proxies: self.trusted_proxies,
            trusted_hops: self.trusted_hops,
            timeouts: Timeouts {
                header: self.header_timeout,
                connect: self.connect_timeout,
                response: self.response_timeout,
                body: self.body_timeout,
                half_close: self.half_close_timeout,
                tunnel: self.tunnel_timeout,
                drain: self.drain_timeout,
            },
            body_rate: BodyRate { grace: self.body_grace, min_bytes_per_s: self.min_body_rate },
            max_connections: self.max_connections,
            max_connections_per_client: self.max_connections_per_client,
            max_waiting: self.max_waiting,
            dialect: self.dialect,
        }
    }
}

/// `draft-7`, `envoy` or `github`.
fn dialect(text: &str) -> Result<Dialect, String> {
    match text {
        "draft-7" => Ok(Dialect::Draft7),
        "envoy" => Ok(Dialect::Envoy),
        "github" => Ok(Dialect::GitHub),
        _ => Err("write draft-7, envoy or github".to_owned()),
    }
}

/// `127.0.0.1:8080`.
fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        "write an IP address and a port, such as 127.0.0.1:8080, 0.0.0.0:8080 or [::]:8080"
            .to_owned()
    })
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
    fn an_address_has_an_ip_and_a_port() {
        assert_eq!(address("0.0.0.0:80"), Ok(SocketAddr::from(([0, 0, 0, 0], 80))));
        assert!(address("[::1]:0").is_ok());
        for wrong in
            ["8080", ":8080", "localhost:8080", "127.0.0.1", "::1:80", "127.0.0.1:65536", ""]
        {
            assert!(address(wrong).unwrap_err().contains("such as 127.0.0.1:8080"), "{wrong}");
        }
    }

    #[test]
    fn seconds_are_above_zero_and_at_most_a_day() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for wrong in ["0", "-1", "nan", "inf", "86401", "1e400", "2s", ""] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
