//! Bodies: an actix body as the layer sees it, and the layer's body as actix sees it.

use core::pin::Pin;
use core::task::{Context, Poll, ready};

use actix_web::body::{BodySize, MessageBody};
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

pin_project! {
    /// The application's body, which the layer may count.
    #[derive(Debug)]
    pub struct Served<B> {
        // `None`: another one of this size is sent.
        #[pin]
        body: Option<B>,
        size_of_other: BodySize,
    }
}

impl<B: MessageBody> Served<B> {
    pub(crate) fn new(body: B) -> Self {
        Self { body: Some(body), size_of_other: BodySize::None }
    }

    /// Stands for a body of this size that does not pass through the layer.
    pub(crate) fn other(size: BodySize) -> Self {
        Self { body: None, size_of_other: size }
    }

    fn size(&self) -> BodySize {
        self.body.as_ref().map_or(self.size_of_other, B::size)
    }
}

impl<B: MessageBody> Body for Served<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let Some(body) = self.project().body.as_pin_mut() else { return Poll::Ready(None) };
        let chunk = ready!(body.poll_next(context));
        Poll::Ready(chunk.map(|chunk| chunk.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.size(), BodySize::None | BodySize::Sized(0))
    }

    fn size_hint(&self) -> SizeHint {
        match self.size() {
            BodySize::None => SizeHint::with_exact(0),
            BodySize::Sized(bytes) => SizeHint::with_exact(bytes),
            BodySize::Stream => SizeHint::default(),
        }
    }
}

pin_project! {
    /// The body of a response: the application's own, or that of a denial.
    #[derive(Debug)]
    pub struct ResponseBody<B> {
        #[pin]
        body: tollgate_http::Body<Served<B>>,
        size: BodySize,
    }
}

impl<B: MessageBody> ResponseBody<B> {
    /// A body of this size; `None`: that of a denial, which knows its own.
    pub(crate) fn new(body: tollgate_http::Body<Served<B>>, size: Option<BodySize>) -> Self {
        let size = size.or_else(|| body.size_hint().exact().map(BodySize::Sized));
        Self { body, size: size.unwrap_or(BodySize::Stream) }
    }
}

impl<B: MessageBody> MessageBody for ResponseBody<B> {
    type Error = B::Error;

    fn size(&self) -> BodySize {
        self.size
    }

    fn poll_next(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, B::Error>>> {
        let mut body = self.project().body;
        loop {
            let Some(frame) = ready!(body.as_mut().poll_frame(context)) else {
                return Poll::Ready(None);
            };
            // An actix body has no trailers.
            match frame.map(Frame::into_data) {
                Ok(Ok(chunk)) => return Poll::Ready(Some(Ok(chunk))),
                Ok(Err(_)) => {}
                Err(error) => return Poll::Ready(Some(Err(error))),
            }
        }
    }
}
