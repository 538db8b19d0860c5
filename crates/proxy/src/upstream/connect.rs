//! Opens connections to the upstream: TCP, and TLS if the scheme is https, within one timeout.

use std::error::Error;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use http::Uri;
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tower_service::Service;

use super::causes::causes;
use super::exchange::TracedStream;
use super::resolve::Resolver;
use crate::log;
use crate::process::send_buffer::limit_unsent;
use crate::request::whole_body::BoxError;

/// The shortest time between two log lines of the same error, and of different ones.
const SAME_INTERVAL: Duration = Duration::from_secs(3_600);
const OTHER_INTERVAL: Duration = Duration::from_secs(1);

/// A connection to the upstream.
pub(super) type UpstreamStream =
    TokioIo<TracedStream<TokioIo<MaybeHttpsStream<TokioIo<TcpStream>>>>>;

/// Opens connections.
#[derive(Clone, Debug)]
pub(super) struct Connector {
    connector: HttpsConnector<HttpConnector<Resolver>>,
    timeout: Duration,
    is_http2: bool,
    write_timeout: Duration,
    last_error: Arc<LastError>,
}

/// Why no connection was opened.
#[derive(Debug)]
pub(super) enum ConnectError {
    /// The timeout expired.
    Timeout,
    /// The server does not speak TLS, or is not trusted.
    Tls(BoxError),
    /// The name was not found, or the TCP connection failed.
    Tcp(BoxError),
}

impl Connector {
    pub(super) fn new(
        tls: ClientConfig,
        timeout: Duration,
        is_http2: bool,
        write_timeout: Duration,
    ) -> Self {
        let mut http = HttpConnector::new_with_resolver(Resolver::new());
        http.set_nodelay(true);
        http.set_connect_timeout(Some(timeout));
        http.enforce_http(false);
        let connector = HttpsConnector::from((http, tls));
        Self { connector, timeout, is_http2, write_timeout, last_error: Arc::default() }
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
        let Self { is_http2, write_timeout, .. } = *self;
        let last_error = Arc::clone(&self.last_error);
        let connected_stream = tokio::time::timeout(self.timeout, self.connector.call(target));
        Box::pin(async move {
            let connected_stream = connected_stream.await.map_err(|_| ConnectError::Timeout)?;
            let stream = connected_stream
                .map_err(ConnectError::from)
                .inspect_err(|error| last_error.log(error))?;
            limit_unsent(match &stream {
                MaybeHttpsStream::Http(tcp) => tcp.inner(),
                MaybeHttpsStream::Https(tls) => tls.inner().get_ref().0.inner().inner(),
            });
            Ok(TokioIo::new(TracedStream::new(TokioIo::new(stream), is_http2, write_timeout)))
        })
    }
}

impl From<BoxError> for ConnectError {
    fn from(error: BoxError) -> Self {
        // Errors of TCP have their own type; a bare io::Error comes from TLS.
        if error.is::<io::Error>() {
            return Self::Tls(error);
        }
        let is_timeout = |cause: &(dyn Error + 'static)| {
            let error = cause.downcast_ref::<io::Error>();
            error.is_some_and(|error| error.kind() == io::ErrorKind::TimedOut)
        };
        if causes(error.as_ref()).any(is_timeout) { Self::Timeout } else { Self::Tcp(error) }
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

/// The error that was logged last.
#[derive(Debug, Default)]
struct LastError(ArcSwapOption<Logged>);

#[derive(Debug)]
struct Logged {
    /// The text without its digits.
    text: String,
    at: Instant,
}

impl LastError {
    /// Logs an error, unless the last one was the same. Timeouts are only counted.
    fn log(&self, error: &ConnectError) {
        let (what, why) = match error {
            ConnectError::Timeout => return,
            ConnectError::Tls(why) => ("no TLS connection to the upstream", why),
            ConnectError::Tcp(why) => ("no connection to the upstream", why),
        };
        let why = with_causes(why.as_ref());
        if self.is_due(&why, Instant::now()) {
            log::warn(format_args!("{what}: {why}"));
        }
    }

    /// Whether an error should be logged. Numbers do not count: the error for an expired certificate says how many
    /// seconds ago that was.
    fn is_due(&self, why: &str, now: Instant) -> bool {
        let text: String = why.chars().filter(|c| !c.is_ascii_digit()).collect();
        let is_due = self.0.load().as_ref().is_none_or(|last| {
            let interval = if last.text == text { SAME_INTERVAL } else { OTHER_INTERVAL };
            now.saturating_duration_since(last.at) >= interval
        });
        if is_due {
            self.0.store(Some(Arc::new(Logged { text, at: now })));
        }
        is_due
    }
}

/// The text of an error and its causes.
fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    for cause in causes(error) {
        text += &format!(": {cause}");
    }
    text
}

#[cfg(test)]
mod tests {
    use rustls::CertificateError;
    use rustls::pki_types::UnixTime;

    use super::*;

    /// The error for a certificate that expired so many seconds ago.
    fn expired(seconds: u64) -> String {
        let at = |seconds| UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let (time, not_after) = (at(1_700_000_000 + seconds), at(1_700_000_000));
        let why = CertificateError::ExpiredContext { time, not_after };
        rustls::Error::InvalidCertificate(why).to_string()
    }

    #[test]
    fn an_error_is_logged_once_an_hour_and_another_one_after_a_second() {
        let (last, start) = (LastError::default(), Instant::now());
        let is_due = |why: &str, seconds| last.is_due(why, start + Duration::from_secs(seconds));
        assert!(is_due(&expired(9), 0));
        assert_ne!(expired(9), expired(10), "the text has the time since then");
        assert!(!is_due(&expired(10), 1) && !is_due(&expired(11), 3_599));
        assert!(is_due(&expired(12), 3_600));
        assert!(!is_due("received fatal alert", 3_600), "two errors that alternate");
        assert!(is_due("received fatal alert", 3_601));
        assert!(is_due(&expired(13), 3_602));
    }
}
