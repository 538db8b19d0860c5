//! Forwards a request to the upstream, and its response back.

use std::convert::Infallible;
use std::error::Error as _;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use anyhow::Result;
use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, HeaderValue, TRANSFER_ENCODING, UPGRADE};
use http::{Extensions, HeaderMap, Method, Request, Response, StatusCode, Uri, Version, request};
use http_body::Body as _;
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Error;
use hyper_util::client::legacy::connect::capture_connection;
use tower_service::Service;

use super::address::Upstream;
use super::answer::{ResponseBody, at_the_last_hop};
use super::body_rate::BodyRate;
use super::causes::causes;
use super::connect::ConnectError;
use super::download::{Announced, Download};
use super::exchange::Trace;
use super::idle::{Activity, IdleTimeout, Side};
use super::pool::{Connection, Pool, PoolOptions};
use super::tunnel::Tunnel;
use super::upgrade::{self, UpgradeRequest};
use super::upload::{Progress, Upload};
use crate::metrics::Failure;
use crate::metrics::Metrics;
use crate::request::body::RequestBody;
use crate::request::client::Client;
use crate::request::headers::{name_connection_options, to_client, to_upstream};
use crate::request::whole_body::WholeBody;
use crate::request::{framing, max_forwards};

/// The service behind the rate-limit layer.
#[derive(Clone, Debug)]
pub(crate) struct Forward(Arc<Inner>);

/// The options of forwarding.
#[derive(Clone, Debug)]
pub(crate) struct ForwardOptions {
    pub(crate) pool: PoolOptions,
    pub(crate) response_timeout: Duration,
    pub(crate) body_timeout: Duration,
    pub(crate) tunnel_timeout: Duration,
    pub(crate) body_rate: BodyRate,
    /// Whether trailers are forwarded whatever characters their names have.
    pub(crate) any_field_names: bool,
}

#[derive(Debug)]
struct Inner {
    pool: Pool,
    upstream: Upstream,
    options: ForwardOptions,
    metrics: Arc<Metrics>,
}

impl Forward {
    /// Forwards to this upstream.
    pub(crate) fn new(
        upstream: Upstream,
        options: ForwardOptions,
        metrics: Arc<Metrics>,
    ) -> Result<Self> {
        let pool = Pool::new(&upstream, &options.pool)?;
        Ok(Self(Arc::new(Inner { pool, upstream, options, metrics })))
    }
}

impl Service<Request<RequestBody>> for Forward {
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<ResponseBody>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<RequestBody>) -> Self::Future {
        let (inner, method) = (Arc::clone(&self.0), request.method().clone());
        Box::pin(async move {
            Ok(inner.forward(request).await.unwrap_or_else(|failure| {
                inner.metrics.count_failure(failure);
                failure.answer(&method)
            }))
        })
    }
}

