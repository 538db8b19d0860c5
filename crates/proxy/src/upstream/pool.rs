//! The pool of connections to the upstream. One pool uses the version that the upstream prefers; another
//! uses HTTP/1.1 for upgrades.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use http::Request;
use hyper_util::client::legacy::{Client, ResponseFuture};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::RootCertStore;
use tokio::sync::Semaphore;

use super::address::Upstream;
use super::connect::Connector;
use super::connect_limit::BoundedConnector;
use super::tls_roots;
use super::upload::Upload;

/// The most idle connections that are kept, and for how long.
const IDLE_CONNECTIONS: usize = 1_024;
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
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
    /// Whether HTTP/2 is the only version.
    pub(crate) is_http2: bool,
    /// Whether the proxy sends the upstream the client's Host.
    pub(crate) preserve_host: bool,
    pub(crate) connect_timeout: Duration,
    pub(crate) connections_max: usize,
}

/// All connections to the upstream.
#[derive(Debug)]
pub(super) struct Pool {
    preferred: ClientPair,
    upgradable: Option<ClientPair>,
    are_http1: bool,
}

/// A client that reuses connections, and one that opens a new connection for each request.
#[derive(Clone, Debug)]
struct ClientPair {
    kept: Client<BoundedConnector, Upload>,
    fresh: Client<BoundedConnector, Upload>,
}

/// The kind of connection that a request needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Route {
    /// Whether the connection must be upgradable.
    pub(super) is_upgrade: bool,
    /// Whether the connection may be a reused one.
    pub(super) may_reuse: bool,
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
        // Two pools may each keep connections that the other cannot use.
        let kept_max = IDLE_CONNECTIONS.min(options.connections_max / 4);
        let slots = Arc::new(Semaphore::new(options.connections_max.min(Semaphore::MAX_PERMITS)));
        let pair = |protocols: &[&str]| {
            let tls = tls_roots::config(roots.clone(), protocols)?;
            let (timeout, slots) = (options.connect_timeout, Arc::clone(&slots));
            let connector = Connector::new(tls, timeout, options.is_http2);
            let connector = BoundedConnector { connector, slots, timeout };
            anyhow::Ok(ClientPair {
                kept: client(connector.clone(), options.is_http2, kept_max),
                fresh: client(connector, options.is_http2, 0),
            })
        };
        if options.is_http2 {
            return Ok(Self { preferred: pair(&["h2"])?, upgradable: None, are_http1: false });
        }
        let http1 = pair(&["http/1.1"])?;
        // In HTTP/2, hyper takes `:authority` from the connection. So the client's host needs HTTP/1.1.
        if options.preserve_host || !is_secure {
            return Ok(Self { preferred: http1.clone(), upgradable: Some(http1), are_http1: true });
        }
        Ok(Self {
            preferred: pair(&["h2", "http/1.1"])?,
            upgradable: Some(http1),
            are_http1: false,
        })
    }

    /// Whether connections can be upgraded.
    pub(super) fn can_upgrade(&self) -> bool {
        self.upgradable.is_some()
    }

    /// Whether all connections are HTTP/1.1.
    pub(super) fn are_http1(&self) -> bool {
        self.are_http1
    }

    /// Sends a request.
    pub(super) fn send(&self, request: Request<Upload>, route: Route) -> ResponseFuture {
        let upgradable = self.upgradable.as_ref().filter(|_| route.is_upgrade);
        let pair = upgradable.unwrap_or(&self.preferred);
        match route.may_reuse {
            true => pair.kept.request(request),
            false => pair.fresh.request(request),
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
        .http2_only(is_http2)
        .http2_initial_stream_window_size(STREAM_WINDOW)
        .http2_initial_connection_window_size(CONNECTION_WINDOW)
        .http2_keep_alive_interval(PING_INTERVAL)
        .build(connector)
}
