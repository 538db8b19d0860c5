//! The service that decides each request before it forwards it.

use core::fmt;
use core::task::{Context, Poll};
use std::sync::Arc;

use http::{Request, Response};
use tower_service::Service;

use crate::body::Body;
use crate::enforcer::{Action, Enforcer, Handling};
use crate::future::ResponseFuture;
use crate::gate::Gate;

/// A service with rate limits: made by a [`RateLimitLayer`](crate::RateLimitLayer).
///
/// ```
/// use http_body_util::Full;
/// use tollgate::Quota;
/// use tollgate_http::{Limit, RateLimitLayer, key};
/// use tower::{Layer, ServiceExt, service_fn};
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let echo = service_fn(async |_: http::Request<()>| {
///     Ok::<_, std::convert::Infallible>(http::Response::new(Full::<bytes::Bytes>::from("hello")))
/// });
/// let one_for_all = key::from_fn(|_| Some(()));
/// let layer = RateLimitLayer::new(Limit::gcra("all", Quota::per_hour(1), one_for_all)?);
/// let service = layer.layer(echo);
/// assert_eq!(service.clone().oneshot(http::Request::new(())).await?.status(), 200);
/// assert_eq!(service.clone().oneshot(http::Request::new(())).await?.status(), 429);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct RateLimit<S, G> {
    inner: S,
    enforcer: Arc<Enforcer<G>>,
}

impl<S, G> RateLimit<S, G> {
    pub(crate) fn new(inner: S, enforcer: Arc<Enforcer<G>>) -> Self {
        Self { inner, enforcer }
    }
}

impl<S, G, B, R> Service<Request<B>> for RateLimit<S, G>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    G: Gate + 'static,
    R: http_body::Body,
{
    type Response = Response<Body<R>>;
    type Error = S::Error;
    type Future = ResponseFuture<S, B>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> ResponseFuture<S, B> {
        let (mut parts, body) = request.into_parts();
        self.enforcer.place_peer(&mut parts);
        match self.enforcer.handle(&parts) {
            Handling::Now(Action::Skip) => {
                let response = self.inner.call(Request::from_parts(parts, body));
                ResponseFuture::skipping(response)
            }
            Handling::Now(Action::Forward { wait: None, charge, fields }) => {
                let response = self.inner.call(Request::from_parts(parts, body));
                ResponseFuture::serving(response, charge, fields)
            }
            Handling::Now(Action::Forward { wait: Some(wait), charge, fields }) => {
                let request = Request::from_parts(parts, body);
                ResponseFuture::waiting(wait, self.for_later(), request, charge, fields)
            }
            Handling::Now(Action::Respond { response }) => {
                self.release();
                ResponseFuture::denied(response)
            }
            Handling::Pending { verdict, report, max_waiting } => {
                let answer =
                    Arc::clone(&self.enforcer).resolve(parts, verdict, report, max_waiting);
                ResponseFuture::deciding(Box::pin(answer), self.for_later(), body)
            }
        }
    }
}

impl<S: Clone, G> RateLimit<S, G> {
    /// Frees what the inner service has reserved for this call, such as a permit of a concurrency limit, because
    /// the call does not come, or comes later. It replaces the service by a clone, which is not ready and has
    /// reserved nothing.
    fn release(&mut self) {
        self.inner = self.inner.clone();
    }

    /// The service for a call that comes later. The caller has to wait for its readiness first.
    fn for_later(&mut self) -> S {
        self.release();
        self.inner.clone()
    }
}

impl<S: Clone, G> Clone for RateLimit<S, G> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), enforcer: Arc::clone(&self.enforcer) }
    }
}

impl<S: fmt::Debug, G: fmt::Debug> fmt::Debug for RateLimit<S, G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimit")
            .field("inner", &self.inner)
            .field("enforcer", &self.enforcer)
            .finish()
    }
}
