//! The body of a request. If the request is answered before its body is read, the rest is read and
//! discarded: closing the connection while the client still sends would make the client's system discard
//! the answer (RFC 9112, 9.6).

use std::any::Any;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::EXPECT;
use http::{Version, request};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::runtime::Handle;

use super::whole_body::{BoxError, WholeBody};

/// The largest rest that is read. After more, the connection is closed.
const REST_BYTES_MAX: usize = 16 << 20;

/// Marks a request whose body had not ended when its head arrived; an extension of the request. The head of an
/// HTTP/2 request does not tell.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenBody;

/// The body.
#[derive(Debug)]
pub(crate) struct RequestBody {
    body: Option<WholeBody>,
    /// How long the rest may take; `None` if the rest is not read.
    rest_timeout: Option<Duration>,
    /// Whether the client waits for `100 Continue`, and has sent nothing. The first read asks it to send.
    awaits_continue: bool,
    /// A value that is kept until the body is dropped.
    _held: Option<Arc<dyn Any + Send + Sync>>,
}

impl RequestBody {
    /// Wraps the body of a request. Its rest is read up to 16 MiB and for up to `rest_timeout`.
    pub(crate) fn new(head: &request::Parts, body: Incoming, rest_timeout: Duration) -> Self {
        // HTTP/2 resets the single stream instead.
        let has_rest = head.version < Version::HTTP_2 && !body.is_end_stream();
        let rest_timeout = has_rest.then_some(rest_timeout);
        let body = WholeBody::new(body, head.version);
        Self { body: Some(body), rest_timeout, awaits_continue: awaits_continue(head), _held: None }
    }

    /// Keeps this until the body is dropped.
    pub(crate) fn holding(mut self, held: Arc<dyn Any + Send + Sync>) -> Self {
        self._held = Some(held);
        self
    }

    /// Does not read the rest: the client has stopped sending it.
    pub(crate) fn abandon(&mut self) {
        self.rest_timeout = None;
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.awaits_continue = false;
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let polled = Pin::new(body).poll_frame(context);
        if let Poll::Ready(None | Some(Err(_))) = polled {
            self.abandon();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(WholeBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), WholeBody::size_hint)
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        let (Some(body), Some(rest_timeout)) = (self.body.take(), self.rest_timeout) else {
            return;
        };
        if body.is_end_stream() || self.awaits_continue {
            return;
        }
        // During shutdown there is no runtime any more.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(tokio::time::timeout(rest_timeout, discard(body)));
        }
    }
}

/// Whether hyper sends `100 Continue` before it reads the body.
fn awaits_continue(head: &request::Parts) -> bool {
    let expect = head.headers.get_all(EXPECT).iter().next_back();
    head.version > Version::HTTP_10
        && expect.is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"))
}

/// Reads to the end, or up to the bound.
async fn discard(mut body: WholeBody) {
    let mut bytes = 0;
    while let Some(Ok(frame)) = body.frame().await {
        bytes += frame.data_ref().map_or(0, Bytes::len);
        if bytes > REST_BYTES_MAX {
            return;
        }
    }
}
