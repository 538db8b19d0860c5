//! Opens connections to the upstream: TCP, and TLS if the scheme is https, within one timeout.

use std::error::Error;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use arc_swap::ArcSwap;
use http::Uri;
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::{Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use tokio::net::TcpStream;
use tower_service::Service;

use super::exchange::TracedStream;
use crate::log;

type BoxError = Box<dyn Error + Send + Sync>;

/// A connection to the upstream.
pub(super) type UpstreamStream =
    TokioIo<TracedStream<TokioIo<MaybeHttpsStream<TokioIo<TcpStream>>>>>;

/// Opens connections.
#[derive(Clone, Debug)]
pub(super) struct Connector {
    connector: HttpsConnector<HttpConnector>,
    timeout: Duration,
    is_http2: bool,
    last_error: Arc<LastTlsError>,
}

/// Why no connection was opened.
#[derive(Debug)]
pub(super) enum ConnectError {
    /// The timeout expired.
    Timeout,
    /// The server does not speak TLS, or is not trusted.
    Tls(BoxError),
    /// The TCP connection failed.
    Tcp(BoxError),
}

impl Connector {
    pub(super) fn new(tls: ClientConfig, timeout: Duration, is_http2: bool) -> Self {
        let mut http = HttpConnector::new();
        http.set_nodelay(true);
        http.set_connect_timeout(Some(timeout));
        http.enforce_http(false);
        let connector = HttpsConnector::from((http, tls));
        Self { connector, timeout, is_http2, last_error: Arc::default() }
    }
}

impl Service<Uri> for Connector {
    type Response = UpstreamStream;
    type Error = ConnectError;
    type Future = Pin<Box<dyn Future<Output = Result<UpstreamStream, ConnectError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        self.connector.poll_ready(context).map_err(ConnectError::from)
    }

    fn call(&mut self, target: Uri) -> Self::Future {
        let (last_error, is_http2) = (Arc::clone(&self.last_error), self.is_http2);
        let connected_stream = tokio::time::timeout(self.timeout, self.connector.call(target));
        Box::pin(async move {
            let connected_stream = connected_stream.await.map_err(|_| ConnectError::Timeout)?;
            let stream = connected_stream
                .map_err(ConnectError::from)
                .inspect_err(|error| last_error.log_once(error))?;
            let is_http2 = is_http2 || stream.connected().is_negotiated_h2();
            Ok(TokioIo::new(TracedStream::new(TokioIo::new(stream), is_http2)))
        })
    }
}

impl From<BoxError> for ConnectError {
    fn from(error: BoxError) -> Self {
        // Errors of TCP have their own type; a bare io::Error comes from TLS.
        if error.is::<io::Error>() {
            return Self::Tls(error);
        }
        let mut cause = error.source();
        while let Some(error) = cause {
            if let Some(error) = error.downcast_ref::<io::Error>()
                && error.kind() == io::ErrorKind::TimedOut
            {
                return Self::Timeout;
            }
            cause = error.source();
        }
        Self::Tcp(error)
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timeout => f.write_str("no connection within the timeout"),
            Self::Tls(error) => write!(f, "no TLS connection: {error}"),
            Self::Tcp(error) => write!(f, "no connection: {error}"),
        }
    }
}

impl Error for ConnectError {}

/// The TLS error that was logged last. An error is logged again only after another one.
#[derive(Debug, Default)]
struct LastTlsError(ArcSwap<String>);

impl LastTlsError {
    fn log_once(&self, error: &ConnectError) {
        let ConnectError::Tls(why) = error else { return };
        let why = why.to_string();
        if **self.0.load() != why {
            log::warn(format_args!("no TLS connection to the upstream: {why}"));
            self.0.store(Arc::new(why));
        }
    }
}
