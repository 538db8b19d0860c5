//! The pool of connections to the upstream, in HTTP/1.1 or in HTTP/2. In HTTP/2, all requests share one connection.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use http::Request;
use hyper_util::client::legacy::connect::CaptureConnection;
use hyper_util::client::legacy::{Client, ResponseFuture};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::RootCertStore;
use tokio::sync::Semaphore;

use super::address::Upstream;
use super::connect::Connector;
use super::connect_limit::BoundedConnector;
use super::lead::Lead;
use super::tls_roots;
use super::upload::Upload;
use crate::metrics::Failure;

/// The most idle connections that are kept, and for how long.
const IDLE_CONNECTIONS: usize = 1_024;
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// The largest head of a response in HTTP/1.1, and the largest frame of its body. A client that has not read the end of
/// a frame keeps all of it.
const HTTP1_BUFFER: usize = 128 << 10;
/// The largest head of a response in HTTP/2, whose fields count 32 bytes more each (RFC 9113, 6.5.2).
const HTTP2_HEAD_MAX: u32 = 128 << 10;
/// The interval of pings to an HTTP/2 upstream; a missing reply ends the connection.
const PING_INTERVAL: Duration = Duration::from_secs(30);
/// How many bytes of a response an HTTP/2 upstream may send ahead of its client. The window of the connection is the
/// largest, so that responses whose clients do not read leave room for those of other clients.
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = (1 << 31) - 1;

/// The options of connections to the upstream.
#[derive(Clone, Debug)]
pub(crate) struct PoolOptions {
    /// Certificates that an https upstream's may be signed by, besides the system's.
    pub(crate) ca: Option<PathBuf>,
    /// Whether the version is HTTP/2; otherwise it is HTTP/1.1.
    pub(crate) is_http2: bool,
    /// Whether the proxy sends the upstream the client's Host. In HTTP/2, hyper takes `:authority` from the connection.
    pub(crate) preserve_host: bool,
    pub(crate) connect_timeout: Duration,
    /// For an HTTP/1.1 upstream that does not read an upload, although its response has ended.
    pub(crate) write_timeout: Duration,
    pub(crate) connections_max: usize,
}

/// All connections to the upstream.
#[derive(Debug)]
pub(super) struct Pool {
    /// Reuses connections.
    kept: Client<BoundedConnector, Upload>,
    /// Opens a new connection for each request.
    fresh: Client<BoundedConnector, Upload>,
    is_http2: bool,
    /// For HTTP/2, if connections are kept.
    lead: Option<Lead>,
}

/// The connection that a request may have.
#[derive(Clone, Copy, Debug)]
pub(super) enum Connection {
    /// A reused one, or a new one.
    Any,
    New,
}

impl Pool {
    /// At most `connections_max` connections at a time.
    pub(super) fn new(upstream: &Upstream, options: &PoolOptions) -> Result<Self> {
        let is_secure = upstream.is_secure();
        if options.ca.is_some() && !is_secure {
            bail!("--upstream-ca needs an https upstream, and {upstream} is not one");
        }
        let roots = match is_secure {
            true => tls_roots::trusted(options.ca.as_deref())?,
            false => RootCertStore::empty(),
        };
        // HTTP/2 is never left to the upstream's choice: its one connection has fewer streams than requests may need.
        let protocol = if options.is_http2 { "h2" } else { "http/1.1" };
        let slots = options.connections_max.min(Semaphore::MAX_PERMITS);
        let connector = BoundedConnector {
            connector: Connector::new(
                tls_roots::config(roots, protocol)?,
                options.connect_timeout,
                options.is_http2,
                options.write_timeout,
            ),
            slots: Arc::new(Semaphore::new(slots)),
            timeout: options.connect_timeout,
        };
        // A request on a new connection cannot use the slot of an idle one.
        let kept_max = IDLE_CONNECTIONS.min(options.connections_max / 4);
        Ok(Self {
            kept: client(connector.clone(), options.is_http2, kept_max),
            fresh: client(connector, options.is_http2, 0),
            is_http2: options.is_http2,
            lead: (options.is_http2 && kept_max > 0).then(|| Lead::new(options.connect_timeout)),
        })
    }

    /// Whether all connections are HTTP/2. Others can be upgraded.
    pub(super) fn is_http2(&self) -> bool {
        self.is_http2
    }

    /// The connections on which a request is sent again, one after the other, if the upstream closed a reused one. In
    /// HTTP/2 many requests are sent again at once, and share a new connection first. It may close, too.
    pub(super) fn again(&self) -> &'static [Connection] {
        match self.is_http2 {
            true => &[Connection::Any, Connection::New],
            false => &[Connection::New],
        }
    }

    /// Sends a request.
    pub(super) fn send(&self, request: Request<Upload>, on: Connection) -> ResponseFuture {
        match on {
            Connection::Any => self.kept.request(request),
            Connection::New => self.fresh.request(request),
        }
    }

    /// Waits for the response to a request that is sent on a connection of this kind. If a request needs the
    /// connection that all share in HTTP/2, at most one request at a time opens it.
    pub(super) async fn answer<T>(
        &self,
        sent: impl Future<Output = Result<T, Failure>>,
        on: Connection,
        connection: &CaptureConnection,
    ) -> Result<T, Failure> {
        match (&self.lead, on) {
            (Some(lead), Connection::Any) => lead.run(sent, connection).await,
            _ => sent.await,
        }
    }
}

fn client(
    connector: BoundedConnector,
    is_http2: bool,
    kept_max: usize,
) -> Client<BoundedConnector, Upload> {
    Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_TIMEOUT)
        .pool_max_idle_per_host(kept_max)
        .http1_max_buf_size(HTTP1_BUFFER)
        .http2_only(is_http2)
        .http2_max_header_list_size(HTTP2_HEAD_MAX)
        .http2_initial_stream_window_size(STREAM_WINDOW)
        .http2_initial_connection_window_size(CONNECTION_WINDOW)
        .http2_keep_alive_interval(PING_INTERVAL)
        .build(connector)
}
