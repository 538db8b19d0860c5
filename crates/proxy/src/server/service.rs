//! The service of a connection: it finds the client of each request, lets the rules decide, forwards the
//! request, and counts it until the last byte of its response.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, HeaderValue, UPGRADE};
use http::request::Parts;
use http::{Request, Response, StatusCode, Version};
use http_body::{Body, Frame, SizeHint};
use http_body_util::Either;
use hyper::body::Incoming;
use pin_project_lite::pin_project;
use tokio::time::Instant;
use tollgate_http::RateLimit;
use tollgate_paced::PacedBody;
use tower_service::Service as _;

use crate::connection::open::OpenConnection;
use crate::connection::per_client::RequestSlot;
use crate::connection::pieces::Pieces;
use crate::connection::streams;
use crate::connection::usage::{Usage, UsedByRequest};
use crate::metrics::Failure;
use crate::metrics::Metrics;
use crate::request::body::{OpenBody, RequestBody};
use crate::request::client::ClientFinder;
use crate::request::{framing, headers, host, target, values};
use crate::rules::{PaceSlot, RulesGate};
use crate::upstream::answer::ResponseBody;
use crate::upstream::forward::Forward;

/// The parts that the services of all connections share.
#[derive(Clone, Debug)]
pub(crate) struct ServiceContext {
    pub(crate) service: RateLimit<Forward, Arc<RulesGate>>,
    pub(crate) finder: Arc<ClientFinder>,
    pub(crate) metrics: Arc<Metrics>,
    /// How long the rest of a body is read if the request was answered early.
    pub(crate) rest_timeout: Duration,
    /// Whether fields are forwarded whatever characters their names have.
    pub(crate) any_field_names: bool,
}

/// The service of one connection.
#[derive(Debug)]
pub(super) struct ConnectionService {
    pub(super) context: ServiceContext,
    pub(super) peer: SocketAddr,
    pub(super) usage: Arc<Usage>,
    pub(super) open: Arc<OpenConnection>,
}

impl hyper::service::Service<Request<Incoming>> for ConnectionService {
    type Response = Response<TrackedBody<ServiceBody>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let ServiceContext { mut service, finder, metrics, rest_timeout, any_field_names } =
            self.context.clone();
        let used = self.usage.begin(request.version());
        let slot = self.open.acquire_request(used.is_further());
        let has_too_many = slot.is_none();
        let place = Arc::new(RequestPlace { _used: used, _slot: slot });
        let in_flight = InFlightRequest::begin(Arc::clone(&metrics), Arc::clone(&place));
        let (mut head, body) = request.into_parts();
        let checked = if has_too_many { Err(Failure::ClientRequests) } else { check(&mut head) };
        if let Err(failure) = checked {
            metrics.count_failure(failure);
            // Dropping the body reads its rest.
            drop(RequestBody::new(&head, body, rest_timeout));
            let mut response = denied_response(failure, &head).map(Either::Right);
            make_room(&mut response, head.version, &self.open);
            return Box::pin(std::future::ready(Ok(in_flight.answer(
                response,
                head.version,
                None,
            ))));
        }
        if head.headers.contains_key(UPGRADE) {
            head.extensions.insert(Arc::clone(&self.open));
            head.extensions.insert(Arc::clone(&self.usage));
        }
        if finder.mark(&mut head, self.peer).address.is_none() {
            metrics.count_client_unknown();
        }
        let pace = PaceSlot::default();
        head.extensions.insert(pace.clone());
        let (open, version) = (Arc::clone(&self.open), head.version);
        let usage = Arc::clone(&self.usage);
        let body = RequestBody::new(&head, body, rest_timeout).holding(place);
        headers::remove_named_by_connection(&mut head.headers);
        if !any_field_names {
            headers::remove_ambiguous_names(&mut head.headers);
        }
        if !body.is_end_stream() {
            head.extensions.insert(OpenBody);
        }
        let response = service.call(Request::from_parts(head, body));
        Box::pin(async move {
            let mut response = response.await?;
            make_room(&mut response, version, &open);
            // HTTP/1.0 has no chunks: without a length, a response ends with the connection. hyper states a length
            // that the body knows.
            let ends_with_connection = version <= Version::HTTP_10
                && !response.headers().contains_key(CONTENT_LENGTH)
                && response.body().size_hint().exact().is_none();
            let cuts = ends_with_connection.then_some(usage);
            // The request is in flight, also for the rules, until the paced body has ended.
            let response = response.map(|body| match pace.get() {
                Some(pace) => Either::Right(PacedBody::new(body, pace.clone())),
                None => Either::Left(body),
            });
            Ok(in_flight.answer(response.map(Either::Left), version, cuts))
        })
    }
}

