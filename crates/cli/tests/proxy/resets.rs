//! HTTP/2 streams that one end resets without an error (`NO_ERROR`). Inside a body, that must not look like its end.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, mpsc};

use bytes::Bytes;
use h2::client::ResponseFuture;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tokio::sync::Notify;

use crate::server::runtime;
use crate::support::{PATIENCE, Proxy, connect, eventually, read_head, upstream};

/// An HTTP/2 server that runs this for each request.
fn http2_upstream<F>(
    answer: impl Fn(Request<RecvStream>, SendResponse<Bytes>) -> F + Send + Sync + 'static,
) -> SocketAddr
where
    F: Future<Output = ()> + Send + 'static,
{
    upstream(move |stream| {
        stream.set_nonblocking(true).expect("set");
        runtime().block_on(async {
            let stream = tokio::net::TcpStream::from_std(stream).expect("a stream");
            let mut connection = h2::server::handshake(stream).await.expect("HTTP/2");
            while let Some(Ok((request, respond))) = connection.accept().await {
                tokio::spawn(answer(request, respond));
            }
        });
    })
}

/// The two halves of a request in HTTP/2 whose body has begun with `half`.
async fn begun_upload(proxy: &Proxy) -> (ResponseFuture, SendStream<Bytes>) {
    let stream = tokio::net::TcpStream::connect(proxy.listen).await.expect("listening");
    let (requests, connection) = h2::client::handshake(stream).await.expect("HTTP/2");
    tokio::spawn(connection);
    let request = Request::post("http://a/").body(()).expect("a request");
    let mut requests = requests.ready().await.expect("ready");
    let (answer, mut upload) = requests.send_request(request, false).expect("sent");
    upload.send_data("half".into(), false).expect("a window");
    (answer, upload)
}

/// Reads the first chunk of an upload.
fn read_half(stream: &mut TcpStream) {
    assert!(read_head(stream).contains("transfer-encoding: chunked\r\n"));
    let mut chunk = [0; 9];
    stream.read_exact(&mut chunk).expect("the first chunk");
    assert_eq!(&chunk, b"4\r\nhalf\r\n");
}

#[test]
fn an_upload_that_its_client_resets_never_looks_complete_to_an_http1_upstream() {
    for is_answered in [false, true] {
        let (sender, events) = mpsc::channel();
        let sender = Mutex::new(sender);
        let up = upstream(move |mut stream| {
            read_half(&mut stream);
            if is_answered {
                let head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n";
                stream.write_all(head).expect("written");
            }
            let sender = sender.lock().expect("no panic");
            sender.send(String::new()).expect("it is heard");
            let mut rest = Vec::new();
            // Closed or reset.
            let _ = stream.read_to_end(&mut rest);
            sender.send(String::from_utf8_lossy(&rest).into_owned()).expect("it is heard");
        });
        let proxy = Proxy::before(&format!("upload-{is_answered}"), up, &[]);
        runtime().block_on(async {
            let (answer, mut upload) = begun_upload(&proxy).await;
            events.recv_timeout(PATIENCE).expect("the upload begins");
            // The response stays open.
            let response = if is_answered { Some(answer.await.expect("an answer")) } else { None };
            upload.send_reset(Reason::NO_ERROR);
            // The worker of the runtime sends it meanwhile.
            let rest = events.recv_timeout(PATIENCE).expect("the connection ends");
            assert_eq!(rest, "", "answered: {is_answered}");
            drop(response);
        });
    }
}

#[test]
fn an_upload_that_its_client_resets_never_looks_complete_to_an_http2_upstream() {
    for is_answered in [false, true] {
        let (sender, events) = mpsc::channel();
        let up = http2_upstream(move |request, mut respond| {
            let sender = sender.clone();
            async move {
                let mut body = request.into_body();
                let half = body.data().await.expect("a frame").expect("no error");
                assert_eq!(half, "half");
                let response = is_answered
                    .then(|| respond.send_response(Response::new(()), false).expect("sent"));
                sender.send(None).expect("it is heard");
                let ended = body.data().await;
                sender.send(ended).expect("it is heard");
                drop(response);
            }
        });
        let proxy = Proxy::before(&format!("upload-{is_answered}"), up, &["--upstream-http2"]);
        runtime().block_on(async {
            let (answer, mut upload) = begun_upload(&proxy).await;
            events.recv_timeout(PATIENCE).expect("the upload begins");
            let response = if is_answered { Some(answer.await.expect("an answer")) } else { None };
            upload.send_reset(Reason::NO_ERROR);
            let ended = events.recv_timeout(PATIENCE).expect("the stream ends");
            let Some(Err(error)) = ended else { panic!("it looks complete: {ended:?}") };
            assert!(error.reason() != Some(Reason::NO_ERROR), "{error}");
            drop(response);
        });
    }
}

/// An HTTP/2 upstream that sends a response with this length, if any, and the body `half`, and resets the stream
/// without an error as soon as the client has that.
fn resetting(length: Option<&'static str>) -> (SocketAddr, impl Fn()) {
    let go = Arc::new(Notify::new());
    let wait = Arc::clone(&go);
    let up = http2_upstream(move |_request, mut respond| {
        let wait = Arc::clone(&wait);
        async move {
            let response = Response::builder();
            let response = match length {
                Some(length) => response.header("content-length", length),
                None => response,
            };
            let response = response.body(()).expect("a response");
            let mut body = respond.send_response(response, false).expect("sent");
            body.send_data("half".into(), false).expect("a window");
            wait.notified().await;
            body.send_reset(Reason::NO_ERROR);
        }
    });
    (up, move || go.notify_one())
}

