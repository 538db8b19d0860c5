//! One connection to a server, and what is known about its health.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, RedisError, RedisResult, Value};
use tokio::sync::Mutex;
use tokio::task::AbortHandle;

use super::socket::{Connected, connect};
use super::{QUEUE, Timeouts};

/// Why a request has no answer.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) error: RedisError,
    /// No byte of the request was written, and none will be. Otherwise the request may have been
    /// executed.
    pub(super) is_unsent: bool,
    /// The connection can no longer be used.
    pub(super) is_final: bool,
}

/// One connection. A request is written to it at most once.
pub(super) struct Connection {
    connection: MultiplexedConnection,
    /// `None` if writes cannot be counted.
    writes: Option<Arc<AtomicU64>>,
    driver: Option<AbortHandle>,
    timeouts: Timeouts,
    made: Instant,
    /// When the last answer arrived, counted from when the connection was made.
    answered_micros: AtomicU64,
    /// A request had no answer, and no request had one since.
    is_in_doubt: AtomicBool,
    /// A check had no answer.
    is_dead: AtomicBool,
    checking: Mutex<()>,
}

impl Connection {
    pub(super) async fn make(client: &Client, timeouts: Timeouts) -> RedisResult<Self> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(timeouts.connect))
            .set_response_timeout(Some(timeouts.response))
            .set_pipeline_buffer_size(QUEUE);
        let connected = tokio::time::timeout(timeouts.connect, connect(client, config)).await;
        let connected = connected.unwrap_or_else(|_| Err(timed_out()))?;
        let Connected { connection, writes, driver } = connected;
        Ok(Self {
            connection,
            writes,
            driver,
            timeouts,
            made: Instant::now(),
            answered_micros: AtomicU64::new(0),
            is_in_doubt: AtomicBool::new(false),
            is_dead: AtomicBool::new(false),
            checking: Mutex::new(()),
        })
    }

    /// Sends a request after making sure that the connection is alive. If the caller drops the
    /// future before the answer, the connection is in doubt.
    pub(super) async fn ask(self: &Arc<Self>, cmd: &Cmd) -> Result<Value, Failure> {
        if !self.is_alive().await {
            return Err(Failure { error: closed(), is_unsent: true, is_final: true });
        }
        let writes_before = self.writes();
        let doubt = Doubt(self);
        let answer: RedisResult<Value> = cmd.query_async(&mut self.connection.clone()).await;
        match answer {
            Err(error) if error.is_timeout() => {
                Err(Failure { error, is_unsent: false, is_final: false })
            }
            Err(error) if error.is_unrecoverable_error() => {
                // The connection has ended. Requests that are not written by now never will be.
                let is_unsent = writes_before.is_some() && writes_before == self.writes();
                Err(Failure { error, is_unsent, is_final: true })
            }
            answer => {
                doubt.end();
                answer.map_err(|error| Failure { error, is_unsent: false, is_final: false })
            }
        }
    }

    /// Whether the connection can be used. If it was silent for long, or did not answer the last
    /// request, it is first checked by a `PING`, which is harmless to repeat. The check is a task of
    /// its own: it continues when the caller gives up, so a dead connection is replaced even if no
    /// caller waits for as long as a check takes.
    async fn is_alive(self: &Arc<Self>) -> bool {
        if !self.needs_check() {
            return true;
        }
        let this = Arc::clone(self);
        // The task fails only if its runtime was shut down. Then the connection is gone, too.
        tokio::spawn(async move { this.check().await }).await.unwrap_or(false)
    }

    /// Checks the connection, unless another check has just ended.
    async fn check(&self) -> bool {
        let _turn = self.checking.lock().await;
        if self.is_dead.load(Relaxed) {
            return false;
        }
        if !self.needs_check() {
            return true;
        }
        let ping = redis::cmd("PING");
        let mut connection = self.connection.clone();
        let pong = ping.query_async::<Value>(&mut connection);
        let is_alive = match tokio::time::timeout(self.timeouts.check, pong).await {
            Ok(Ok(_)) => true,
            // An error of the server is a sign of life too.
            Ok(Err(error)) => !error.is_timeout() && !error.is_unrecoverable_error(),
            Err(_) => false,
        };
        match is_alive {
            true => self.note_answer(),
            false => self.is_dead.store(true, Relaxed),
        }
        is_alive
    }

    fn needs_check(&self) -> bool {
        let heard = Duration::from_micros(self.answered_micros.load(Relaxed));
        self.is_in_doubt.load(Relaxed)
            || self.is_dead.load(Relaxed)
            || self.made.elapsed().saturating_sub(heard) >= self.timeouts.idle
    }

    fn note_answer(&self) {
        let micros = u64::try_from(self.made.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.answered_micros.store(micros, Relaxed);
        self.is_in_doubt.store(false, Relaxed);
    }

    fn writes(&self) -> Option<u64> {
        self.writes.as_ref().map(|writes| writes.load(Relaxed))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // No caller is left. The task might otherwise wait for answers for ever.
        if let Some(driver) = &self.driver {
            driver.abort();
        }
    }
}

/// Marks the connection as in doubt when dropped, unless the answer came first.
struct Doubt<'a>(&'a Connection);

impl Doubt<'_> {
    fn end(self) {
        self.0.note_answer();
        core::mem::forget(self);
    }
}

impl Drop for Doubt<'_> {
    fn drop(&mut self) {
        self.0.is_in_doubt.store(true, Relaxed);
    }
}

pub(super) fn closed() -> RedisError {
    io::Error::from(io::ErrorKind::BrokenPipe).into()
}

fn timed_out() -> RedisError {
    io::Error::from(io::ErrorKind::TimedOut).into()
}