impl Inner {
    async fn forward(
        &self,
        mut request: Request<RequestBody>,
    ) -> Result<Response<ResponseBody>, Failure> {
        let can_upgrade = !self.pool.is_http2();
        let upgrade = can_upgrade.then(|| UpgradeRequest::of(&mut request)).flatten();
        let (mut head, body) = request.into_parts();
        if !max_forwards::count(&head.method, &mut head.headers) {
            return Ok(at_the_last_hop(&head.method));
        }
        let target = self.upstream.target(&head.method, &head.uri)?;
        let is_head = head.method == Method::HEAD;
        let can_upgrade = can_upgrade && head.version == Version::HTTP_11;
        self.rewrite(&mut head, target, upgrade.as_ref());

        let again = may_be_repeated(&head, &body).then(|| head.clone());
        let activity = Activity::new();
        let of_response = self.idle_timeout(&activity, Side::Response);
        let mut sent = self.send(head, Some(body), Connection::Any, &activity).await;
        for on in self.pool.again() {
            let (Err(Failure::Closed), Some(head)) = (&sent, &again) else { break };
            self.metrics.count_retry();
            sent = self.send(head.clone(), None, *on, &activity).await;
        }
        let (response, announced) = sent?;
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            // A 101 without a request for it is an error of the upstream.
            return self.switch(upgrade.ok_or(Failure::Protocol)?, response);
        }
        let required = match response.status() {
            StatusCode::UPGRADE_REQUIRED => upgrade::required(response.headers(), can_upgrade)?,
            _ => None,
        };
        let wrap = |body| Download::new(body, of_response, announced, Arc::clone(&self.metrics));
        Ok(to_the_client(response, is_head, required, wrap))
    }

    /// Rewrites the head of a request for the upstream.
    fn rewrite(&self, head: &mut request::Parts, target: Uri, upgrade: Option<&UpgradeRequest>) {
        let client: Client = *head.extensions.get().expect("the service has marked the request");
        let preserve_host = self.options.pool.preserve_host;
        to_upstream(&mut head.headers, &client, &head.uri, head.version, preserve_host);
        if let Some(upgrade) = upgrade {
            head.headers.insert(UPGRADE, upgrade.protocols.clone());
        }
        if !self.pool.is_http2() {
            name_connection_options(&mut head.headers);
        }
        head.uri = target;
        // This does not prevent HTTP/2: the version of the connection counts.
        head.version = Version::HTTP_11;
        head.extensions.clear();
    }

    fn idle_timeout(&self, activity: &Arc<Activity>, of: Side) -> IdleTimeout {
        IdleTimeout::new(Arc::clone(activity), of, self.options.body_timeout)
    }

    /// Sends a request, and checks the head of the response.
    async fn send(
        &self,
        mut head: request::Parts,
        body: Option<RequestBody>,
        on: Connection,
        activity: &Arc<Activity>,
    ) -> Result<(Response<Incoming>, Option<Announced>), Failure> {
        let is_head = head.method == Method::HEAD;
        let idle = self.idle_timeout(activity, Side::Upload);
        let ForwardOptions { body_rate, any_field_names, .. } = self.options;
        let metrics = Arc::clone(&self.metrics);
        let (upload, progress) = Upload::new(body, idle, body_rate, any_field_names, metrics);
        if !upload.is_end_stream() && upload.size_hint().exact().is_none() {
            // Without a header that announces it, hyper leaves out the body of a GET, HEAD or CONNECT. Towards HTTP/2,
            // it removes this one.
            head.headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        }
        let mut request = Request::from_parts(head, upload);
        let connection = capture_connection(&mut request);
        let sent = async { self.pool.send(request, on).await.map_err(|error| failure(&error)) };
        let sent = self.pool.answer(sent, on, &connection);
        let mut response = self.in_time(sent, &progress).await?;
        progress.answered();
        let trace: Trace = response.extensions_mut().remove().expect("the connection is traced");
        trace.answered(activity);
        let announced = announced_bytes(&response, is_head).map(|bytes| Announced { bytes, trace });
        let has_known_end = framing::check(response.headers_mut()).is_ok();
        if !has_known_end || announced.as_ref().is_some_and(Announced::is_exceeded) {
            // The start of the next response on this connection is unknown, so the connection is not reused.
            connection.connection_metadata().as_ref().inspect(|connected| connected.poison());
            return Err(Failure::Framing);
        }
        Ok((response, announced))
    }

    /// The upstream accepts an upgrade: the following bytes go through a tunnel.
    fn switch(
        &self,
        upgrade: UpgradeRequest,
        mut response: Response<Incoming>,
    ) -> Result<Response<ResponseBody>, Failure> {
        let chosen = upgrade.chosen(response.headers()).ok_or(Failure::Protocol)?;
        let tunnel = Tunnel {
            client: upgrade.client,
            upstream: hyper::upgrade::on(&mut response),
            open: upgrade.open,
            usage: upgrade.usage,
            idle_timeout: self.options.tunnel_timeout,
            metrics: Arc::clone(&self.metrics),
        };
        tokio::spawn(tunnel.run());
        let (mut head, _) = response.into_parts();
        to_client(&mut head.headers, head.version);
        name_protocols(&mut head.headers, chosen);
        Ok(Response::from_parts(head, Either::Right(Full::new(Bytes::new()))))
    }

    /// Waits for the response. The timeout restarts while the upload makes progress.
    async fn in_time(
        &self,
        sent: impl Future<Output = Result<Response<Incoming>, Failure>>,
        progress: &Progress,
    ) -> Result<Response<Incoming>, Failure> {
        tokio::pin!(sent);
        loop {
            let frames = progress.frames();
            match tokio::time::timeout(self.options.response_timeout, &mut sent).await {
                Ok(Ok(response)) => return Ok(response),
                Ok(Err(_)) if progress.has_stalled() => return Err(Failure::ClientTimeout),
                Ok(Err(_)) if progress.has_failed() => return Err(Failure::ClientBody),
                Ok(Err(failure)) => return Err(failure),
                Err(_) if progress.frames() > frames => {}
                Err(_) if progress.waits_for_client() => return Err(Failure::ClientTimeout),
                Err(_) => return Err(Failure::ResponseTimeout),
            }
        }
    }
}

