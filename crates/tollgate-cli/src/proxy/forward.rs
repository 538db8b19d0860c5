//! Passes a request on to the upstream, and its response back.

use std::convert::Infallible;
use std::error::Error as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use anyhow::Result;
use bytes::Bytes;
use http::header::{CONNECTION, HeaderValue, UPGRADE};
use http::{Request, Response, StatusCode, Version};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Error;
use tower_service::Service;

use super::answer::{Content, Failure};
use super::client::Client;
use super::dial::DialError;
use super::download::Download;
use super::headers::{name_connection_options, to_client, to_upstream};
use super::idle::{Idle, Pulse};
use super::links::Links;
use super::metrics::Metrics;
use super::pace::Pace;
use super::tunnel::Tunnel;
use super::upgrade::Asked;
use super::upload::{Progress, Upload};
use super::upstream::Upstream;
use crate::args::ProxyArgs;

/// The service behind the rules.
#[derive(Clone, Debug)]
pub(super) struct Forward(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    links: Links,
    upstream: Upstream,
    preserve_host: bool,
    response_timeout: Duration,
    body_timeout: Duration,
    pace: Pace,
    tunnel_timeout: Duration,
    metrics: Arc<Metrics>,
}

impl Forward {
    /// To this upstream, over at most `places` connections.
    pub(super) fn new(
        upstream: Upstream,
        args: &ProxyArgs,
        places: usize,
        metrics: Arc<Metrics>,
    ) -> Result<Self> {
        Ok(Self(Arc::new(Inner {
            links: Links::new(&upstream, args, places)?,
            upstream,
            preserve_host: args.preserve_host,
            response_timeout: args.response_timeout,
            body_timeout: args.body_timeout,
            pace: Pace::new(args),
            tunnel_timeout: args.tunnel_timeout,
            metrics,
        })))
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
    async fn pass(&self, mut request: Request<Incoming>) -> Result<Response<Content>, Failure> {
        let asked = self.links.can_upgrade().then(|| Asked::of(&mut request)).flatten();
        let (mut head, body) = request.into_parts();
        let target = self.upstream.target(&head.method, &head.uri);
        let target = target.map_err(|_| Failure::NotPassedOn)?;
        let client: Client = *head.extensions.get().expect("the front door has marked it");
        to_upstream(&mut head.headers, &client, &head.uri, head.version, self.preserve_host);
        if let Some(asked) = &asked {
            head.headers.insert(UPGRADE, asked.protocols.clone());
        }
        if asked.is_some() || self.links.are_http1() {
            name_connection_options(&mut head.headers);
        }
        head.uri = target;
        // Over HTTP/2 it is sent as such all the same.
        head.version = Version::HTTP_11;
        head.extensions.clear();

        let pulse = Pulse::new();
        let idle = || Idle::new(Arc::clone(&pulse), self.body_timeout);
        let (upload, progress) = Upload::new(body, idle(), self.pace, Arc::clone(&self.metrics));
        let sent = self.links.send(Request::from_parts(head, upload), asked.is_some());
        let response = self.in_time(sent, &progress).await?;
        progress.answered();
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            // Nobody may have asked for it.
            return self.switch(asked.ok_or(Failure::Protocol)?, response);
        }
        let (mut head, body) = response.into_parts();
        to_client(&mut head.headers, head.version);
        // The server side writes the version that its client speaks.
        head.version = Version::HTTP_11;
        let body = Download::new(body, idle(), Arc::clone(&self.metrics));
        Ok(Response::from_parts(head, Either::Left(body)))
    }

    /// The upstream agrees to another protocol: what comes then goes through a tunnel.
    fn switch(
        &self,
        asked: Asked,
        mut response: Response<Incoming>,
    ) -> Result<Response<Content>, Failure> {
        let chosen = asked.chosen(response.headers()).ok_or(Failure::Protocol)?;
        let tunnel = Tunnel {
            client: asked.client,
            upstream: hyper::upgrade::on(&mut response),
            open: asked.open,
            idle_timeout: self.tunnel_timeout,
            metrics: Arc::clone(&self.metrics),
        };
        tokio::spawn(tunnel.run());
        let (mut head, _) = response.into_parts();
        to_client(&mut head.headers, head.version);
        head.headers.insert(UPGRADE, chosen);
        head.headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        Ok(Response::from_parts(head, Either::Right(Full::new(Bytes::new()))))
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
                Ok(Err(_)) if progress.has_stalled() => return Err(Failure::ClientTimeout),
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
    match error.source().and_then(|cause| cause.downcast_ref()) {
        Some(DialError::Timeout) => Failure::ConnectTimeout,
        Some(DialError::Tls(_)) => Failure::Tls,
        Some(DialError::Tcp(_)) => Failure::Connect,
        // The first words of HTTP/2 were not understood.
        None => Failure::Protocol,
    }
}
