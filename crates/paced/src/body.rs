//! A body whose bytes are paced.

use core::pin::Pin;
use core::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use crate::direction::Direction;
use crate::pace::Pace;

pin_project! {
    /// An HTTP body whose bytes are charged to the buckets of a [`Pace`]: for a response or a request, of a
    /// server or a client.
    ///
    /// A frame of data passes in pieces, as the buckets allow; pieces of `Bytes` are not copied. Trailers,
    /// errors, the size hint and the end pass as they are. The guarantee is that of [`Paced`](crate::Paced),
    /// for the bytes that are taken from the body.
    ///
    /// **Not guaranteed.** A server takes bytes from a body before it sends them: as many as fit in its buffer.
    /// Transfer encoding and headers are not charged.
    ///
    /// ```
    /// use http_body_util::{BodyExt, Full};
    /// use tollgate::Quota;
    /// use tollgate_paced::{Pace, PacedBody};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let pace = Pace::new(Quota::per_second(1_000_000).burst(1_000))?;
    /// let body = PacedBody::new(Full::<bytes::Bytes>::from(vec![7; 21_000]), pace);
    /// let start = std::time::Instant::now();
    /// assert_eq!(body.collect().await?.to_bytes().len(), 21_000);
    /// assert!(start.elapsed().as_millis() >= 20);
    /// # Ok(()) }
    /// ```
    #[derive(Debug)]
    pub struct PacedBody<B: Body> {
        #[pin]
        inner: B,
        direction: Direction,
        // The rest of the last frame, which has not passed yet.
        rest: Option<B::Data>,
    }
}

impl<B: Body> PacedBody<B> {
    /// Paces a body. Clones of a `Pace` share its buckets.
    ///
    /// ```
    /// use http_body_util::Empty;
    /// use tollgate_paced::{Pace, PacedBody};
    /// let body = PacedBody::new(Empty::<bytes::Bytes>::new(), Pace::unlimited());
    /// ```
    pub fn new(inner: B, pace: Pace) -> Self {
        Self { inner, direction: Direction::new(pace), rest: None }
    }

    /// The body within.
    pub const fn get_ref(&self) -> &B {
        &self.inner
    }
}

impl<B: Body> Body for PacedBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let mut this = self.project();
        loop {
            if let Some(data) = this.rest.as_mut() {
                let piece = this.direction.poll_pass(context, data.remaining(), |_, max| {
                    (max, Poll::Ready(data.copy_to_bytes(max)))
                });
                let piece = ready!(piece);
                if !data.has_remaining() {
                    *this.rest = None;
                }
                return Poll::Ready(Some(Ok(Frame::data(piece))));
            }
            let frame = match ready!(this.inner.as_mut().poll_frame(context)) {
                Some(Ok(frame)) => frame,
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            };
            match frame.into_data() {
                Ok(data) => *this.rest = Some(data),
                // Trailers, or a frame of a kind that is not known yet: it has no data to charge.
                Err(frame) => {
                    let frame = frame.map_data(|mut data| data.copy_to_bytes(data.remaining()));
                    return Poll::Ready(Some(Ok(frame)));
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_none() && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.rest.as_ref().map_or(0, Buf::remaining) as u64;
        let inner = self.inner.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(inner.lower().saturating_add(rest));
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper.saturating_add(rest));
        }
        hint
    }
}
