//! An upgraded connection: copies bytes in both directions until both ends are closed, an end fails, or
//! neither sends anything for too long.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::Instant;

use super::idle::LastMove;
use crate::connection::open::OpenConnection;
use crate::connection::usage::Usage;
use crate::metrics::{Direction, Metrics, Stall};

const BUFFER_BYTES: usize = 16 << 10;

/// Both ends. They become available when the client has received the response.
#[derive(Debug)]
pub(crate) struct Tunnel {
    pub(super) client: OnUpgrade,
    pub(super) upstream: OnUpgrade,
    /// Keeps the client's connection counted as open until the tunnel ends.
    pub(super) open: Arc<OpenConnection>,
    /// That of the client's connection.
    pub(super) usage: Arc<Usage>,
    pub(super) idle_timeout: Duration,
    pub(crate) metrics: Arc<Metrics>,
}

impl Tunnel {
    pub(super) async fn run(self) {
        let Self { client, upstream, open, usage, idle_timeout, metrics } = self;
        // The client may close the connection before it has received the response. Until then, its write timeout holds.
        let Ok((client, upstream)) = tokio::try_join!(client, upstream) else { return };
        usage.became_tunnel();
        let guard = TunnelGuard::begin(metrics);
        let (from_client, to_client) = tokio::io::split(TokioIo::new(client));
        let (from_upstream, to_upstream) = tokio::io::split(TokioIo::new(upstream));
        let both = async {
            tokio::try_join!(
                copy(from_client, to_upstream, &guard, Direction::ToUpstream),
                copy(from_upstream, to_client, &guard, Direction::ToClient),
            )
        };
        // A failure of one end closes both.
        tokio::select! {
            _ = both => {}
            () = guard.idle_for(idle_timeout) => guard.metrics.count_stall(Stall::Tunnel),
        }
        drop(open);
    }
}

/// Copies bytes until the end of `from`, then shuts `to` down. Each read and each write notes that bytes moved, however
/// few: a slow reader may take longer for a whole buffer than a tunnel may be idle.
async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    guard: &TunnelGuard,
    direction: Direction,
) -> io::Result<()> {
    let mut bytes = vec![0; BUFFER_BYTES];
    loop {
        let length = from.read(&mut bytes).await?;
        if length == 0 {
            return to.shutdown().await;
        }
        guard.last.note();
        let mut rest = &bytes[..length];
        while !rest.is_empty() {
            match to.write(rest).await? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                written => {
                    guard.add(direction, written);
                    rest = &rest[written..];
                }
            }
        }
        to.flush().await?;
        guard.last.note(); // TLS may have kept the bytes until now
    }
}

/// Counts a tunnel as open until this is dropped, and counts its bytes.
struct TunnelGuard {
    metrics: Arc<Metrics>,
    last: LastMove,
}

impl TunnelGuard {
    fn begin(metrics: Arc<Metrics>) -> Self {
        metrics.tunnel_opened();
        Self { metrics, last: LastMove::new() }
    }

    fn add(&self, direction: Direction, bytes: usize) {
        self.metrics.count_tunnelled(direction, bytes);
        self.last.note();
    }

    /// Completes when the tunnel has been idle for `span`.
    async fn idle_for(&self, span: Duration) {
        let due = || self.last.at() + span;
        while Instant::now() < due() {
            tokio::time::sleep_until(due()).await;
        }
    }
}

impl Drop for TunnelGuard {
    fn drop(&mut self) {
        self.metrics.tunnel_closed();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_tunnel_is_idle_a_span_after_it_last_moved_a_byte() {
        let guard = TunnelGuard::begin(Arc::new(Metrics::new(1)));
        let began = Instant::now();
        let moves = async {
            for direction in [Direction::ToUpstream, Direction::ToClient] {
                tokio::time::sleep(Duration::from_secs(6)).await;
                guard.add(direction, 1);
            }
        };
        tokio::join!(guard.idle_for(Duration::from_secs(10)), moves);
        let (idle_at, took) = (Duration::from_secs(6 + 6 + 10), began.elapsed());
        assert!(took >= idle_at && took - idle_at < Duration::from_millis(10), "{took:?}");
    }

    /// The most that a slow reader leaves unread.
    const UNREAD_BYTES: usize = 1 << 10;

    #[tokio::test(start_paused = true)]
    async fn a_tunnel_whose_reader_takes_longer_for_a_buffer_than_the_span_is_not_idle() {
        let guard = TunnelGuard::begin(Arc::new(Metrics::new(1)));
        let (to, mut reader) = tokio::io::duplex(UNREAD_BYTES);
        let sent = vec![7; BUFFER_BYTES];
        let reads = async {
            let mut received = Vec::new();
            while received.len() < BUFFER_BYTES {
                tokio::time::sleep(Duration::from_secs(1)).await;
                let mut bytes = [0; UNREAD_BYTES];
                reader.read_exact(&mut bytes).await.expect("open");
                received.extend(bytes);
            }
            received
        };
        let copied = copy(&sent[..], to, &guard, Direction::ToClient);
        tokio::select! {
            (copied, received) = async { tokio::join!(copied, reads) } => {
                assert!(copied.is_ok() && received == sent);
            }
            () = guard.idle_for(Duration::from_secs(10)) => panic!("it moved bytes all the time"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_byte_that_was_read_counts_before_it_is_written() {
        let guard = TunnelGuard::begin(Arc::new(Metrics::new(1)));
        let (mut sender, from) = tokio::io::duplex(1);
        let (to, mut reader) = tokio::io::duplex(1);
        let moves = async {
            sender.write_all(b"a").await.expect("open");
            tokio::time::sleep(Duration::from_secs(9)).await;
            sender.write_all(b"b").await.expect("open");
            // The first is still unread, so the second waits in the tunnel.
            tokio::time::sleep(Duration::from_secs(9)).await;
            let mut bytes = [0; 2];
            reader.read_exact(&mut bytes).await.expect("open");
            bytes
        };
        let copied = copy(from, to, &guard, Direction::ToClient);
        tokio::select! {
            bytes = moves => assert_eq!(&bytes, b"ab"),
            ended = copied => panic!("{ended:?}"),
            () = guard.idle_for(Duration::from_secs(10)) => panic!("it read a byte 9 s ago"),
        }
    }
}
