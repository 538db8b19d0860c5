//! Responses of the proxy itself, as `application/problem+json` (RFC 9457).

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use http::{Method, Response, StatusCode};
use http_body::Body;
use http_body_util::{Either, Full};

use super::download::Download;
use crate::metrics::Failure;

/// The body of a response: forwarded from the upstream, or made by the proxy.
pub(crate) type ResponseBody = Either<Download, Full<Bytes>>;

impl Failure {
    fn status(self) -> StatusCode {
        match self {
            Self::NotPassedOn => StatusCode::NOT_IMPLEMENTED,
            Self::ClientBody | Self::ClientFraming => StatusCode::BAD_REQUEST,
            Self::Host | Self::Target | Self::AboveRoot | Self::HeaderValue => {
                StatusCode::BAD_REQUEST
            }
            Self::TargetTooLong => StatusCode::URI_TOO_LONG,
            Self::ClientTimeout => StatusCode::REQUEST_TIMEOUT,
            Self::ClientRequests => StatusCode::SERVICE_UNAVAILABLE,
            Self::Connect | Self::Tls => StatusCode::BAD_GATEWAY,
            Self::Protocol | Self::Closed | Self::Framing => StatusCode::BAD_GATEWAY,
            Self::UpgradeRequired => StatusCode::BAD_GATEWAY,
            Self::ConnectTimeout | Self::ResponseTimeout => StatusCode::GATEWAY_TIMEOUT,
        }
    }

    fn detail(self) -> &'static str {
        match self {
            Self::NotPassedOn => "CONNECT and the target * are not forwarded",
            Self::ClientBody => "the body of the request is incomplete or malformed",
            Self::ClientTimeout => "the body of the request did not arrive in time",
            Self::ClientRequests => "the address of the client has too many requests in flight",
            Self::ClientFraming => {
                "the request does not state its length once and clearly, or has a transfer coding \
                 other than chunked"
            }
            Self::Connect => "no connection to the upstream could be opened",
            Self::ConnectTimeout => "the upstream did not accept a connection in time",
            Self::Tls => "the upstream does not speak TLS, or is not trusted",
            Self::Protocol => "the upstream sent no response, or one that is not HTTP",
            Self::Closed => "the upstream closed the connection instead of answering",
            Self::Framing => "the upstream's response does not have the length that it states",
            Self::ResponseTimeout => "the upstream did not answer in time",
            Self::Host => "the host is missing, repeated or malformed, or has user info",
            Self::UpgradeRequired => {
                "the upstream requires an upgrade that the proxy does not forward"
            }
            Self::Target => "the target of the request has no path that begins with a slash",
            Self::TargetTooLong => "the target of the request is too long",
            Self::AboveRoot => "the path goes above the root by `..`",
            Self::HeaderValue => "the value of a header field begins or ends with white space",
        }
    }

    /// The response for the client. One to `HEAD` has the length of its body without the body (RFC 9110, 9.3.2),
    /// which hyper would send over HTTP/2.
    pub(crate) fn answer(self, method: &Method) -> Response<ResponseBody> {
        let mut response = problem(self.status(), self.detail());
        if *method == Method::HEAD {
            let length = response.body().size_hint().exact().unwrap_or_default();
            response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(length));
            *response.body_mut() = Either::Right(Full::default());
        }
        response
    }
}

/// The answer to an `OPTIONS` or `TRACE` request that may not be forwarded any more. The proxy does not repeat a
/// `TRACE`, since the request may hold secrets.
pub(super) fn at_the_last_hop(method: &Method) -> Response<ResponseBody> {
    if *method == Method::OPTIONS {
        return Response::new(Either::Right(Full::default()));
    }
    let mut response = problem(StatusCode::METHOD_NOT_ALLOWED, "the proxy does not answer TRACE");
    response.headers_mut().insert(ALLOW, HeaderValue::from_static("OPTIONS"));
    response
}

fn problem(status: StatusCode, detail: &str) -> Response<ResponseBody> {
    let (code, title) = (status.as_u16(), status.canonical_reason().unwrap_or_default());
    let text = format!(
        r#"{{"type":"about:blank","title":"{title}","status":{code},"detail":"{detail}"}}"#
    );
    let mut response = Response::new(Either::Right(Full::new(Bytes::from(text))));
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/problem+json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_has_a_json_response_and_its_index() {
        for (number, failure) in Failure::ALL.into_iter().enumerate() {
            assert_eq!(failure as usize, number);
            let [head, answer] = [Method::HEAD, Method::GET].map(|method| failure.answer(&method));
            let length = answer.body().size_hint().exact().expect("the proxy makes the body");
            assert_eq!(head.headers()[CONTENT_LENGTH], length.to_string());
            assert!(head.body().is_end_stream() && !answer.body().is_end_stream());
            assert_eq!(answer.headers()[CONTENT_TYPE], "application/problem+json");
            assert!(answer.status().is_client_error() || answer.status().is_server_error());
        }
    }
}
