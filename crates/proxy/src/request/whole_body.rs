//! A body, of a request or a response, that does not end before all of it has arrived.
//!
//! hyper also ends a body in HTTP/2 when its stream is reset with `NO_ERROR`, or its connection is closed with that
//! because the peer does not reply to pings. After a whole response, such a reset asks the client to stop its upload
//! (RFC 9113, 8.1). Inside a body, it cuts the body off.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Version;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

pub(crate) type BoxError = Box<dyn Error + Send + Sync>;

/// The body of a message.
#[derive(Debug)]
pub(crate) struct WholeBody {
    body: Incoming,
    /// In HTTP/1, hyper itself checks that the body has ended.
    is_http2: bool,
}

impl WholeBody {
    /// Wraps the body of a message that was received in this version.
    pub(crate) fn new(body: Incoming, version: Version) -> Self {
        Self { body, is_http2: version == Version::HTTP_2 }
    }

    /// Whether bytes may be missing, after hyper has ended the body.
    fn is_cut_off(&self) -> bool {
        let has_all_announced = self.body.size_hint().exact() == Some(0);
        self.is_http2 && !self.body.is_end_stream() && !has_all_announced
    }
}

impl Body for WholeBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if matches!(polled, Poll::Ready(None)) && self.is_cut_off() {
            return Poll::Ready(Some(Err(CutOff.into())));
        }
        polled.map_err(BoxError::from)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The sender of a body reset its stream before the end.
#[derive(Debug)]
pub(crate) struct CutOff;

impl fmt::Display for CutOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the stream was reset inside the body")
    }
}

impl Error for CutOff {}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::Response;
    use http_body_util::{BodyExt, Empty};
    use hyper::server::conn::http2::Builder;
    use hyper::service::service_fn;
    use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
    use tokio::io::AsyncWriteExt;
    use tokio::sync::mpsc;

    use super::*;

    /// A client that sends the head of a `POST` and `half` in HTTP/2, and then answers no frame, not even a ping.
    const VANISHES: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\
        \0\0\0\x04\0\0\0\0\0\
        \0\0\x06\x01\x04\0\0\0\x01\x83\x86\x84\x41\x01a\
        \0\0\x04\0\0\0\0\0\x01half";

    #[tokio::test]
    async fn the_body_of_a_client_that_vanishes_is_cut_off() {
        let (mut client, server) = tokio::io::duplex(4_096);
        client.write_all(VANISHES).await.expect("written");
        let (ended, mut ends) = mpsc::channel(1);
        let service = service_fn(move |request: http::Request<Incoming>| {
            let (version, ended) = (request.version(), ended.clone());
            // The service is dropped with its stream. So another task reads the body, as in the proxy.
            tokio::spawn(async move {
                let body = WholeBody::new(request.into_body(), version).collect().await;
                let _ = ended.send(body.map(|body| body.to_bytes())).await;
            });
            async { std::future::pending::<Result<Response<Empty<Bytes>>, BoxError>>().await }
        });
        let mut builder = Builder::new(TokioExecutor::new());
        builder.timer(TokioTimer::new());
        builder.keep_alive_interval(Duration::from_millis(50));
        builder.keep_alive_timeout(Duration::from_millis(50));
        tokio::spawn(builder.serve_connection(TokioIo::new(server), service));
        let ended = tokio::time::timeout(Duration::from_secs(60), ends.recv()).await;
        let error = ended.expect("in time").expect("it ends").expect_err("it is not whole");
        assert!(error.is::<CutOff>(), "{error}");
    }
}
