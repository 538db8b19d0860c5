//! An upgraded connection: bytes both ways, until an end has no more, or neither moves for too long.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::connection::open::OpenConnection;
use crate::metrics::{Metrics, Stall, Direction};

const PIECE_BYTES: usize = 16 << 10;

/// Both ends, which are there as soon as the client has the answer.
#[derive(Debug)]
pub(crate) struct Tunnel {
    pub(crate) client: OnUpgrade,
    pub(crate) upstream: OnUpgrade,
    /// The client's connection counts as open until this ends.
    pub(crate) open: Arc<OpenConnection>,
    pub(crate) idle_timeout: Duration,
    pub(crate) metrics: Arc<Metrics>,
}

impl Tunnel {
    pub(crate) async fn run(self) {
        let Self { client, upstream, open, idle_timeout, metrics } = self;
        // The client may be gone before it has the answer.
        let Ok((client, upstream)) = tokio::try_join!(client, upstream) else { return };
        let guard = TunnelGuard::begin(metrics);
        let (from_client, to_client) = tokio::io::split(TokioIo::new(client));
        let (from_upstream, to_upstream) = tokio::io::split(TokioIo::new(upstream));
        let both = async {
            tokio::try_join!(
                carry(from_client, to_upstream, |bytes| guard.add(Direction::ToUpstream, bytes)),
                carry(from_upstream, to_client, |bytes| guard.add(Direction::ToClient, bytes)),
            )
        };
        // An end that breaks off is the end of both.
        tokio::select! {
            _ = both => {}
            () = guard.rests(idle_timeout) => guard.metrics.count_stall(Stall::Tunnel),
        }
        drop(open);
    }
}

/// Carries bytes until there are no more, and says so to the other end.
async fn carry(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    guard: impl Fn(usize),
) -> io::Result<()> {
    let mut bytes = vec![0; PIECE_BYTES];
    loop {
        match from.read(&mut bytes).await? {
            0 => return to.shutdown().await,
            length => {
                to.write_all(&bytes[..length]).await?;
                to.flush().await?;
                guard(length);
            }
        }
    }
}

/// Counts a tunnel until this is dropped, and what goes through it.
struct TunnelGuard {
    metrics: Arc<Metrics>,
    pieces: AtomicU64,
}

impl TunnelGuard {
    fn begin(metrics: Arc<Metrics>) -> Self {
        metrics.tunnel_opened();
        Self { metrics, pieces: AtomicU64::new(0) }
    }

    fn add(&self, way: Direction, bytes: usize) {
        self.metrics.count_tunnelled(way, bytes);
        self.pieces.fetch_add(1, Ordering::Relaxed);
    }

    /// Until nothing has gone through for so long; at most as long again is added to it.
    async fn rests(&self, span: Duration) {
        loop {
            let before = self.pieces.load(Ordering::Relaxed);
            tokio::time::sleep(span).await;
            if self.pieces.load(Ordering::Relaxed) == before {
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
