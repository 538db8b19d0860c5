//! The front door: every request is marked with its client, decided, passed on, and counted until
//! the last byte of its response.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, HeaderValue, UPGRADE};
use http::{Request, Response, Version};
use http_body::{Body, Frame, SizeHint};
use http_body_util::Either;
use hyper::body::Incoming;
use pin_project_lite::pin_project;
use tokio::time::Instant;
use tollgate_http::RateLimit;
use tower_service::Service as _;

use crate::connection::open::Open;
use crate::connection::streams;
use crate::metrics::Failure;
use crate::metrics::Metrics;
use crate::request::body::Inbound;
use crate::request::client::Finder;
use crate::request::host;
use crate::rules::RulesGate;
use crate::upstream::answer::Content;
use crate::upstream::forward::Forward;

/// What all connections share.
#[derive(Clone, Debug)]
pub(crate) struct Front {
    pub(crate) service: RateLimit<Forward, Arc<RulesGate>>,
    pub(crate) finder: Arc<Finder>,
    pub(crate) metrics: Arc<Metrics>,
    /// How long the rest of a body is read that was answered early.
    pub(crate) rest_patience: Duration,
}

/// The front door as one connection sees it.
#[derive(Debug)]
pub(crate) struct Door {
    pub(crate) front: Front,
    pub(crate) peer: SocketAddr,
    /// Whether a request has come in.
    pub(crate) is_used: Arc<AtomicBool>,
    /// Set if an answer is cut off whose end is the end of the connection.
    pub(crate) is_cut: Arc<AtomicBool>,
    pub(crate) open: Arc<Open>,
}

impl hyper::service::Service<Request<Incoming>> for Door {
    type Response = Response<Tracked<Answer>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        self.is_used.store(true, Ordering::Relaxed);
        let Front { mut service, finder, metrics, rest_patience } = self.front.clone();
        let underway = Underway::begin(Arc::clone(&metrics));
        let (mut head, body) = request.into_parts();
        if host::check(&head).is_err() {
            metrics.count_failure(Failure::Host);
            let denied = Failure::Host.answer().map(Either::Right);
            return Box::pin(std::future::ready(Ok(underway.answer(denied, None))));
        }
        if head.headers.contains_key(UPGRADE) {
            head.extensions.insert(Arc::clone(&self.open));
        }
        if finder.mark(&mut head, self.peer).address.is_none() {
            metrics.count_client_unknown();
        }
        let (open, version) = (Arc::clone(&self.open), head.version);
        let is_cut = Arc::clone(&self.is_cut);
        let body = Inbound::new(&head, body, rest_patience);
        let response = service.call(Request::from_parts(head, body));
        Box::pin(async move {
            let mut response = response.await?;
            if version <= Version::HTTP_11 && open.is_wanted() {
                // Between two requests it would keep its place from a client that has one to make.
                let close = HeaderValue::from_static("close");
                response.headers_mut().entry(CONNECTION).or_insert(close);
            }
            // HTTP/1.0 has no chunks: without a length, an answer ends with the connection.
            let ends_with_connection =
                version <= Version::HTTP_10 && !response.headers().contains_key(CONTENT_LENGTH);
            let is_cut = ends_with_connection.then_some(is_cut);
            Ok(underway.answer(response.map(Either::Left), is_cut))
        })
    }
}

/// The body of a response, made by the rate-limit layer or by the door itself.
type Answer = Either<tollgate_http::Body<Content>, Content>;

/// A request that is under way, until this is dropped.
#[derive(Debug)]
pub(crate) struct Underway {
    metrics: Arc<Metrics>,
    began: Instant,
    is_answered: bool,
}

impl Underway {
    fn begin(metrics: Arc<Metrics>) -> Self {
        metrics.request_began();
        Self { metrics, began: Instant::now(), is_answered: false }
    }

    /// There is a response, whose body is still to be sent. `is_cut` is set if the body breaks off.
    fn answer<B>(
        mut self,
        response: Response<B>,
        is_cut: Option<Arc<AtomicBool>>,
    ) -> Response<Tracked<B>> {
        self.is_answered = true;
        self.metrics.request_answered(response.status(), self.began.elapsed());
        response.map(|body| Tracked { body, is_cut, _underway: self })
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        self.metrics.request_ended(self.is_answered);
    }
}

pin_project! {
    /// The body of a response that is under way.
    #[derive(Debug)]
    pub(crate) struct Tracked<B> {
        #[pin]
        body: B,
        is_cut: Option<Arc<AtomicBool>>,
        _underway: Underway,
    }
}

impl<B: Body<Data = Bytes>> Body for Tracked<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.project();
        let polled = this.body.poll_frame(context);
        if let (Poll::Ready(Some(Err(_))), Some(is_cut)) = (&polled, this.is_cut) {
            is_cut.store(true, Ordering::Relaxed);
        }
        streams::note(matches!(polled, Poll::Ready(Some(_))));
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
