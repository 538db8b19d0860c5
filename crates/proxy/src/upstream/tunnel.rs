//! An upgraded connection: copies bytes in both directions until both ends are closed, an end fails, or
//! neither sends anything for too long.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::connection::open::OpenConnection;
use crate::metrics::{Direction, Metrics, Stall};

const BUFFER_BYTES: usize = 16 << 10;

/// Both ends. They become available when the client has received the response.
#[derive(Debug)]
pub(crate) struct Tunnel {
    pub(super) client: OnUpgrade,
    pub(super) upstream: OnUpgrade,
    /// Keeps the client's connection counted as open until the tunnel ends.
    pub(super) open: Arc<OpenConnection>,
    pub(super) idle_timeout: Duration,
    pub(crate) metrics: Arc<Metrics>,
}

impl Tunnel {
    pub(super) async fn run(self) {
        let Self { client, upstream, open, idle_timeout, metrics } = self;
        // The client may close the connection before it has received the response.
        let Ok((client, upstream)) = tokio::try_join!(client, upstream) else { return };
        let guard = TunnelGuard::begin(metrics);
        let (from_client, to_client) = tokio::io::split(TokioIo::new(client));
        let (from_upstream, to_upstream) = tokio::io::split(TokioIo::new(upstream));
        let both = async {
            tokio::try_join!(
                copy(from_client, to_upstream, |bytes| guard.add(Direction::ToUpstream, bytes)),
                copy(from_upstream, to_client, |bytes| guard.add(Direction::ToClient, bytes)),
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

/// Copies bytes until the end of `from`, then shuts `to` down.
async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    count: impl Fn(usize),
) -> io::Result<()> {
    let mut bytes = vec![0; BUFFER_BYTES];
    loop {
        match from.read(&mut bytes).await? {
            0 => return to.shutdown().await,
            length => {
                to.write_all(&bytes[..length]).await?;
                to.flush().await?;
                count(length);
            }
        }
    }
}

/// Counts a tunnel as open until this is dropped, and counts its bytes.
struct TunnelGuard {
    metrics: Arc<Metrics>,
    reads: AtomicU64,
}

impl TunnelGuard {
    fn begin(metrics: Arc<Metrics>) -> Self {
        metrics.tunnel_opened();
        Self { metrics, reads: AtomicU64::new(0) }
    }

    fn add(&self, direction: Direction, bytes: usize) {
        self.metrics.count_tunnelled(direction, bytes);
        self.reads.fetch_add(1, Ordering::Relaxed);
    }

    /// Completes when the tunnel has been idle for `span`, at most one more `span` later.
    async fn idle_for(&self, span: Duration) {
        loop {
            let before = self.reads.load(Ordering::Relaxed);
            tokio::time::sleep(span).await;
            if self.reads.load(Ordering::Relaxed) == before {
                return;
            }
        }
    }
}

impl Drop for TunnelGuard {
    fn drop(&mut self) {
        self.metrics.tunnel_closed();
    }
}
