//! The body of a response: the service's own, or that of a refusal.

use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use pin_project_lite::pin_project;

use crate::gate::Charge;

pin_project! {
    /// The service's body, or that of a refusal. Where a limit is settled by the bytes that were
    /// sent, it counts them.
    ///
    /// ```
    /// use http_body_util::Full;
    /// use bytes::Bytes;
    /// let body: Option<tollgate_http::Body<Full<Bytes>>> = None;
    /// ```
    #[derive(Debug)]
    pub struct Body<B> {
        #[pin]
        content: Content<B>,
        meter: Option<Meter>,
    }
}

pin_project! {
    #[derive(Debug)]
    #[project = ContentProj]
    enum Content<B> {
        Served { #[pin] body: B },
        Refused { text: Option<Bytes> },
    }
}

impl<B> Body<B> {
    pub(crate) fn served(body: B, charge: Option<Box<dyn Charge>>) -> Self {
        let meter = charge.map(|charge| Meter { charge: Some(charge), bytes: 0 });
        Self { content: Content::Served { body }, meter }
    }

    pub(crate) fn refused(text: Bytes) -> Self {
        let text = (!text.is_empty()).then_some(text);
        Self { content: Content::Refused { text }, meter: None }
    }
}

impl<B: http_body::Body<Data = Bytes>> http_body::Body for Body<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.project();
        let body = match this.content.project() {
            ContentProj::Refused { text } => {
                return Poll::Ready(text.take().map(Frame::data).map(Ok));
            }
            ContentProj::Served { body } => body,
        };
        let frame = ready!(body.poll_frame(context));
        match (&frame, this.meter.as_mut()) {
            (Some(Ok(frame)), Some(meter)) => {
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                meter.bytes = meter.bytes.saturating_add(bytes as u64);
            }
            (None, _) => *this.meter = None, // settles
            _ => {}
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Refused { text } => text.is_none(),
            Content::Served { body } => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Refused { text } => {
                SizeHint::with_exact(text.as_ref().map_or(0, Bytes::len) as u64)
            }
            Content::Served { body } => body.size_hint(),
        }
    }
}

/// Counts what is sent of a body, and settles when it is dropped.
struct Meter {
    charge: Option<Box<dyn Charge>>,
    bytes: u64,
}

impl Drop for Meter {
    fn drop(&mut self) {
        if let Some(charge) = self.charge.take() {
            charge.sent(self.bytes);
        }
    }
}

impl fmt::Debug for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meter").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}
