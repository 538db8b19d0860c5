//! In HTTP/2, one request at a time opens the connection that all share. The others wait until it is open.
//!
//! hyper-util has the same rule. If the request that opens the connection is cancelled, hyper-util fails all that wait;
//! here one of them takes over. If the connection cannot be opened, all of them fail for the same reason.

#![allow(clippy::disallowed_types, reason = "a lock of the proxy, not of the limiter")]

use std::pin::{Pin, pin};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper_util::client::legacy::connect::CaptureConnection;
use tokio::sync::watch;

use crate::metrics::Failure;

/// Says why the connection was not opened. The channel is closed when the request that opens it has a connection, has
/// failed, or is cancelled.
type Leader = watch::Sender<Option<Failure>>;
type Follower = watch::Receiver<Option<Failure>>;

/// The request that opens the connection, if there is one.
#[derive(Debug)]
pub(super) struct Lead {
    /// Closed if there is none.
    leader: Mutex<Follower>,
    /// How long a request may wait for the connection that another one opens.
    timeout: Duration,
}

/// A request after its first poll.
enum Started<T> {
    Ended(Result<T, Failure>),
    HasConnection,
    /// It opens the connection.
    Leads(Leader),
}

impl Lead {
    pub(super) fn new(timeout: Duration) -> Self {
        let (_, closed) = watch::channel(None);
        Self { leader: Mutex::new(closed), timeout }
    }

    /// Sends a request. `connection` is its captured connection.
    pub(super) async fn run<T>(
        &self,
        sent: impl Future<Output = Result<T, Failure>>,
        connection: &CaptureConnection,
    ) -> Result<T, Failure> {
        // Declared before the request, so dropped after it: hyper-util must know first that the request is cancelled.
        let mut leads = None;
        let mut sent = pin!(sent);
        let started = self.start(sent.as_mut(), connection);
        match tokio::time::timeout(self.timeout, started).await {
            Err(_) => return Err(Failure::ConnectTimeout),
            Ok(Err(failure)) => return Err(failure),
            Ok(Ok(Started::Ended(ended))) => return ended,
            Ok(Ok(Started::HasConnection)) => {}
            Ok(Ok(Started::Leads(leader))) => {
                let leader = leads.insert(leader);
                if let Some(ended) = open(sent.as_mut(), connection, leader).await {
                    return ended;
                }
                drop(leads.take());
            }
        }
        sent.await
    }

    /// Polls a request once, as soon as no other request opens the connection.
    async fn start<T, S: Future<Output = Result<T, Failure>>>(
        &self,
        mut sent: Pin<&mut S>,
        connection: &CaptureConnection,
    ) -> Result<Started<T>, Failure> {
        loop {
            let polled = std::future::poll_fn(|context| {
                Poll::Ready(self.poll_first(sent.as_mut(), connection, context))
            });
            let mut leader = match polled.await {
                Ok(started) => return Ok(started),
                Err(leader) => leader,
            };
            // Without a failure, the channel is closed, and another request may start.
            if let Some(failure) =
                leader.wait_for(Option::is_some).await.ok().and_then(|said| *said)
            {
                return Err(failure);
            }
        }
    }

    /// Fails without a poll if another request opens the connection.
    fn poll_first<T, S: Future<Output = Result<T, Failure>>>(
        &self,
        sent: Pin<&mut S>,
        connection: &CaptureConnection,
        context: &mut Context<'_>,
    ) -> Result<Started<T>, Follower> {
        // Held during the poll, so that no other request finds out meanwhile that there is no connection.
        let mut current = self.leader.lock().unwrap_or_else(PoisonError::into_inner);
        let is_led = current.has_changed().is_ok();
        if is_led {
            return Err(current.clone());
        }
        if let Poll::Ready(ended) = sent.poll(context) {
            return Ok(Started::Ended(ended));
        }
        if connection.connection_metadata().is_some() {
            return Ok(Started::HasConnection);
        }
        let (leader, follower) = watch::channel(None);
        *current = follower;
        Ok(Started::Leads(leader))
    }
}

/// Opens the connection; returns the result of the request if it ends before that.
async fn open<T, S: Future<Output = Result<T, Failure>>>(
    sent: Pin<&mut S>,
    connection: &CaptureConnection,
    leader: &Leader,
) -> Option<Result<T, Failure>> {
    let mut captured = connection.clone();
    let is_open = async { drop(captured.wait_for_connection_metadata().await) };
    let ended = tokio::select! {
        biased;
        ended = sent => ended,
        () = is_open => return None,
    };
    // With a connection, the failure is that of this request alone.
    if let Err(failure) = &ended
        && connection.connection_metadata().is_none()
    {
        leader.send_replace(Some(*failure));
    }
    Some(ended)
}
