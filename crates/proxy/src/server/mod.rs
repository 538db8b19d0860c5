//! Connections: accepted up to a bound, served in HTTP/1.1 or HTTP/2, and let go when it is time.

pub(crate) mod service;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};

use self::service::{ConnectionService, ServiceContext};
use crate::connection::open::{ConnectionSlots, OpenConnection, Slots};
use crate::connection::per_client::PerClient;
use crate::connection::streams::Streams;
use crate::connection::write_timeout::{ClientStream, ClientTimeouts};
use crate::process::signals::StopSignals;

/// An HTTP/2 client that does not answer a ping sent so often is gone.
const PING_INTERVAL: Duration = Duration::from_secs(30);
/// Requests of one HTTP/2 connection at one time.
const STREAMS_MAX: u32 = 256;
/// After the system has denied a connection (out of descriptors, say).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How to serve.
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
    /// Serves until it is told to stop. Whether all requests under way came to their end.
    pub(crate) async fn run(
        self,
        listener: TcpListener,
        stops: &mut StopSignals,
        mut on_stop: impl FnMut(),
    ) -> bool {
        let graceful = GracefulShutdown::new();
        let (alive, mut all_closed) = mpsc::channel(1);
        tokio::select! {
            () = self.accept(&listener, &graceful, alive) => {}
            () = stops.next() => {}
        }
        drop(listener);
        on_stop();
        // What was upgraded is no longer watched over by hyper, but open still.
        let closed = async {
            graceful.shutdown().await;
            all_closed.recv().await;
        };
        tokio::select! {
            () = closed => true,
            () = tokio::time::sleep(self.drain_timeout) => false,
            () = stops.next() => false,
        }
    }

    /// For ever.
    async fn accept(
        &self,
        listener: &TcpListener,
        graceful: &GracefulShutdown,
        alive: mpsc::Sender<()>,
    ) {
        let most = usize::try_from(self.max_connections).unwrap_or(Semaphore::MAX_PERMITS);
        let slots = Slots::new(most);
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
            let Some(entry) = self.per_client.acquire(peer.ip()) else {
                self.context.metrics.count_connection_denied();
                continue;
            };
            let slot = slots.take().await;
            let held = ConnectionSlots { slot, _per_client: entry };
            let connection = Connection {
                context: self.context.clone(),
                header_timeout: self.header_timeout,
                timeouts: self.timeouts,
                peer,
                open: OpenConnection::begin(Arc::clone(&self.context.metrics), held, alive.clone()),
            };
            tokio::spawn(connection.serve(stream, Arc::clone(&builder), graceful.watcher()));
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
            // A client may close its sending side as soon as its request is sent.
            .half_close(true);
        builder
            .http2()
            .timer(TokioTimer::new())
            .keep_alive_interval(PING_INTERVAL)
            .max_concurrent_streams(STREAMS_MAX);
        builder
    }
}

/// One that is open.
struct Connection {
    context: ServiceContext,
    header_timeout: Duration,
    timeouts: ClientTimeouts,
    peer: SocketAddr,
    open: Arc<OpenConnection>,
}

impl Connection {
    async fn serve(self, stream: TcpStream, builder: Arc<Builder<Streams>>, watcher: Watcher) {
        let peer = self.peer;
        let _ = stream.set_nodelay(true);
        let metrics = Arc::clone(&self.context.metrics);
        let is_cut = Arc::new(AtomicBool::new(false));
        let stream =
            ClientStream::new(stream, self.timeouts, Arc::clone(&is_cut), Arc::clone(&metrics));
        let is_used = Arc::new(AtomicBool::new(false));
        let (context, open) = (self.context.clone(), Arc::clone(&self.open));
        let door = ConnectionService { context, peer, is_used: Arc::clone(&is_used), is_cut, open };
        let served = builder.serve_connection_with_upgrades(TokioIo::new(stream), door);
        let served = watcher.watch(served.into_owned());
        tokio::pin!(served);
        // What a connection comes to is the client's affair; its requests are counted.
        tokio::select! {
            _ = &mut served => {}
            () = tokio::time::sleep(self.header_timeout) => {
                // The version is told by the first bytes, for which there is no other limit.
                if is_used.load(Ordering::Relaxed) {
                    let _ = served.await;
                } else {
                    metrics.count_header_timeout();
                }
            }
        }
    }
}
