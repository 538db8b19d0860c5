//! Connections: accepted up to a bound, served in HTTP/1.1 or HTTP/2, and let go when it is time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::front::{Door, Front};
use super::metrics::Metrics;
use super::patient::Patient;
use super::stop::Stops;
use super::streams::Streams;

/// An HTTP/2 client that does not answer a ping sent so often is gone.
const PING_INTERVAL: Duration = Duration::from_secs(30);
/// Requests of one HTTP/2 connection at one time.
const STREAMS_MAX: u32 = 256;
/// After the system has refused a connection (out of descriptors, say).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How to serve.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) front: Front,
    pub(super) header_timeout: Duration,
    pub(super) drain_timeout: Duration,
    /// How long a client may read nothing of what it is sent.
    pub(super) read_timeout: Duration,
    pub(super) max_connections: u32,
}

impl Server {
    /// Serves until it is told to stop. Whether all requests under way came to their end.
    pub(super) async fn run(
        self,
        listener: TcpListener,
        stops: &mut Stops,
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
        let places = Arc::new(Semaphore::new(most));
        let builder = Arc::new(self.builder());
        loop {
            let place = Arc::clone(&places).acquire_owned().await.expect("it is never closed");
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(_) => {
                    self.front.metrics.count_accept_error();
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let connection = Connection {
                front: self.front.clone(),
                header_timeout: self.header_timeout,
                read_timeout: self.read_timeout,
                open: Open::begin(Arc::clone(&self.front.metrics), place, alive.clone()),
            };
            tokio::spawn(connection.serve(stream, Arc::clone(&builder), graceful.watcher()));
        }
    }

    fn builder(&self) -> Builder<Streams> {
        let mut builder = Builder::new(Streams {
            read_timeout: self.read_timeout,
            metrics: Arc::clone(&self.front.metrics),
        });
        builder.http1().timer(TokioTimer::new()).header_read_timeout(self.header_timeout);
        builder
            .http2()
            .timer(TokioTimer::new())
            .keep_alive_interval(PING_INTERVAL)
            .max_concurrent_streams(STREAMS_MAX);
        builder
    }
}

/// A client's connection is open until this is dropped, an upgraded one too.
#[derive(Debug)]
pub(super) struct Open {
    metrics: Arc<Metrics>,
    _place: OwnedSemaphorePermit,
    _alive: mpsc::Sender<()>,
}

impl Open {
    fn begin(
        metrics: Arc<Metrics>,
        place: OwnedSemaphorePermit,
        alive: mpsc::Sender<()>,
    ) -> Arc<Self> {
        metrics.connection_opened();
        Arc::new(Self { metrics, _place: place, _alive: alive })
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.metrics.connection_closed();
    }
}

/// One that is open.
struct Connection {
    front: Front,
    header_timeout: Duration,
    read_timeout: Duration,
    open: Arc<Open>,
}

impl Connection {
    async fn serve(self, stream: TcpStream, builder: Arc<Builder<Streams>>, watcher: Watcher) {
        // Gone already, if it has no peer.
        let Ok(peer) = stream.peer_addr() else { return };
        let _ = stream.set_nodelay(true);
        let metrics = Arc::clone(&self.front.metrics);
        let stream = Patient::new(stream, self.read_timeout, Arc::clone(&metrics));
        let is_used = Arc::new(AtomicBool::new(false));
        let (front, open) = (self.front.clone(), Arc::clone(&self.open));
        let door = Door { front, peer, is_used: Arc::clone(&is_used), open };
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
