//! The middleware. The tower layer of `tollgate-http` does the work: around it, requests and responses change their
//! types, and the request of actix waits in a slot beside it.
//!
//! A request of actix must not be cloned while the application works on it, so it moves: into the slot, from there to
//! the application if the layer admits it, and else back to this middleware, which answers it.

use core::cell::RefCell;
use core::fmt;
use core::future::{Future, Ready, ready};
use core::pin::Pin;
use core::task::{Context, Poll};
use std::rc::Rc;

use actix_web::body::{BodySize, MessageBody};
use actix_web::dev::{Service, ServiceRequest, ServiceResponse, Transform};
use actix_web::{Error, HttpRequest, HttpResponse};
use tollgate_http::{Gate, RateLimitLayer};
use tower_layer::Layer;

use crate::bodies::{ResponseBody, Served};
use crate::convert;

/// A rate limit as a middleware of actix-web. Clones, over all workers, share one state.
///
/// It does what the [`RateLimitLayer`] does: keys, denials, the `RateLimit` fields, costs that the response settles,
/// queues and bans.
///
/// An error of a middleware within counts as the response that actix makes of it: a gate sees the head of that.
///
/// **Not guaranteed.** A gate does not see the extensions of actix's requests and responses. The response to an error
/// of a middleware within has no `RateLimit` fields, since actix makes it outside of this middleware. For the same reason,
/// [`settle_bytes`](tollgate_http::Limit::settle_bytes) does not see its body: such a request costs at least the
/// estimate, like one whose client left before the first byte, or `actual(0)` if the body of the error is empty.
///
/// ```
/// use actix_web::App;
/// use tollgate_actix::{Limit, Quota, RateLimit, key::PeerIp};
///
/// let limit = Limit::gcra("per-client", Quota::per_second(10).burst(20), PeerIp::new())?;
/// let limit = RateLimit::new(limit);
/// let app = App::new().wrap(limit.clone());
/// println!("{:?}", limit.layer().stats());
/// # Ok::<(), tollgate_http::LimitError>(())
/// ```
pub struct RateLimit<G>(RateLimitLayer<G>);

impl<G: Gate> RateLimit<G> {
    /// A middleware with the default settings.
    pub fn new(gate: G) -> Self {
        Self(RateLimitLayer::new(gate))
    }

    /// The layer, for its counts and its gate.
    pub fn layer(&self) -> &RateLimitLayer<G> {
        &self.0
    }
}

/// A middleware with the settings of a layer.
impl<G> From<RateLimitLayer<G>> for RateLimit<G> {
    fn from(layer: RateLimitLayer<G>) -> Self {
        Self(layer)
    }
}

impl<G> Clone for RateLimit<G> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<G: fmt::Debug> fmt::Debug for RateLimit<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RateLimit").field(&self.0).finish()
    }
}

impl<S, B, G> Transform<S, ServiceRequest> for RateLimit<G>
where
    S: Service<ServiceRequest, Response = ServiceResponse<B>, Error = Error> + 'static,
    B: MessageBody + 'static,
    G: Gate + 'static,
{
    type Response = ServiceResponse<ResponseBody<B>>;
    type Error = Error;
    type Transform = RateLimitService<S, G>;
    type InitError = ();
    type Future = Ready<Result<Self::Transform, ()>>;

    fn new_transform(&self, service: S) -> Self::Future {
        ready(Ok(RateLimitService(self.0.layer(Inner(Rc::new(service))))))
    }
}

/// A service with a rate limit: made by a [`RateLimit`].
pub struct RateLimitService<S, G>(tollgate_http::RateLimit<Inner<S>, G>);

impl<S, G> fmt::Debug for RateLimitService<S, G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimitService").finish_non_exhaustive()
    }
}

type Answer<B> = Pin<Box<dyn Future<Output = Result<ServiceResponse<ResponseBody<B>>, Error>>>>;

impl<S, B, G> Service<ServiceRequest> for RateLimitService<S, G>
where
    S: Service<ServiceRequest, Response = ServiceResponse<B>, Error = Error> + 'static,
    B: MessageBody + 'static,
    G: Gate + 'static,
{
    type Response = ServiceResponse<ResponseBody<B>>;
    type Error = Error;
    type Future = Answer<B>;

    fn poll_ready(&self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        tower_service::Service::poll_ready(&mut self.0.clone(), context)
    }

    fn call(&self, request: ServiceRequest) -> Self::Future {
        let slot: Slot = Rc::default();
        let head = match convert::request(&request, Rc::clone(&slot)) {
            Ok(head) => head,
            Err(error) => return Box::pin(ready(Err(error))),
        };
        slot.replace(Held::Request(request));
        let answer = tower_service::Service::call(&mut self.0.clone(), head);
        Box::pin(async move {
            let (head, body) = answer.await?.into_parts();
            match slot.take() {
                Held::Request(request) => {
                    let size = convert::size_for_head(&request, &head);
                    let response = convert::denial(&head).set_body(ResponseBody::new(body, size));
                    Ok(request.into_response(response))
                }
                Held::Response(request, mut response, size) => {
                    convert::replace_headers(response.headers_mut(), &head.headers);
                    let response = response.set_body(ResponseBody::new(body, Some(size)));
                    Ok(ServiceResponse::new(request, response))
                }
                Held::Error(error) => Err(error),
                Held::Nothing => Err(actix_web::error::ErrorInternalServerError(
                    "the request has already been answered",
                )),
            }
        })
    }
}

type Slot = Rc<RefCell<Held>>;

/// The state of a request on the side of actix, while the layer holds its head.
#[derive(Default)]
enum Held {
    /// It has not been admitted yet.
    Request(ServiceRequest),
    /// It has been answered: the head, without its body, and the size of that.
    Response(HttpRequest, HttpResponse<()>, BodySize),
    /// It has failed, and actix makes the response of the error.
    Error(Error),
    /// The application has it.
    #[default]
    Nothing,
}

/// The application, as a service of tower.
pub(crate) struct Inner<S>(Rc<S>);

impl<S> Clone for Inner<S> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<S> fmt::Debug for Inner<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner").finish_non_exhaustive()
    }
}

impl<S, B> tower_service::Service<http::Request<Slot>> for Inner<S>
where
    S: Service<ServiceRequest, Response = ServiceResponse<B>, Error = Error> + 'static,
    B: MessageBody + 'static,
{
    type Response = http::Response<Served<B>>;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Error>>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<Slot>) -> Self::Future {
        let slot = request.into_body();
        let Held::Request(request) = slot.take() else {
            let error = actix_web::error::ErrorInternalServerError("a request is admitted once");
            return Box::pin(ready(Err(error)));
        };
        let answer = self.0.call(request);
        Box::pin(async move {
            let (request, response) = match answer.await {
                Ok(answer) => answer.into_parts(),
                Err(error) => {
                    let (head, body) = error.error_response().into_parts();
                    slot.replace(Held::Error(error));
                    return Ok(convert::response(&head, Served::other(body.size())));
                }
            };
            let (head, body) = response.into_parts();
            let response = convert::response(&head, ());
            slot.replace(Held::Response(request, head, body.size()));
            Ok(response.map(|()| Served::new(body)))
        })
    }
}
