//! The configuration of a proxy.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tollgate_http::Dialect;
use tollgate_http::key::Trust;

use crate::upstream::{BodyRate, Upstream};

/// The longest timeout. Longer ones may overflow the time at which they end.
const TIMEOUT_MAX: Duration = Duration::from_secs(86_400);

/// The configuration of a proxy: the options of `tollgate proxy`.
#[derive(Clone, Debug)]
pub struct Config {
    /// The address at which clients connect. Port 0 is any free port.
    pub listen: SocketAddr,
    /// The address of `/metrics`, `/healthz` and `/readyz`.
    pub admin: SocketAddr,
    /// The rules file; without it, built-in demonstration rules.
    pub rules: Option<PathBuf>,
    /// The server behind the proxy; without it, a built-in one that echoes requests.
    pub upstream: Option<Upstream>,
    /// Certificates (PEM) that an https upstream's may be signed by, besides the system's.
    pub upstream_ca: Option<PathBuf>,
    /// Whether the proxy speaks HTTP/2 to the upstream instead of HTTP/1.1. All requests then share one
    /// connection. Requests beyond its limit of concurrent streams wait, and if the connection fails, all of its
    /// requests fail.
    pub upstream_http2: bool,
    /// Whether the proxy sends the upstream the client's Host instead of the upstream's own. This needs HTTP/1.1.
    pub preserve_host: bool,
    /// Whether headers and trailers of clients are forwarded whatever characters their names have. Otherwise only names
    /// of letters, digits and hyphens are, because CGI, WSGI and others read `X_Api_Key` as `X-Api-Key`.
    pub any_field_names: bool,
    /// Proxies in front whose `X-Forwarded-For` is trusted, by their networks.
    pub trusted_proxies: Option<Trust>,
    /// The number of proxies in front whose `X-Forwarded-For` is trusted.
    pub trusted_hops: Option<u8>,
    /// The timeouts.
    pub timeouts: Timeouts,
    /// How slowly a client may send the body of a request.
    pub body_rate: BodyRate,
    /// Connections of clients at one time: at least 1, else [`run`](crate::run) returns an error, and at most as many
    /// as the limit of open files allows.
    pub max_connections: u32,
    /// Connections of one client address at one time; 0 means no limit. `None` is half of the connections
    /// of all clients, and at least 8, so that no address has all of them.
    ///
    /// Unless this is 0, the requests in flight of an address are bounded too, because an HTTP/2 connection may have
    /// many. The bound is this value, or half of the connections of all clients if that is more; that half counts as
    /// at least 128, but at most half of the connections to the upstream.
    pub max_connections_per_client: Option<u32>,
    /// Requests that may wait for their turn at one time.
    pub max_waiting: usize,
    /// Another form of the rate limit fields.
    pub dialect: Option<Dialect>,
}

impl Config {
    /// The trusted proxies in front, if any.
    pub(crate) fn trust(&self) -> Option<Trust> {
        let hops = self.trusted_hops.map(|count| Trust::hops(count.into()));
        self.trusted_proxies.clone().or(hops)
    }
}

/// The timeouts of a proxy: how long it waits. Zero is no wait at all, and more than a day counts as a day.
///
/// A slow reader, client or upstream, makes progress only when the system's send buffer has room again: on Linux when
/// the peer has read some hundred kilobytes, on other systems perhaps some megabytes. So over HTTP/1.1, a client that
/// reads steadily, but less than about 10 kB/s (on other systems 30 kB/s), may be cut off after the default `body` of
/// 60 seconds. A client of HTTP/2 must read 16 KiB of each response within `body`.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// For the head of a request, and for the rest of a body that was answered early.
    pub header: Duration,
    /// For the upstream to accept a connection, TLS included.
    pub connect: Duration,
    /// While nothing moves between a request and the head of its response.
    pub response: Duration,
    /// While nothing moves of a response's body and of its request's body, and while a client
    /// reads nothing of what it is sent.
    pub body: Duration,
    /// For a client that has closed its sending side, while nothing is sent to it.
    pub half_close: Duration,
    /// While no byte moves either way on an upgraded connection.
    pub tunnel: Duration,
    /// For requests under way when the proxy stops.
    pub drain: Duration,
}

impl Timeouts {
    /// The same timeouts, each at most a day.
    pub(crate) fn up_to_a_day(self) -> Self {
        let Self { header, connect, response, body, half_close, tunnel, drain } = self;
        let bounded = |timeout: Duration| timeout.min(TIMEOUT_MAX);
        Self {
            header: bounded(header),
            connect: bounded(connect),
            response: bounded(response),
            body: bounded(body),
            half_close: bounded(half_close),
            tunnel: bounded(tunnel),
            drain: bounded(drain),
        }
    }
}
