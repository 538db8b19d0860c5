//! A clock that follows tokio's time, an exact bucket, and a stream that does what a script says.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};
use tollgate::{Clock, Direct, Gcra, Quota, Tick};

/// Tokio's time, which tests pause.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokioClock(Instant);

impl TokioClock {
    pub(crate) fn new() -> Self {
        Self(Instant::now())
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Tick {
        Tick::from_duration(self.0.elapsed())
    }
}

pub(crate) type Gate = Direct<Gcra, TokioClock>;

pub(crate) fn gate(quota: Quota) -> Arc<Gate> {
    Arc::new(Direct::builder(quota).clock(TokioClock::new()).build().expect("in range"))
}

/// Bytes that the gate has now.
pub(crate) fn left(gate: &Gate) -> u64 {
    gate.ask().cells(0).peek().expect("no bytes are asked for").remaining()
}

/// A token bucket in exact numbers: a second of the rate is `rate` tokens, a byte a thousand million.
#[derive(Clone, Debug)]
pub(crate) struct Oracle {
    rate: i128,
    burst: i128,
    level: i128,
    at: Instant,
}

const BYTE: i128 = 1_000_000_000;
/// The longest time unit of a grid: a whole fraction of the interval of a cell, of 2.5 us at least.
pub(crate) const UNIT_NANOS: i128 = 5_000;

impl Oracle {
    pub(crate) fn new(quota: Quota) -> Self {
        assert_eq!(quota.period(), Duration::from_secs(1));
        let burst = i128::from(quota.burst_cells()) * BYTE;
        Self { rate: quota.limit().into(), burst, level: burst, at: Instant::now() }
    }

    fn restore(&mut self) {
        let nanos = i128::try_from(self.at.elapsed().as_nanos()).expect("short");
        self.level = self.burst.min(self.level + self.rate * nanos);
        self.at = Instant::now();
    }

    /// Whole bytes that could pass now.
    pub(crate) fn left(&mut self) -> i128 {
        self.restore();
        self.level.div_euclid(BYTE)
    }

    /// Takes what passed. It must have been there, but for what the rate carries in a time unit, and
    /// `more` bytes.
    pub(crate) fn pass(&mut self, bytes: usize, more: u64) {
        self.restore();
        self.level -= i128::try_from(bytes).expect("few") * BYTE;
        let least = -(self.rate * UNIT_NANOS + i128::from(more) * BYTE);
        assert!(self.level >= least, "{} bytes too many of {bytes}", -self.level / BYTE);
    }
}

/// An action of a scripted stream in one call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    /// Reads or writes at most so many bytes.
    Move(usize),
    /// Is pending for a while.
    Pause(Duration),
    Fail,
}

/// A stream that follows a script, and then moves whatever it is given. It counts what passes.
#[derive(Debug)]
pub(crate) struct Scripted {
    script: VecDeque<Act>,
    sleep: Option<Pin<Box<Sleep>>>,
    pub(crate) log: Arc<Mutex<Log>>,
}

/// The bytes that passed, checked by an oracle.
#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) oracle: Oracle,
    pub(crate) bytes: u64,
    pub(crate) largest: usize,
    pub(crate) calls: u64,
    /// The cells by which the oracle may be short.
    pub(crate) more: u64,
}

impl Scripted {
    pub(crate) fn new(quota: Quota, script: impl IntoIterator<Item = Act>) -> Self {
        let log = Log { oracle: Oracle::new(quota), bytes: 0, largest: 0, calls: 0, more: 0 };
        Self::logged(&Arc::new(Mutex::new(log)), script)
    }

    /// A stream that shares its log, and so its oracle, with others.
    pub(crate) fn logged(log: &Arc<Mutex<Log>>, script: impl IntoIterator<Item = Act>) -> Self {
        Self { script: script.into_iter().collect(), sleep: None, log: Arc::clone(log) }
    }

    fn poll_act(&mut self, context: &mut Context<'_>, max: usize) -> Poll<io::Result<usize>> {
        loop {
            if let Some(sleep) = &mut self.sleep {
                std::task::ready!(sleep.as_mut().poll(context));
                self.sleep = None;
            }
            let bytes = match self.script.pop_front() {
                Some(Act::Pause(span)) => {
                    self.sleep = Some(Box::pin(tokio::time::sleep(span)));
                    continue;
                }
                Some(Act::Fail) => return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
                Some(Act::Move(bytes)) => bytes.min(max),
                None => max,
            };
            let mut log = self.log.lock().expect("no panic");
            let more = log.more;
            log.oracle.pass(bytes, more);
            log.bytes += bytes as u64;
            log.largest = log.largest.max(bytes);
            log.calls += 1;
            return Poll::Ready(Ok(bytes));
        }
    }
}

impl AsyncRead for Scripted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let bytes = std::task::ready!(self.poll_act(context, buffer.remaining()))?;
        buffer.put_slice(&vec![7; bytes]);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Scripted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_act(context, bytes.len())
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Writes without end, in pieces of `size` bytes.
pub(crate) async fn write_forever(
    mut stream: impl AsyncWrite + Unpin,
    size: usize,
) -> io::Result<()> {
    use tokio::io::AsyncWriteExt;
    let bytes = vec![7; size];
    loop {
        stream.write_all(&bytes).await?;
    }
}

/// Reads without end, up to `size` bytes at a time.
pub(crate) async fn read_forever(
    mut stream: impl AsyncRead + Unpin,
    size: usize,
) -> io::Result<()> {
    use tokio::io::AsyncReadExt;
    let mut bytes = vec![0; size];
    loop {
        stream.read_exact(&mut bytes).await?;
    }
}

/// Runs for a while, and stops.
pub(crate) async fn run_for<F: Future>(span: Duration, run: F) {
    assert!(tokio::time::timeout(span, run).await.is_err(), "it has no end");
}