/// Ends an HTTP/1 connection with this response if another client waits for its slot, which the connection would
/// keep while it idles.
fn make_room<B>(response: &mut Response<B>, version: Version, open: &OpenConnection) {
    let is_upgraded = response.status() == StatusCode::SWITCHING_PROTOCOLS;
    if version > Version::HTTP_11 || is_upgraded || !open.is_wanted() {
        return;
    }
    let headers = response.headers_mut();
    // A response that requires an upgrade names it in `Connection`.
    let options = if headers.contains_key(UPGRADE) { "upgrade, close" } else { "close" };
    headers.insert(CONNECTION, HeaderValue::from_static(options));
}

/// Checks that a request states its host, the end of its body and its path clearly, and that its values are well formed.
fn check(head: &mut Parts) -> Result<(), Failure> {
    host::check(head).map_err(|_| Failure::Host)?;
    values::check(head).map_err(|_| Failure::HeaderValue)?;
    framing::check(&mut head.headers).map_err(|_| Failure::ClientFraming)?;
    target::check(head).map_err(|_| Failure::Target)
}

/// The response to a request that is not clear. After unclear framing, an HTTP/1 connection is closed: a proxy
/// in front may see the start of the next request elsewhere.
fn denied_response(failure: Failure, head: &Parts) -> Response<ResponseBody> {
    let mut response = failure.answer(&head.method);
    if failure == Failure::ClientFraming && head.version <= Version::HTTP_11 {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// The body of a response from the rate-limit layer, or from this service itself.
type ServiceBody = Either<LayerBody, ResponseBody>;

/// The body of a response from the rate-limit layer, paced if a rule has `bytes`.
type LayerBody =
    Either<tollgate_http::Body<ResponseBody>, PacedBody<tollgate_http::Body<ResponseBody>>>;

/// The place of a request in its connection and among those of its client. Its body has it too: in HTTP/2 it may be
/// forwarded after the response has ended.
#[derive(Debug)]
struct RequestPlace {
    _used: UsedByRequest,
    _slot: Option<RequestSlot>,
}

/// Counts a request as in flight until this is dropped.
#[derive(Debug)]
pub(super) struct InFlightRequest {
    metrics: Arc<Metrics>,
    began: Instant,
    is_answered: bool,
    _place: Arc<RequestPlace>,
}

impl InFlightRequest {
    fn begin(metrics: Arc<Metrics>, place: Arc<RequestPlace>) -> Self {
        metrics.request_began();
        Self { metrics, began: Instant::now(), is_answered: false, _place: place }
    }

    /// Attaches this to the body of the response. Until the body has ended, the connection of `cuts` may not be closed.
    fn answer<B>(
        mut self,
        response: Response<B>,
        version: Version,
        cuts: Option<Arc<Usage>>,
    ) -> Response<TrackedBody<B>> {
        self.is_answered = true;
        self.metrics.request_answered(response.status(), self.began.elapsed());
        let is_http2 = version == Version::HTTP_2;
        response.map(|body| TrackedBody {
            body: Pieces::new(body, is_http2),
            cuts,
            _in_flight: self,
        })
    }
}

impl Drop for InFlightRequest {
    fn drop(&mut self) {
        self.metrics.request_ended(self.is_answered);
    }
}

pin_project! {
    /// The body of a response in flight.
    #[derive(Debug)]
    pub(super) struct TrackedBody<B> {
        #[pin]
        body: Pieces<B>,
        cuts: Option<Arc<Usage>>,
        _in_flight: InFlightRequest,
    }
}

impl<B: Body<Data = Bytes>> Body for TrackedBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let mut this = self.project();
        let polled = this.body.as_mut().poll_frame(context);
        if let Some(usage) = this.cuts {
            // hyper polls no more after the last frame, nor a body that the response may not have.
            let is_whole = match &polled {
                Poll::Ready(Some(Ok(frame))) => frame.is_trailers() || this.body.is_end_stream(),
                Poll::Ready(None) => true,
                Poll::Ready(Some(Err(_))) | Poll::Pending => false,
            };
            if is_whole { usage.whole() } else { usage.cut() }
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
