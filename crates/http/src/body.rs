//! The body of a response: the service's own, or that of a denial.

use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{StatusCode, response};
use http_body::{Frame, SizeHint};
use pin_project_lite::pin_project;

use crate::gate::Charge;

pin_project! {
    /// The service's body, or that of a denial. It counts the bytes sent if they settle a limit.
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
        Denied { text: Option<Bytes> },
    }
}

impl<B> Body<B> {
    pub(crate) fn denied(text: Bytes) -> Self {
        let text = (!text.is_empty()).then_some(text);
        Self { content: Content::Denied { text }, meter: None }
    }
}

impl<B: http_body::Body> Body<B> {
    /// The body of a response with this head.
    pub(crate) fn served(body: B, head: &response::Parts, charge: Option<Box<dyn Charge>>) -> Self {
        let meter = charge.map(|charge| Meter::new(charge, head, &body));
        Self { content: Content::Served { body }, meter }
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
        let mut body = match this.content.project() {
            ContentProj::Denied { text } => {
                return Poll::Ready(text.take().map(Frame::data).map(Ok));
            }
            ContentProj::Served { body } => body,
        };
        let frame = ready!(body.as_mut().poll_frame(context));
        if let Some(meter) = this.meter.as_mut() {
            match &frame {
                Some(Ok(frame)) => {
                    let bytes = frame.data_ref().map_or(0, Bytes::len);
                    // A server drops a body after its trailers without polling for the end.
                    meter.count(bytes as u64, frame.is_trailers() || body.is_end_stream());
                }
                Some(Err(_)) => meter.settle(false),
                None => meter.settle(true),
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Denied { text } => text.is_none(),
            Content::Served { body } => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Denied { text } => {
                SizeHint::with_exact(text.as_ref().map_or(0, Bytes::len) as u64)
            }
            Content::Served { body } => body.size_hint(),
        }
    }
}

/// Counts the bytes sent of a body, and settles the charge when the body ends, fails or is dropped.
struct Meter {
    /// `None` once it is settled.
    charge: Option<Box<dyn Charge>>,
    bytes: u64,
    /// The length of the body, if it is known.
    length: Option<u64>,
    /// Whether all of the body was sent. A server that knows the length drops a body without polling
    /// for its end.
    is_complete: bool,
}

impl Meter {
    fn new(charge: Box<dyn Charge>, head: &response::Parts, body: &impl http_body::Body) -> Self {
        let header = head.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
        let length = header.and_then(|text| text.parse().ok()).or_else(|| body.size_hint().exact());
        let has_none = matches!(head.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        let is_complete = has_none || body.is_end_stream() || length == Some(0);
        Self { charge: Some(charge), bytes: 0, length, is_complete }
    }

    fn count(&mut self, bytes: u64, is_end: bool) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.is_complete = is_end || self.length.is_some_and(|length| self.bytes >= length);
    }

    fn settle(&mut self, is_complete: bool) {
        match self.charge.take() {
            Some(charge) if is_complete => charge.sent(self.bytes),
            Some(charge) => charge.cut_short(self.bytes),
            None => {}
        }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.settle(self.is_complete);
    }
}

impl fmt::Debug for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meter").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}
