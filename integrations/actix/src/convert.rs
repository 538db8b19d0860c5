//! Heads of requests and responses: actix-web has the types of `http` 0.2, and the layer those of `http` 1.

use actix_web::body::BodySize;
use actix_web::dev::ServiceRequest;
use actix_web::error::ErrorUriTooLong;
use actix_web::http::header::{HeaderMap, HeaderName, HeaderValue};
use actix_web::http::{Method, StatusCode};
use actix_web::{Error, HttpResponse, HttpResponseBuilder};

/// The head that the layer decides by. The peer's address is where `PeerIp` and `ClientIp` look for it.
///
/// A target that the layer cannot read is an error: the request would be decided by another one. HTTP/2 bounds the
/// parts of a target, and `http` 1 bounds their sum.
pub(crate) fn request<B>(request: &ServiceRequest, body: B) -> Result<http::Request<B>, Error> {
    let mut head = http::Request::new(body);
    if let Ok(method) = http::Method::from_bytes(request.method().as_str().as_bytes()) {
        *head.method_mut() = method;
    }
    let uri = request.uri().to_string().parse();
    *head.uri_mut() = uri.map_err(|_| ErrorUriTooLong("the target of the request is too long"))?;
    *head.headers_mut() = headers(request.headers());
    if let Some(address) = request.peer_addr() {
        head.extensions_mut().insert(address);
    }
    Ok(head)
}

/// The head of a response of the application.
pub(crate) fn response<B>(head: &HttpResponse<()>, body: B) -> http::Response<B> {
    let mut response = http::Response::new(body);
    // Both types hold a number from 100 to 999.
    *response.status_mut() = http::StatusCode::from_u16(head.status().as_u16()).unwrap_or_default();
    *response.headers_mut() = headers(head.headers());
    response
}

/// A response of the layer itself.
pub(crate) fn denial(head: &http::response::Parts) -> HttpResponse<()> {
    let status = StatusCode::from_u16(head.status.as_u16()).unwrap_or_default();
    let mut response = HttpResponseBuilder::new(status).finish().drop_body();
    replace_headers(response.headers_mut(), &head.headers);
    response
}

/// The size of the body that a denial has for other methods than `HEAD`, of which actix writes the length. The layer
/// has taken the body out, and written its length.
pub(crate) fn size_for_head(
    request: &ServiceRequest,
    denial: &http::response::Parts,
) -> Option<BodySize> {
    let length = denial.headers.get(http::header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()?;
    (request.method() == Method::HEAD).then_some(BodySize::Sized(length))
}

/// Replaces the headers of a response by those that it has after the layer.
pub(crate) fn replace_headers(headers: &mut HeaderMap, after: &http::HeaderMap) {
    headers.clear();
    for (name, value) in after {
        let name = HeaderName::from_bytes(name.as_str().as_bytes());
        let value = HeaderValue::from_bytes(value.as_bytes());
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.append(name, value);
        }
    }
}

fn headers(headers: &HeaderMap) -> http::HeaderMap {
    // They are counted with those of equal names, and a capacity for so many names may be more than a map can have.
    let mut copy = http::HeaderMap::try_with_capacity(headers.len()).unwrap_or_default();
    for (name, value) in headers {
        let name = http::HeaderName::from_bytes(name.as_str().as_bytes());
        let value = http::HeaderValue::from_bytes(value.as_bytes());
        if let (Ok(name), Ok(value)) = (name, value) {
            copy.append(name, value);
        }
    }
    copy
}
