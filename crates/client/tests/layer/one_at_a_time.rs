//! A service of one request at a time.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::{Request, Response, response};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep;
use tower::Service;

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// How long the service takes for the request of a number, counted from 0, and its response.
type Answers = fn(u64) -> (Duration, response::Builder);

/// A service of one request at a time, as tower's `ConcurrencyLimit` makes it.
pub(crate) struct OneAtATime {
    place: Arc<Semaphore>,
    sent: Arc<AtomicU64>,
    answers: Answers,
    coming: Option<Boxed<OwnedSemaphorePermit>>,
    permit: Option<OwnedSemaphorePermit>,
}

impl OneAtATime {
    pub(crate) fn new(answers: Answers) -> Self {
        Self {
            place: Arc::new(Semaphore::new(1)),
            sent: Arc::default(),
            answers,
            coming: None,
            permit: None,
        }
    }

    /// How many requests it has had.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }
}

impl Clone for OneAtATime {
    fn clone(&self) -> Self {
        let (place, sent) = (Arc::clone(&self.place), Arc::clone(&self.sent));
        Self { place, sent, answers: self.answers, coming: None, permit: None }
    }
}

impl Service<Request<()>> for OneAtATime {
    type Response = Response<()>;
    type Error = Infallible;
    type Future = Boxed<Result<Response<()>, Infallible>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        let place = Arc::clone(&self.place);
        let acquire = async { place.acquire_owned().await.expect("never closed") };
        let coming = self.coming.get_or_insert_with(|| Box::pin(acquire));
        self.permit = Some(ready!(coming.as_mut().poll(context)));
        self.coming = None;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        let permit = self.permit.take();
        let (takes, response) = (self.answers)(self.sent.fetch_add(1, Ordering::Relaxed));
        Box::pin(async move {
            sleep(takes).await;
            drop(permit);
            Ok(response.body(()).expect("a response"))
        })
    }
}
