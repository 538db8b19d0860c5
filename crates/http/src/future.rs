//! The future of a response: denied, deciding, waiting for its turn, or being served.

use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Request, Response, request};
use pin_project_lite::pin_project;
use tower_service::Service;

use crate::body::Body;
use crate::enforcer::{Action, Sleeping, Wait};
use crate::gate::Charge;
use crate::headers::Fields;
use crate::stats::QueueGuard;

pin_project! {
    /// The future of a [`RateLimit`](crate::RateLimit)'s response.
    ///
    /// If it is dropped before the response, what was charged stays charged.
    ///
    /// ```
    /// use tollgate_http::ResponseFuture;
    /// fn is_future<S: tower::Service<http::Request<()>, Response = http::Response<String>>>(
    ///     future: ResponseFuture<S, ()>,
    /// ) -> impl Future {
    ///     future
    /// }
    /// ```
    pub struct ResponseFuture<S, B>
    where
        S: Service<Request<B>>,
    {
        #[pin]
        state: State<S, B>,
        charge: Option<Box<dyn Charge>>,
        fields: Fields,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<S, B>
    where
        S: Service<Request<B>>,
    {
        Denied { response: Option<Box<Response<Bytes>>> },
        Deciding { deciding: Box<Deciding<S, B>> },
        Waiting { waiting: Box<Waiting<S, B>> },
        Serving { #[pin] response: S::Future },
    }
}

type Answer = Pin<Box<dyn Future<Output = (Action, request::Parts)> + Send>>;

struct Deciding<S, B> {
    answer: Answer,
    /// The service, which is not ready yet, and the body of the request.
    rest: Option<(S, B)>,
}

/// A request that waits. It is boxed, as a denial is, so that the future of a request that is served at
/// once stays small.
struct Waiting<S, B> {
    /// `None` once the turn has come; the request then waits for the service only.
    sleeping: Option<Sleeping>,
    /// Held until the request is forwarded.
    _place: Option<QueueGuard>,
    service: S,
    request: Option<Request<B>>,
}

impl<S: Service<Request<B>>, B> ResponseFuture<S, B> {
    fn new(state: State<S, B>, charge: Option<Box<dyn Charge>>, fields: Fields) -> Self {
        Self { state, charge, fields }
    }

    pub(crate) fn denied(response: Response<Bytes>) -> Self {
        Self::new(State::denied(response), None, Fields::default())
    }

    pub(crate) fn skipping(response: S::Future) -> Self {
        Self::serving(response, None, Fields::default())
    }

    pub(crate) fn serving(
        response: S::Future,
        charge: Option<Box<dyn Charge>>,
        fields: Fields,
    ) -> Self {
        Self::new(State::Serving { response }, charge, fields)
    }

    pub(crate) fn deciding(answer: Answer, service: S, body: B) -> Self {
        let deciding = Box::new(Deciding { answer, rest: Some((service, body)) });
        Self::new(State::Deciding { deciding }, None, Fields::default())
    }

    pub(crate) fn waiting(
        wait: Wait,
        service: S,
        request: Request<B>,
        charge: Option<Box<dyn Charge>>,
        fields: Fields,
    ) -> Self {
        Self::new(State::waiting(Some(wait), service, request), charge, fields)
    }
}

impl<S: Service<Request<B>>, B> State<S, B> {
    /// Waits for a turn, if there is a wait, and then for the service.
    fn waiting(wait: Option<Wait>, service: S, request: Request<B>) -> Self {
        let (sleeping, place) = wait.map(|Wait { sleeping, place }| (sleeping, place)).unzip();
        let waiting = Waiting { sleeping, _place: place, service, request: Some(request) };
        Self::Waiting { waiting: Box::new(waiting) }
    }

    fn denied(response: Response<Bytes>) -> Self {
        Self::Denied { response: Some(Box::new(response)) }
    }
}

impl<S, B, R> Future for ResponseFuture<S, B>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: http_body::Body,
{
    type Output = Result<Response<Body<R>>, S::Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let next = match this.state.as_mut().project() {
                StateProj::Denied { response } => {
                    let response = response.take().expect("polled once after it was ready");
                    return Poll::Ready(Ok((*response).map(Body::denied)));
                }
                StateProj::Deciding { deciding } => {
                    let (action, head) = ready!(deciding.answer.as_mut().poll(context));
                    let (service, body) = deciding.rest.take().expect("taken once");
                    let request = Request::from_parts(head, body);
                    match action {
                        Action::Respond { response } => State::denied(response),
                        Action::Skip => State::waiting(None, service, request),
                        Action::Forward { wait, charge, fields } => {
                            (*this.charge, *this.fields) = (charge, fields);
                            State::waiting(wait, service, request)
                        }
                    }
                }
                StateProj::Waiting { waiting } => {
                    if let Some(sleeping) = &mut waiting.sleeping {
                        ready!(sleeping.as_mut().poll(context));
                        waiting.sleeping = None;
                    }
                    ready!(waiting.service.poll_ready(context))?;
                    let request = waiting.request.take().expect("taken once");
                    this.charge.iter_mut().for_each(|charge| charge.forwarded());
                    State::Serving { response: waiting.service.call(request) }
                }
                StateProj::Serving { response } => {
                    let (mut head, body) = ready!(response.poll(context))?.into_parts();
                    let charge = this.charge.take().and_then(|charge| charge.answered(&head));
                    core::mem::take(this.fields).add_to(&mut head.headers);
                    let body = Body::served(body, &head, charge);
                    return Poll::Ready(Ok(Response::from_parts(head, body)));
                }
            };
            this.state.set(next);
        }
    }
}

impl<S: Service<Request<B>>, B> fmt::Debug for ResponseFuture<S, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            State::Denied { .. } => "Denied",
            State::Deciding { .. } => "Deciding",
            State::Waiting { .. } => "Waiting",
            State::Serving { .. } => "Serving",
        };
        f.debug_tuple("ResponseFuture").field(&state).finish()
    }
}
