//! Serves `/metrics`, `/healthz` and `/readyz` on a separate address.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tollgate_http::RateLimitLayer;

use crate::connection::write_timeout::{ClientStream, ClientTimeouts};
use crate::log;
use crate::metrics::{Metrics, PrometheusText};
use crate::rules;
use crate::rules::RulesGate;
use crate::stores;
use crate::stores::StoreDown;

const METRICS: &str = "/metrics";
const CONNECTIONS_MAX: usize = 16;
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// A client that reads nothing loses its slot.
const TIMEOUTS: ClientTimeouts =
    ClientTimeouts { write: Duration::from_secs(10), half_close: Duration::from_secs(10) };
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const PROMETHEUS_TEXT: HeaderValue =
    HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

/// The sources of the admin endpoints.
#[derive(Clone, Debug)]
pub(crate) struct Admin {
    pub(crate) gate: Arc<RulesGate>,
    pub(crate) layer: RateLimitLayer<Arc<RulesGate>>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) is_stopping: Arc<AtomicBool>,
}

impl Admin {
    /// Serves forever.
    pub(crate) async fn serve(self, listener: Arc<TcpListener>) {
        let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        loop {
            let slot =
                Arc::clone(&slots).acquire_owned().await.expect("the semaphore is never closed");
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let admin = self.clone();
            let stream =
                ClientStream::new(stream, TIMEOUTS, Arc::default(), Arc::clone(&admin.metrics));
            tokio::spawn(async move {
                let answer = service_fn(|request| {
                    let admin = admin.clone();
                    async move {
                        if request.uri().path() != METRICS {
                            return Ok(admin.answer(&request));
                        }
                        // Counting the live keys of many limits takes a while. The other pages need no thread, which
                        // they would wait for while all are busy.
                        tokio::task::spawn_blocking(move || admin.answer(&request)).await
                    }
                });
                let mut builder = http1::Builder::new();
                builder
                    .timer(TokioTimer::new())
                    .header_read_timeout(HEADER_TIMEOUT)
                    // A client may close its sending side as soon as its request is sent.
                    .half_close(true);
                let _ = builder.serve_connection(TokioIo::new(stream), answer).await;
                drop(slot);
            });
        }
    }

    /// Whether the proxy should receive requests. A store that is down makes the proxy unready only if a rule
    /// denies requests meanwhile. If a fallback decides, the status stays 200 and the text names the store.
    fn readiness(&self) -> (StatusCode, String) {
        let down = self.gate.store_limits().down();
        let is_ready = !down.iter().any(|store| store.denies_requests);
        let (status, word) = match (is_ready, down.is_empty()) {
            (true, true) => (StatusCode::OK, "ready\n"),
            (true, false) => (StatusCode::OK, "degraded\n"),
            (false, _) => (StatusCode::SERVICE_UNAVAILABLE, "not ready\n"),
        };
        let lines = down.iter().map(|StoreDown { store, health, denies_requests }| {
            let what =
                if *denies_requests { "some requests are denied" } else { "the fallback decides" };
            format!("store {store} is down: {health}; {what}\n")
        });
        (status, word.to_owned() + &lines.collect::<String>())
    }

    fn metrics_page(&self) -> String {
        let mut page = PrometheusText::default();
        self.metrics.write(&mut page, self.layer.stats(), log::dropped());
        rules::write(&mut page, &self.gate);
        stores::write(&mut page, &self.gate.store_limits());
        page.into_text()
    }

    fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
        let (status, kind, text) = match request.uri().path() {
            METRICS | "/healthz" | "/readyz" if !is_read => {
                (StatusCode::METHOD_NOT_ALLOWED, TEXT, "only GET and HEAD\n".to_owned())
            }
            METRICS => (StatusCode::OK, PROMETHEUS_TEXT, self.metrics_page()),
            "/healthz" | "/readyz" if self.is_stopping.load(Ordering::Relaxed) => {
                (StatusCode::SERVICE_UNAVAILABLE, TEXT, "stopping\n".to_owned())
            }
            "/healthz" => (StatusCode::OK, TEXT, "ok\n".to_owned()),
            "/readyz" => {
                let (status, text) = self.readiness();
                (status, TEXT, text)
            }
            _ => {
                let text = "the paths are /metrics, /healthz and /readyz\n".to_owned();
                (StatusCode::NOT_FOUND, TEXT, text)
            }
        };
        let mut response = Response::new(Full::new(Bytes::from(text)));
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_TYPE, kind);
        if status == StatusCode::METHOD_NOT_ALLOWED {
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;
    use tokio::runtime::Builder;

    use super::*;

    fn admin() -> Admin {
        let metrics = Arc::new(Metrics::new(1));
        let gate = RulesGate::open(None, false, Arc::clone(&metrics));
        let gate = Arc::new(gate.expect("the built-in rules").0);
        let layer = RateLimitLayer::new(Arc::clone(&gate));
        Admin { gate, layer, metrics, is_stopping: Arc::default() }
    }

    async fn status(address: std::net::SocketAddr, path: &str) -> String {
        let mut client = TcpStream::connect(address).await.expect("listening");
        let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
        client.write_all(request.as_bytes()).await.expect("written");
        let mut answer = String::new();
        let read = client.read_to_string(&mut answer);
        let _ = tokio::time::timeout(Duration::from_secs(10), read).await;
        answer.chars().take(15).collect()
    }

    #[tokio::test]
    async fn a_client_that_closes_its_sending_side_receives_its_answer() {
        let listener = Arc::new(TcpListener::bind("127.0.0.1:0").await.expect("a port"));
        let address = listener.local_addr().expect("bound");
        tokio::spawn(admin().serve(listener));
        for path in [METRICS, "/healthz"] {
            let mut client = TcpStream::connect(address).await.expect("listening");
            let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n");
            client.write_all(request.as_bytes()).await.expect("written");
            client.shutdown().await.expect("open");
            let mut answer = String::new();
            let read = tokio::time::timeout(6 * HEADER_TIMEOUT, client.read_to_string(&mut answer));
            read.await.expect("in time").expect("closed");
            assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{path}: {answer:?}");
        }
    }

    #[test]
    fn the_health_endpoints_answer_while_all_threads_for_blocking_work_are_busy() {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(1).max_blocking_threads(1).enable_all();
        let runtime = builder.build().expect("a runtime");
        let (release, held) = mpsc::channel::<()>();
        let statuses = runtime.block_on(async {
            tokio::task::spawn_blocking(move || held.recv());
            let listener = Arc::new(TcpListener::bind("127.0.0.1:0").await.expect("a port"));
            let address = listener.local_addr().expect("bound");
            tokio::spawn(admin().serve(listener));
            [status(address, "/healthz").await, status(address, "/readyz").await]
        });
        // The runtime waits for its threads.
        drop(release);
        assert_eq!(statuses, ["HTTP/1.1 200 OK"; 2]);
    }
}
