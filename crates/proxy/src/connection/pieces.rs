//! Splits the data frames of a body. An HTTP/2 stream is polled again only when the client has room for the whole
//! frame before, so a large frame would hide that a slow client reads.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

/// The largest piece: the frames that HTTP/2 sends by default are no larger.
const PIECE_MAX: usize = 16 << 10;

pin_project! {
    /// A body whose data passes in pieces. They are not copied.
    #[derive(Debug)]
    pub(crate) struct Pieces<B> {
        #[pin]
        body: B,
        piece_max: usize,
        // The part of the last frame that has not been passed on.
        rest: Bytes,
    }
}

impl<B> Pieces<B> {
    /// Splits the frames of an HTTP/2 stream, and leaves those of HTTP/1 whole.
    pub(crate) fn new(body: B, is_http2: bool) -> Self {
        let piece_max = if is_http2 { PIECE_MAX } else { usize::MAX };
        Self { body, piece_max, rest: Bytes::new() }
    }
}

impl<B: Body<Data = Bytes>> Body for Pieces<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.project();
        if this.rest.is_empty() {
            let frame = match ready!(this.body.poll_frame(context)) {
                Some(Ok(frame)) => frame,
                ended => return Poll::Ready(ended),
            };
            match frame.into_data() {
                Ok(data) if data.len() > *this.piece_max => *this.rest = data,
                Ok(data) => return Poll::Ready(Some(Ok(Frame::data(data)))),
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
            }
        }
        let piece = this.rest.split_to(this.rest.len().min(*this.piece_max));
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (rest, body) = (self.rest.len() as u64, self.body.size_hint());
        let mut hint = SizeHint::new();
        hint.set_lower(body.lower().saturating_add(rest));
        if let Some(upper) = body.upper() {
            hint.set_upper(upper.saturating_add(rest));
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt, Full};

    use super::*;

    #[tokio::test]
    async fn a_large_frame_of_http2_passes_in_pieces_and_ends_with_the_last() {
        let data = Bytes::from(vec![7; 2 * PIECE_MAX + 5]);
        for (is_http2, lengths) in
            [(true, vec![PIECE_MAX, PIECE_MAX, 5]), (false, vec![2 * PIECE_MAX + 5])]
        {
            let mut body = Pieces::new(Full::new(data.clone()), is_http2);
            let mut left = data.len();
            for length in lengths {
                assert!(!body.is_end_stream());
                assert_eq!(body.size_hint().exact(), Some(left as u64));
                let frame = body.frame().await.expect("more is left").expect("no error");
                assert_eq!(frame.data_ref().map(Bytes::len), Some(length));
                left -= length;
            }
            assert!(body.is_end_stream() && body.frame().await.is_none());
        }
    }
}
