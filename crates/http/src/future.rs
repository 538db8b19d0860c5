//! The future of a response: denied, asking, waiting for its turn, or being served.

use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Request, Response, request};
use pin_project_lite::pin_project;
use tower_service::Service;

use crate::body::Body;
use crate::gate::Charge;
use crate::headers::Fields;
use crate::enforcer::{Fate, Sleeping, Wait};
use crate::stats::Place;

pin_project! {
    /// The future of a [`RateLimit`](crate::RateLimit)'s response.
    ///
    /// Dropped before there is one, what was charged stays charged.
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
        Asking { asking: Box<Asking<S, B>> },
        Waiting { waiting: Box<Waiting<S, B>> },
        Serving { #[pin] response: S::Future },
    }
}

pub(crate) type Answer = Pin<Box<dyn Future<Output = (Fate, request::Parts)> + Send>>;

struct Asking<S, B> {
    answer: Answer,
    /// The service, which is not ready, and the request's body.
    rest: Option<(S, B)>,
}

/// Apart, as the denial is: most futures are being served, and are moved about.
struct Waiting<S, B> {
    /// `None`: the turn has come, and only the service is waited for.
    sleeping: Option<Sleeping>,
    /// Held until the request is passed on.
    _place: Option<Place>,
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

    pub(crate) fn asking(answer: Answer, service: S, body: B) -> Self {
        let asking = Box::new(Asking { answer, rest: Some((service, body)) });
        Self::new(State::Asking { asking }, None, Fields::default())
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
    /// Waits for a turn, if there is one to wait for, and then for the service.
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
                StateProj::Asking { asking } => {
                    let (fate, head) = ready!(asking.answer.as_mut().poll(context));
                    let (service, body) = asking.rest.take().expect("taken once");
                    let request = Request::from_parts(head, body);
                    match fate {
                        Fate::Stop { response } => State::denied(response),
                        Fate::Skip => State::waiting(None, service, request),
                        Fate::Go { wait, charge, fields } => {
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
            State::Asking { .. } => "Asking",
            State::Waiting { .. } => "Waiting",
            State::Serving { .. } => "Serving",
        };
        f.debug_tuple("ResponseFuture").field(&state).finish()
    }
}
