//! The demonstration without options: a few rules, and an upstream that echoes requests.

use std::convert::Infallible;
use std::fmt::Write;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

/// The pause after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The rules when no file is given.
pub(crate) const RULES: &str = r#"
# 2 posts a second per user.
[[rule]]
name = "posts"
match = { path = "/posts/**", method = "POST" }
key = "header:x-user"
limits = "2/s"

# Reports are admitted one per second; of 5 at once, 4 wait for their turn.
[[rule]]
name = "reports"
match = { path = "/reports/**" }
algorithm = "leaky-queue"
limits = "1/s burst 5"

# All requests: 5 per second from each address, and 10 at once.
[[rule]]
name = "everything"
limits = "5/s burst 10"
"#;

/// Starts a server on a free port that echoes each request.
pub(crate) async fn serve_upstream() -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        loop {
            // Accepting can fail for lack of descriptors. The proxy reports that to its client.
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            };
            let connection =
                http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(echo));
            tokio::spawn(connection);
        }
    });
    Ok(address)
}

async fn echo(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (method, uri) = (request.method(), request.uri());
    let mut text = format!("hello from the built-in upstream\n\n{method} {uri}\n");
    for (name, value) in request.headers() {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{name}: {}", String::from_utf8_lossy(value.as_bytes()));
    }
    Ok(Response::new(Full::new(Bytes::from(text))))
}