/// Rewrites a response for the client. `required` are the protocols of a 426, and `wrap` checks the body.
fn to_the_client(
    response: Response<Incoming>,
    is_head: bool,
    required: Option<HeaderValue>,
    wrap: impl FnOnce(WholeBody) -> Download,
) -> Response<ResponseBody> {
    let (mut head, body) = response.into_parts();
    let body = WholeBody::new(body, head.version);
    to_client(&mut head.headers, head.version);
    if head.status == StatusCode::NO_CONTENT {
        // RFC 9110, 8.6. A client would wait for the bytes, or take the response for malformed.
        head.headers.remove(CONTENT_LENGTH);
    }
    if let Some(protocols) = required {
        name_protocols(&mut head.headers, protocols);
    }
    // hyper writes the version that the client speaks.
    head.version = Version::HTTP_11;
    let body = match has_body(head.status, is_head) {
        true => Either::Left(wrap(body)),
        // An upstream may send one over HTTP/2 nevertheless, and a client would reset the stream.
        false => Either::Right(Full::default()),
    };
    Response::from_parts(head, body)
}

/// Adds `Upgrade` to a response.
fn name_protocols(headers: &mut HeaderMap, protocols: HeaderValue) {
    headers.insert(UPGRADE, protocols);
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
}

/// Whether a request may be sent twice: it is idempotent and has no body.
fn may_be_repeated(head: &request::Parts, body: &RequestBody) -> bool {
    head.method.is_idempotent() && body.is_end_stream()
}

/// Whether a response with this status has a body, be it empty (RFC 9110, 6.4.1).
fn has_body(status: StatusCode, is_head: bool) -> bool {
    !is_head && !matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
}

/// The announced length of the body. HTTP/2 checks the length itself.
fn announced_bytes(response: &Response<Incoming>, is_head: bool) -> Option<u64> {
    let is_announced = has_body(response.status(), is_head)
        && response.version() != Version::HTTP_2
        && response.headers().contains_key(CONTENT_LENGTH);
    response.body().size_hint().exact().filter(|_| is_announced)
}

/// The failure that an error of the HTTP client means.
fn failure(error: &Error) -> Failure {
    if !error.is_connect() {
        let is_reused = error.connect_info().is_some_and(|connected| {
            let mut extras = Extensions::new();
            connected.get_extras(&mut extras);
            extras.get().is_some_and(Trace::is_reused_without_response)
        });
        return if is_reused && has_closed(error) { Failure::Closed } else { Failure::Protocol };
    }
    match error.source().and_then(|cause| cause.downcast_ref()) {
        Some(ConnectError::Timeout) => Failure::ConnectTimeout,
        Some(ConnectError::Tls(_)) => Failure::Tls,
        Some(ConnectError::Tcp(_)) => Failure::Connect,
        // The request waited for a connection that another one was opening, and that one was cancelled.
        None => Failure::Connect,
    }
}

/// Whether the upstream closed the connection, or refused the request, without processing it.
fn has_closed(error: &Error) -> bool {
    causes(error).any(|cause| {
        cause.downcast_ref().is_some_and(hyper::Error::is_incomplete_message)
            || cause.is::<io::Error>()
            || cause.downcast_ref().is_some_and(is_unprocessed_in_http2)
    })
}

fn is_unprocessed_in_http2(error: &h2::Error) -> bool {
    let is_refused = error.reason() == Some(h2::Reason::REFUSED_STREAM);
    error.is_remote() && (error.is_go_away() || is_refused) || error.is_io()
}
