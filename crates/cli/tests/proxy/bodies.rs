//! Bodies of requests whose method usually has none.

use http::{Request, Response};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;

use crate::server::{Body, runtime, serve, text, with_trailers};
use crate::support::{Proxy, ask};

/// Answers with the body of the request in a header, since a response to HEAD has no body.
async fn report(request: Request<Incoming>) -> Response<Body> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.expect("a whole body").to_bytes();
    let coding = head.headers.get("transfer-encoding").map_or(&b""[..], |value| value.as_bytes());
    let response = Response::builder().header("x-body", &body[..]).header("x-coding", coding);
    response.body(text("")).expect("a response")
}

/// The body that the upstream received for a request in HTTP/2.
fn received(proxy: &Proxy, method: &str, body: Body) -> String {
    let request = Request::builder().method(method).uri(format!("http://{}/", proxy.listen));
    let request = request.body(body).expect("a request");
    runtime().block_on(async {
        let client = Client::builder(TokioExecutor::new()).http2_only(true).build_http();
        let answer = client.request(request).await.expect("an answer");
        answer.headers()["x-body"].to_str().expect("ASCII").to_owned()
    })
}

#[test]
fn a_body_without_a_length_reaches_the_upstream_whatever_the_method() {
    let chunks = "transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n";
    for (name, words) in [("open-body", &[][..]), ("open-body-2", &["--upstream-http2"])] {
        let proxy = Proxy::before(name, serve(None, report), words);
        for method in ["GET", "HEAD", "POST", "DELETE"] {
            let answer = ask(proxy.listen, method, "/", chunks);
            assert_eq!((answer.status, answer.header("x-body")), (200, "hello"), "{name} {method}");
            let body = received(&proxy, method, with_trailers("hello", &[]));
            assert_eq!(body, "hello", "{name} {method}");
        }
    }
}

#[test]
fn a_get_without_a_body_has_no_transfer_coding() {
    let proxy = Proxy::before("no-body", serve(None, report), &[]);
    for method in ["GET", "HEAD"] {
        for headers in ["", "content-length: 0\r\n"] {
            let answer = ask(proxy.listen, method, "/", headers);
            assert_eq!((answer.status, answer.header("x-coding")), (200, ""), "{method} {headers}");
        }
        assert_eq!(received(&proxy, method, Empty::new().boxed()), "");
    }
}
