//! Connections: accepted up to a bound, served in HTTP/1.1 or HTTP/2, and let go when it is time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::front::{Door, Front};
use super::stop::Stops;

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
        tokio::select! {
            () = self.accept(&listener, &graceful) => {}
            () = stops.next() => {}
        }
        drop(listener);
        on_stop();
        tokio::select! {
            () = graceful.shutdown() => true,
            () = tokio::time::sleep(self.drain_timeout) => false,
            () = stops.next() => false,
        }
    }

    /// For ever.
    async fn accept(&self, listener: &TcpListener, graceful: &GracefulShutdown) {
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
                _place: place,
            };
            tokio::spawn(connection.serve(stream, Arc::clone(&builder), graceful.watcher()));
        }
    }

    fn builder(&self) -> Builder<TokioExecutor> {
        let mut builder = Builder::new(TokioExecutor::new());
        builder.http1().timer(TokioTimer::new()).header_read_timeout(self.header_timeout);
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
    front: Front,
    header_timeout: Duration,
    _place: OwnedSemaphorePermit,
}

impl Connection {
    async fn serve(
        self,
        stream: TcpStream,
        builder: Arc<Builder<TokioExecutor>>,
        watcher: Watcher,
    ) {
        // Gone already, if it has no peer.
        let Ok(peer) = stream.peer_addr() else { return };
        let _ = stream.set_nodelay(true);
        let metrics = Arc::clone(&self.front.metrics);
        metrics.connection_opened();
        let is_used = Arc::new(AtomicBool::new(false));
        let door = Door { front: self.front.clone(), peer, is_used: Arc::clone(&is_used) };
        let served =
            watcher.watch(builder.serve_connection(TokioIo::new(stream), door).into_owned());
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
        metrics.connection_closed();
    }
}
