//! `/metrics` and `/healthz`, on an address of their own.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tollgate_http::RateLimitLayer;

use super::metrics::Metrics;
use super::rules::RulesGate;

const CONNECTIONS_MAX: usize = 16;
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const FIGURES: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

/// What can be asked about.
#[derive(Clone, Debug)]
pub(super) struct Admin {
    pub(super) gate: Arc<RulesGate>,
    pub(super) layer: RateLimitLayer<Arc<RulesGate>>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) is_stopping: Arc<AtomicBool>,
}

impl Admin {
    /// Answers for ever.
    pub(super) async fn serve(self, listener: Arc<TcpListener>) {
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        loop {
            let place = Arc::clone(&places).acquire_owned().await.expect("it is never closed");
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let admin = self.clone();
            tokio::spawn(async move {
                let answer = service_fn(|request| std::future::ready(admin.answer(&request)));
                let mut builder = http1::Builder::new();
                builder.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
                let _ = builder.serve_connection(TokioIo::new(stream), answer).await;
                drop(place);
            });
        }
    }

    #[allow(clippy::unnecessary_wraps, reason = "a service returns a result")]
    fn answer(&self, request: &Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
        let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
        let (status, kind, text) = match request.uri().path() {
            "/metrics" | "/healthz" if !is_read => {
                (StatusCode::METHOD_NOT_ALLOWED, TEXT, "only GET and HEAD\n".to_owned())
            }
            "/metrics" => {
                let page = self.metrics.page(&self.gate, self.layer.stats());
                (StatusCode::OK, FIGURES, page)
            }
            "/healthz" if self.is_stopping.load(Ordering::Relaxed) => {
                (StatusCode::SERVICE_UNAVAILABLE, TEXT, "stopping\n".to_owned())
            }
            "/healthz" => (StatusCode::OK, TEXT, "ok\n".to_owned()),
            _ => (StatusCode::NOT_FOUND, TEXT, "there is /metrics and /healthz\n".to_owned()),
        };
        let mut response = Response::new(Full::new(Bytes::from(text)));
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_TYPE, kind);
        Ok(response)
    }
}
