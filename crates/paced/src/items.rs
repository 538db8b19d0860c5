//! Streams and sinks whose items are paced, a cell for each.

use core::pin::Pin;
use core::task::{Context, Poll};

use futures_core::Stream;
use futures_sink::Sink;
use pin_project_lite::pin_project;

use crate::direction::Direction;
use crate::pace::Pace;

pin_project! {
    /// A [`Stream`] whose items are charged to the buckets of a [`Pace`], a cell for each.
    ///
    /// The guarantee is that of [`Paced`](crate::Paced), for items: at most `burst + rate * span` pass in any span,
    /// besides rounding, and streams that share a bucket take turns. The stream is not asked for an item before the
    /// item may pass, so nothing is buffered. The end is not charged. It must be polled within a tokio runtime
    /// whose timer is enabled.
    ///
    /// ```
    /// use futures_util::{StreamExt, stream};
    /// use tollgate_paced::{Pace, PacedStream, Quota};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let pace = Pace::new(Quota::per_second(200).burst(2))?;
    /// let start = std::time::Instant::now();
    /// let mails = PacedStream::new(stream::iter(0..6), pace);
    /// assert_eq!(mails.collect::<Vec<_>>().await, [0, 1, 2, 3, 4, 5]);
    /// assert!(start.elapsed().as_millis() >= 19);
    /// # Ok(()) }
    /// ```
    #[derive(Debug)]
    pub struct PacedStream<S> {
        #[pin]
        inner: S,
        direction: Direction,
    }
}

impl<S> PacedStream<S> {
    /// Paces a stream. Clones of a `Pace` share its buckets.
    pub fn new(inner: S, pace: Pace) -> Self {
        Self { inner, direction: Direction::new(pace) }
    }

    /// The stream within.
    pub const fn get_ref(&self) -> &S {
        &self.inner
    }
}

impl<S: Stream> Stream for PacedStream<S> {
    type Item = S::Item;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<S::Item>> {
        let this = self.project();
        this.direction.poll_pass(context, 1, |context, _| {
            let item = this.inner.poll_next(context);
            (usize::from(matches!(item, Poll::Ready(Some(_)))), item)
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.inner.size_hint()
    }
}

pin_project! {
    /// A [`Sink`] whose items are charged to the buckets of a [`Pace`], a cell for each.
    ///
    /// `poll_ready` waits for the cell, and flushes the sink within meanwhile, so that no item waits for the turn of
    /// the next in a buffer. The sink within must be ready first, so a sink that is blocked charges
    /// nothing. Flush, close and errors pass at once. The guarantee is that of [`PacedStream`].
    ///
    /// **Not guaranteed.** A sink that became ready and is dropped before it was sent an item has spent a cell.
    ///
    /// ```
    /// use futures_util::{SinkExt, sink};
    /// use tollgate_paced::{Pace, PacedSink, Quota};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let pace = Pace::new(Quota::per_second(200).burst(2))?;
    /// let start = std::time::Instant::now();
    /// let mut queue = PacedSink::new(Vec::new(), pace);
    /// for mail in 0..6 {
    ///     queue.send(mail).await?;
    /// }
    /// assert!(start.elapsed().as_millis() >= 19);
    /// # Ok(()) }
    /// ```
    #[derive(Debug)]
    pub struct PacedSink<S> {
        #[pin]
        inner: S,
        direction: Direction,
        // The cell of the next item has been charged.
        is_charged: bool,
    }
}

impl<S> PacedSink<S> {
    /// Paces a sink. Clones of a `Pace` share its buckets.
    pub fn new(inner: S, pace: Pace) -> Self {
        Self { inner, direction: Direction::new(pace), is_charged: false }
    }

    /// The sink within.
    pub const fn get_ref(&self) -> &S {
        &self.inner
    }
}

impl<T, S: Sink<T>> Sink<T> for PacedSink<S> {
    type Error = S::Error;

    fn poll_ready(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        let mut this = self.project();
        if *this.is_charged {
            return this.inner.poll_ready(context);
        }
        let ready = this.direction.poll_pass(context, 1, |context, _| {
            let ready = this.inner.as_mut().poll_ready(context);
            (usize::from(matches!(ready, Poll::Ready(Ok(())))), ready)
        });
        if let Poll::Ready(ready) = ready {
            ready?;
            *this.is_charged = true;
            return Poll::Ready(Ok(()));
        }
        match this.inner.poll_flush(context) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            _ => Poll::Pending,
        }
    }

    fn start_send(self: Pin<&mut Self>, item: T) -> Result<(), S::Error> {
        let this = self.project();
        *this.is_charged = false;
        this.inner.start_send(item)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.project().inner.poll_flush(context)
    }

    fn poll_close(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.project().inner.poll_close(context)
    }
}