fn short(proxy: &Proxy) -> u64 {
    let count = proxy.metric("tollgate_response_faults_total{fault=\"short\"}");
    count.to_string().parse().expect("whole")
}

/// The bytes that an HTTP/1 client receives after the head and `begin`, until its connection ends.
fn rest_of_response(
    proxy: &Proxy,
    request: &str,
    begin: &str,
    go: impl Fn(),
) -> Result<String, ErrorKind> {
    let mut client = connect(proxy.listen);
    client.write_all(request.as_bytes()).expect("written");
    assert!(read_head(&mut client).contains(" 200 OK\r\n"));
    let mut bytes = vec![0; begin.len()];
    client.read_exact(&mut bytes).expect("the begin of the body");
    assert_eq!(String::from_utf8_lossy(&bytes), begin);
    go();
    let mut rest = String::new();
    client.read_to_string(&mut rest).map(|_| rest).map_err(|error| error.kind())
}

/// The body that an HTTP/2 client receives, or whether it is cut off.
fn body_over_http2(proxy: &Proxy, go: impl Fn()) -> Result<Bytes, ()> {
    runtime().block_on(async {
        let client: Client<_, Full<Bytes>> =
            Client::builder(TokioExecutor::new()).http2_only(true).build_http();
        let url = format!("http://{}/", proxy.listen).parse().expect("a URL");
        let mut body = client.get(url).await.expect("a head").into_body();
        let half = body.frame().await.expect("a frame").expect("no error");
        assert_eq!(half.data_ref().expect("data"), "half");
        go();
        body.collect().await.map(|rest| rest.to_bytes()).map_err(drop)
    })
}

#[test]
fn a_response_that_its_upstream_resets_never_looks_complete() {
    for length in [None, Some("11")] {
        let (up, go) = resetting(length);
        let name = format!("response-{}", length.unwrap_or("none"));
        let proxy = Proxy::before(&name, up, &["--upstream-http2"]);
        let begin = if length.is_some() { "half" } else { "4\r\nhalf\r\n" };
        let rest = rest_of_response(&proxy, "GET / HTTP/1.1\r\nhost: a\r\n\r\n", begin, &go);
        assert!(matches!(rest.as_deref(), Ok("") | Err(ErrorKind::ConnectionReset)), "{rest:?}");
        eventually("it is counted", || short(&proxy) == 1);

        let rest = rest_of_response(&proxy, "GET / HTTP/1.0\r\n\r\n", "half", &go);
        match length {
            None => assert_eq!(rest, Err(ErrorKind::ConnectionReset)),
            Some(_) => assert!(matches!(rest.as_deref(), Ok("") | Err(_)), "{rest:?}"),
        }
        eventually("it is counted", || short(&proxy) == 2);

        assert_eq!(body_over_http2(&proxy, &go), Err(()), "{length:?}");
        eventually("it is counted", || short(&proxy) == 3);
    }
}

/// All of the announced bytes have arrived, although the upstream has not ended the stream.
#[test]
fn a_response_that_is_reset_after_its_whole_length_passes() {
    let (up, go) = resetting(Some("4"));
    let proxy = Proxy::before("whole-length", up, &["--upstream-http2"]);
    let request = "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    assert_eq!(rest_of_response(&proxy, request, "half", &go).as_deref(), Ok(""));
    assert_eq!(body_over_http2(&proxy, &go).as_deref(), Ok(&b""[..]));
    assert_eq!(short(&proxy), 0);
}

/// A server asks its client so to stop its upload (RFC 9113, 8.1).
#[test]
fn a_whole_response_passes_if_the_upstream_then_resets_the_upload() {
    // Dropping a stream whose upload has not ended resets it without an error.
    let up = http2_upstream(|request, mut respond| async move {
        let half = request.into_body().data().await.expect("a frame").expect("no error");
        assert_eq!(half, "half");
        let mut body = respond.send_response(Response::new(()), false).expect("sent");
        body.send_data("whole".into(), true).expect("a window");
    });
    let proxy = Proxy::before("answered-early", up, &["--upstream-http2"]);
    runtime().block_on(async {
        let (answer, upload) = begun_upload(&proxy).await;
        let mut body = answer.await.expect("an answer").into_body();
        let whole = body.data().await.expect("a frame").expect("no error");
        assert_eq!(whole, "whole");
        assert!(body.data().await.is_none() && body.is_end_stream());
        drop(upload);
    });
    let begun = "POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n\
                 4\r\nhalf\r\n";
    let mut client = connect(proxy.listen);
    client.write_all(begun.as_bytes()).expect("written");
    assert!(read_head(&mut client).starts_with("HTTP/1.1 200 OK\r\n"));
    let mut body = String::new();
    while !body.ends_with("\r\n0\r\n\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte).expect("it ends");
        body.push(char::from(byte[0]));
    }
    assert_eq!(body, "5\r\nwhole\r\n0\r\n\r\n");
    assert_eq!(short(&proxy), 0);
}
