//! Upstreams on hyper, with and without TLS, for tests that need more than raw sockets.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair,
};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::runtime::{Builder, Runtime};
use tokio_rustls::TlsAcceptor;

use crate::support::scratch;

pub(crate) type Body = BoxBody<Bytes, Infallible>;

pub(crate) fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime")
}

/// A body with this text.
pub(crate) fn text(text: impl Into<Bytes>) -> Body {
    Full::new(text.into()).boxed()
}

/// A body without a length, followed by these trailers.
pub(crate) fn with_trailers(
    text: impl Into<Bytes>,
    lines: &[(&'static str, &'static str)],
) -> Body {
    let mut trailers = HeaderMap::new();
    for (name, value) in lines {
        trailers.insert(*name, value.parse().expect("a value"));
    }
    Unsized(Some(text.into())).with_trailers(async { Some(Ok(trailers)) }).boxed()
}

struct Unsized(Option<Bytes>);

impl hyper::body::Body for Unsized {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.take().map(|bytes| Ok(Frame::data(bytes))))
    }
}

/// A server with this handler on its own threads. It serves HTTP/1.1 and HTTP/2.
pub(crate) fn serve<F>(
    tls: Option<ServerConfig>,
    answer: impl Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
) -> SocketAddr
where
    F: Future<Output = Response<Body>> + Send + 'static,
{
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    listener.set_nonblocking(true).expect("set");
    let tls = tls.map(|config| TlsAcceptor::from(Arc::new(config)));
    std::thread::spawn(move || {
        runtime().block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
            loop {
                let (stream, _) = listener.accept().await.expect("accepted");
                let (tls, answer) = (tls.clone(), answer.clone());
                tokio::spawn(async move {
                    let service = service_fn(move |request| {
                        let answered = answer(request);
                        async { Ok::<_, Infallible>(answered.await) }
                    });
                    let builder = auto::Builder::new(TokioExecutor::new());
                    // Errors of a connection are not checked here.
                    match tls {
                        None => {
                            let io = TokioIo::new(stream);
                            let _ = builder.serve_connection_with_upgrades(io, service).await;
                        }
                        Some(tls) => {
                            let Ok(stream) = tls.accept(stream).await else { return };
                            let io = TokioIo::new(stream);
                            let _ = builder.serve_connection_with_upgrades(io, service).await;
                        }
                    }
                });
            }
        });
    });
    address
}

/// A certificate authority for one test.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new() -> Self {
        Self::named("an authority of the tests")
    }

    pub(crate) fn named(name: &str) -> Self {
        let mut params = CertificateParams::new([]).expect("no names");
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        Self(CertifiedIssuer::self_signed(params, key).expect("signed"))
    }

    /// The certificate of the authority.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        scratch(&format!("{name}.pem"), &self.0.pem())
    }

    /// A TLS configuration with a certificate for these names, and these protocols.
    pub(crate) fn certify(&self, names: &[&str], protocols: &[&str]) -> ServerConfig {
        let (certificate, key) = self.sign(names);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::Pkcs8(key.serialize_der().into()),
            )
            .expect("they fit");
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        config
    }

    /// A certificate for these names and its key, for servers that read files.
    pub(crate) fn certify_in_pem(&self, names: &[&str]) -> (String, String) {
        let (certificate, key) = self.sign(names);
        (certificate.pem(), key.serialize_pem())
    }

    fn sign(&self, names: &[&str]) -> (Certificate, KeyPair) {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(names).expect("names");
        (params.signed_by(&key, &self.0).expect("signed"), key)
    }
}
