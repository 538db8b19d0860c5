//! Accepts connections up to a bound, serves HTTP/1.1 and HTTP/2, and drains them at shutdown.

pub(crate) mod service;

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, watch};

use self::service::{ConnectionService, ServiceContext};
use crate::connection::open::{ConnectionSlots, OpenConnection, Slots};
use crate::connection::per_client::PerClient;
use crate::connection::streams::Streams;
use crate::connection::usage::Usage;
use crate::connection::write_timeout::{ClientStream, ClientTimeouts};
use crate::process::send_buffer::limit_unsent;
use crate::process::signals::StopSignals;

/// The interval of pings to an HTTP/2 client; a missing reply ends the connection.
const PING_INTERVAL: Duration = Duration::from_secs(30);
/// The most concurrent requests of one HTTP/2 connection.
pub(crate) const STREAMS_MAX: u32 = 128;
/// How many bytes of a request's body an HTTP/2 client may send ahead of the upstream. The window of the connection is
/// the sum of those of its streams, so that a body that is not read leaves room for the others. With many connections,
/// the proxy may have to hold all of it: 8 MiB each.
const STREAM_WINDOW: u32 = 64 << 10;
/// How many bytes of a response wait until an HTTP/2 client reads, besides one frame.
const SEND_BUFFER: usize = 64 << 10;
/// The largest head of a request in HTTP/1, and how many bytes of responses wait until the client reads, besides one
/// frame.
const HTTP1_BUFFER: usize = 128 << 10;
/// The pause after accepting failed, for example for lack of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The server, before it runs.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) context: ServiceContext,
    pub(crate) header_timeout: Duration,
    pub(crate) drain_timeout: Duration,
    pub(crate) timeouts: ClientTimeouts,
    pub(crate) max_connections: u32,
    pub(crate) per_client: Arc<PerClient>,
}

impl Server {
    /// Serves until a stop signal. Returns whether all requests in flight finished.
    pub(crate) async fn run(
        self,
        listener: TcpListener,
        stops: &mut StopSignals,
        mut on_stop: impl FnMut(),
    ) -> bool {
        let (stop, stopped) = watch::channel(());
        let (alive, mut all_closed) = mpsc::channel(1);
        tokio::select! {
            () = self.accept(&listener, &stopped, alive) => {}
            () = stops.next() => {}
        }
        // The health endpoints report the stop before the first connection is refused, so that a load balancer
        // learns the reason.
        on_stop();
        drop(listener);
        stop.send_replace(());
        tokio::select! {
            // Upgraded connections are alive too.
            _ = all_closed.recv() => true,
            () = tokio::time::sleep(self.drain_timeout) => false,
            () = stops.next() => false,
        }
    }

    /// Accepts connections forever.
    async fn accept(
        &self,
        listener: &TcpListener,
        stopped: &watch::Receiver<()>,
        alive: mpsc::Sender<()>,
    ) {
        let max = usize::try_from(self.max_connections).unwrap_or(Semaphore::MAX_PERMITS);
        let slots = Slots::new(max);
        let builder = Arc::new(self.builder());
        loop {
            let (stream, peer) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(_) => {
                    self.context.metrics.count_accept_error();
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let Some(per_client) = self.per_client.acquire(peer.ip()) else {
                self.context.metrics.count_connection_denied();
                continue;
            };
            let slot = slots.take().await;
            let held = ConnectionSlots { slot, per_client: Arc::new(per_client) };
            let connection = Connection {
                context: self.context.clone(),
                header_timeout: self.header_timeout,
                timeouts: self.timeouts,
                peer,
                open: OpenConnection::begin(Arc::clone(&self.context.metrics), held, alive.clone()),
            };
            tokio::spawn(connection.serve(stream, Arc::clone(&builder), stopped.clone()));
        }
    }

    fn builder(&self) -> Builder<Streams> {
        let mut builder = Builder::new(Streams {
            read_timeout: self.timeouts.write,
            metrics: Arc::clone(&self.context.metrics),
        });
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(self.header_timeout)
            .max_buf_size(HTTP1_BUFFER)
            // A client may close its sending side as soon as its request is sent.
            .half_close(true);
        builder
            .http2()
            .timer(TokioTimer::new())
            .keep_alive_interval(PING_INTERVAL)
            .max_concurrent_streams(STREAMS_MAX)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(STREAMS_MAX * STREAM_WINDOW)
            .max_send_buf_size(SEND_BUFFER);
        builder
    }
}

/// A connection to serve.
struct Connection {
    context: ServiceContext,
    header_timeout: Duration,
    timeouts: ClientTimeouts,
    peer: SocketAddr,
    open: Arc<OpenConnection>,
}

impl Connection {
    /// Serves until the client closes, until the connection idles for too long, or until the proxy stops. The
    /// outcome is not logged; requests are counted.
    async fn serve(
        self,
        stream: TcpStream,
        builder: Arc<Builder<Streams>>,
        mut stopped: watch::Receiver<()>,
    ) {
        let _ = stream.set_nodelay(true);
        limit_unsent(&stream);
        let Self { context, header_timeout, timeouts, peer, open } = self;
        let metrics = Arc::clone(&context.metrics);
        let usage = Arc::new(Usage::default());
        let stream = ClientStream::new(stream, timeouts, Arc::clone(&usage), Arc::clone(&metrics));
        let service =
            ConnectionService { context, peer, usage: Arc::clone(&usage), open: Arc::clone(&open) };
        let served = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
        let served = served.into_owned();
        tokio::pin!(served);
        tokio::select! {
            ended = &mut served => {
                if ended.is_err_and(|error| is_timeout(&*error)) && !usage.has_request() {
                    metrics.count_header_timeout();
                }
                return;
            }
            // hyper has no timeout for the first bytes, which select the version.
            () = usage.lacks_request_for(header_timeout) => return metrics.count_header_timeout(),
            () = usage.idles_for(header_timeout, &open) => {}
            _ = stopped.changed() => {}
        }
        served.as_mut().graceful_shutdown();
        tokio::select! {
            _ = &mut served => {}
            () = usage.lingers_for(timeouts.write) => {}
        }
    }
}

/// Whether hyper waited too long for the rest of a head.
fn is_timeout(error: &(dyn Error + Send + Sync + 'static)) -> bool {
    error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_timeout)
}
