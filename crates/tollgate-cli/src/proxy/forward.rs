//! Passes a request on to the upstream, and its response back.

use std::convert::Infallible;
use std::error::Error as _;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response, StatusCode, Version};
use http_body_util::Either;
use hyper::body::Incoming;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client as HttpClient, Error};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tower_service::Service;

use super::answer::{Content, Failure};
use super::client::Client;
use super::headers::{to_client, to_upstream};
use super::metrics::Metrics;
use super::upload::{Progress, Upload};
use super::upstream::Upstream;
use crate::args::ProxyArgs;

/// Connections to the upstream that are kept while nobody uses them, and for how long.
const IDLE_CONNECTIONS: usize = 1_024;
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// The service behind the rules.
#[derive(Clone, Debug)]
pub(super) struct Forward(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    http: HttpClient<HttpConnector, Upload>,
    upstream: Upstream,
    preserve_host: bool,
    response_timeout: Duration,
    metrics: Arc<Metrics>,
}

impl Forward {
    pub(super) fn new(upstream: Upstream, args: &ProxyArgs, metrics: Arc<Metrics>) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(args.connect_timeout));
        let http = HttpClient::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(IDLE_CONNECTIONS)
            .build(connector);
        let (preserve_host, response_timeout) = (args.preserve_host, args.response_timeout);
        Self(Arc::new(Inner { http, upstream, preserve_host, response_timeout, metrics }))
    }
}

impl Service<Request<Incoming>> for Forward {
    type Response = Response<Content>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Content>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Incoming>) -> Self::Future {
        let inner = Arc::clone(&self.0);
        Box::pin(async move {
            Ok(inner.pass(request).await.unwrap_or_else(|failure| {
                inner.metrics.count_failure(failure);
                failure.answer()
            }))
        })
    }
}

impl Inner {
    async fn pass(&self, request: Request<Incoming>) -> Result<Response<Content>, Failure> {
        let (mut head, body) = request.into_parts();
        let target = self.upstream.target(&head.method, &head.uri);
        let target = target.map_err(|_| Failure::NotPassedOn)?;
        let client: Client = *head.extensions.get().expect("the front door has marked it");
        let host = (!self.preserve_host).then_some(self.upstream.host());
        to_upstream(&mut head.headers, &client, &head.uri, head.version, host);
        head.uri = target;
        head.version = Version::HTTP_11;
        head.extensions.clear();

        let (upload, progress) = Upload::new(body);
        let sent = self.http.request(Request::from_parts(head, upload));
        let response = self.in_time(sent, &progress).await?;
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return Err(Failure::Protocol); // nobody asked for it
        }
        let (mut head, body) = response.into_parts();
        to_client(&mut head.headers, head.version);
        // The server side writes the version that its client speaks.
        head.version = Version::HTTP_11;
        Ok(Response::from_parts(head, Either::Left(body)))
    }

    /// The response; or why there is none. A long upload has time as long as it moves.
    async fn in_time(
        &self,
        sent: impl Future<Output = Result<Response<Incoming>, Error>>,
        progress: &Progress,
    ) -> Result<Response<Incoming>, Failure> {
        tokio::pin!(sent);
        loop {
            let frames = progress.frames();
            match tokio::time::timeout(self.response_timeout, &mut sent).await {
                Ok(Ok(response)) => return Ok(response),
                Ok(Err(_)) if progress.has_failed() => return Err(Failure::ClientBody),
                Ok(Err(error)) => return Err(failure(&error)),
                Err(_) if progress.frames() > frames => {}
                Err(_) if progress.waits_for_client() => return Err(Failure::ClientTimeout),
                Err(_) => return Err(Failure::ResponseTimeout),
            }
        }
    }
}

/// What an error of the client side means.
fn failure(error: &Error) -> Failure {
    if !error.is_connect() {
        return Failure::Protocol;
    }
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<io::Error>()
            && error.kind() == io::ErrorKind::TimedOut
        {
            return Failure::ConnectTimeout;
        }
        cause = error.source();
    }
    Failure::Connect
}
