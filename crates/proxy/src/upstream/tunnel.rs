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
}
