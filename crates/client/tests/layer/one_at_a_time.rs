//! A service of one request at a time.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::{Request, Response};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep;
use tower::Service;

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A service of one request at a time, as tower's `ConcurrencyLimit` makes it. It denies each after half a second,
/// for 30 seconds.
pub(crate) struct OneAtATime {
    place: Arc<Semaphore>,
    sent: Arc<AtomicU64>,
    coming: Option<Boxed<OwnedSemaphorePermit>>,
    permit: Option<OwnedSemaphorePermit>,
}

impl OneAtATime {
    pub(crate) fn new(place: Arc<Semaphore>, sent: Arc<AtomicU64>) -> Self {
        Self { place, sent, coming: None, permit: None }
    }
}

impl Clone for OneAtATime {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.place), Arc::clone(&self.sent))
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
        self.sent.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            sleep(Duration::from_millis(500)).await;
            drop(permit);
            let denied = Response::builder().status(429).header("retry-after", "30");
            Ok(denied.body(()).expect("a response"))
        })
    }
}
