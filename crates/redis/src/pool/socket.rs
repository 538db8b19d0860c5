//! A socket that counts its writes, and writes nothing after the peer has closed.
//!
//! The runtime may notice a close only after a request was written. The socket therefore asks the
//! kernel before each write. A write that it refuses was certainly not sent.

use core::mem::MaybeUninit;
use core::pin::Pin;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::task::{Context, Poll};
use core::time::Duration;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use redis::aio::MultiplexedConnection;
use redis::io::tcp::socket2::{SockRef, TcpKeepalive};
use redis::{AsyncConnectionConfig, Client, ConnectionAddr, RedisResult};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::task::{AbortHandle, JoinSet};

/// A connection, the counter of its writes, and the task that drives it.
pub(super) struct Connected {
    pub(super) connection: MultiplexedConnection,
    pub(super) writes: Option<Arc<AtomicU64>>,
    pub(super) driver: Option<AbortHandle>,
}

/// TCP keepalive: it keeps the connection known to load balancers and NATs, and ends a connection
/// whose peer has been silent for 30 seconds.
pub(crate) fn keepalive() -> TcpKeepalive {
    let keepalive = TcpKeepalive::new().with_time(Duration::from_secs(15));
    #[cfg(any(unix, windows))]
    let keepalive = keepalive.with_interval(Duration::from_secs(5));
    #[cfg(unix)]
    let keepalive = keepalive.with_retries(3);
    keepalive
}

/// Connects and authenticates. The caller enforces the timeout.
pub(super) async fn connect(
    client: &Client,
    config: AsyncConnectionConfig,
) -> RedisResult<Connected> {
    match client.get_connection_info().addr() {
        ConnectionAddr::Tcp(host, port) => {
            let socket = connect_tcp(host, *port).await?;
            socket.set_nodelay(true)?;
            SockRef::from(&socket).set_tcp_keepalive(&keepalive())?;
            serve(client, config, socket, |socket| is_closed(&SockRef::from(socket))).await
        }
        #[cfg(unix)]
        ConnectionAddr::Unix(path) => {
            let socket = tokio::net::UnixStream::connect(path).await?;
            serve(client, config, socket, |socket| is_closed(&SockRef::from(socket))).await
        }
        // TLS, if the program enables it in the client library. Its writes cannot be counted.
        _ => {
            let connection = client.get_multiplexed_async_connection_with_config(&config).await?;
            Ok(Connected { connection, writes: None, driver: None })
        }
    }
}

/// How many addresses of a host are tried at once. A name may have hundreds, and each attempt takes a descriptor.
const ADDRESSES: usize = 8;

/// Connects to the address of a host that answers first.
async fn connect_tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    let found = tokio::net::lookup_host((host, port)).await?;
    connect_first(found.collect()).await
}

/// Connects to one of the addresses. The next one is tried when one of the first has failed.
async fn connect_first(addresses: Vec<SocketAddr>) -> io::Result<TcpStream> {
    let mut addresses = addresses.into_iter();
    let first = addresses.by_ref().take(ADDRESSES);
    let mut attempts: JoinSet<_> = first.map(TcpStream::connect).collect();
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    while let Some(attempt) = attempts.join_next().await {
        match attempt.unwrap_or_else(|error| Err(io::Error::other(error))) {
            Ok(socket) => return Ok(socket),
            Err(error) => {
                failure = error;
                addresses.next().into_iter().for_each(|next| {
                    attempts.spawn(TcpStream::connect(next));
                });
            }
        }
    }
    Err(failure)
}

async fn serve<S>(
    client: &Client,
    config: AsyncConnectionConfig,
    socket: S,
    is_closed: fn(&S) -> bool,
) -> RedisResult<Connected>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let writes = Arc::new(AtomicU64::new(0));
    let counted = CountedSocket { socket, is_closed, writes: Arc::clone(&writes) };
    let settings = client.get_connection_info().redis_settings();
    let (connection, driver) =
        MultiplexedConnection::new_with_config(settings, counted, config).await?;
    let driver = Some(tokio::spawn(driver).abort_handle());
    Ok(Connected { connection, writes: Some(writes), driver })
}

/// Whether the peer has closed and everything it sent was read.
fn is_closed(socket: &SockRef<'_>) -> bool {
    match socket.peek(&mut [MaybeUninit::uninit()]) {
        Ok(count) => count == 0,
        Err(error) => {
            !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
        }
    }
}

struct CountedSocket<S> {
    socket: S,
    is_closed: fn(&S) -> bool,
    /// Writes of which the kernel accepted at least one byte.
    writes: Arc<AtomicU64>,
}

impl<S: AsyncRead + Unpin> AsyncRead for CountedSocket<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for CountedSocket<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if (self.is_closed)(&self.socket) {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let written = Pin::new(&mut self.socket).poll_write(cx, bytes);
        if let Poll::Ready(Ok(1..)) = written {
            // Relaxed: a caller reads the count before it hands its request over, and after it learns
            // that the request failed. Both go through channels, which order the accesses.
            self.writes.fetch_add(1, Relaxed);
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_address_behind_many_that_refuse_is_found() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let open = listener.local_addr().expect("bound");
        // Nothing listens on the first port.
        let mut addresses = vec![SocketAddr::from(([127, 0, 0, 1], 1)); 3 * ADDRESSES];
        assert!(connect_first(addresses.clone()).await.is_err());
        addresses.push(open);
        assert_eq!(connect_first(addresses).await.expect("connected").peer_addr().ok(), Some(open));
        assert_eq!(connect_first(Vec::new()).await.unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
