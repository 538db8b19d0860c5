//! A stream whose bytes are paced.

use core::pin::Pin;
use core::task::{Context, Poll};
use std::io::{self, IoSlice};

use pin_project_lite::pin_project;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::direction::Direction;
use crate::pace::Pace;

/// The most slices of a vectored write that passes in part.
const SLICES_MAX: usize = 64;

pin_project! {
    /// A stream whose bytes are charged to the buckets of a [`Pace`], one for each direction.
    ///
    /// Bytes that the buckets lack wait for their turn. Streams that share a bucket have turns in the order in
    /// which they ask, each for a chunk. Where the chunks that wait are more than four bursts, a stream that has
    /// waited goes before one that has just had its turn; the longer they wait, the less exact is their order.
    ///
    /// A chunk is what the rate carries in 5 ms, but not less than 1 KiB (at rates below 10 KiB/s: than what the rate
    /// carries in 100 ms). It is at most 64 KiB, half the burst, and what the caller reads or writes at once. So
    /// streams with equal buffers have equal shares, but for some chunks. Flush, shutdown and errors pass at once.
    ///
    /// It allocates once for each direction, when that first waits, and has one timer for it. It must be polled
    /// within a tokio runtime whose timer is enabled.
    ///
    /// **Guarantee.** A bucket is charged for each byte that passes, before it does. At most
    /// `burst + rate * (span + u)` bytes pass in any span, where `u` is a time unit, less than 5 us, or longer
    /// in compact slots: see [`Gcra`](tollgate::Gcra). Bytes that are charged and do not pass are refunded: after a poll
    /// that is pending, a partial read or write, or an error, and when a stream is dropped while it waits.
    ///
    /// **Not guaranteed.**
    ///
    /// - Of streams that share a bucket, each may pass one chunk more in a span if it is late for its turn by more
    ///   than half the time that the burst takes to come back. It is late if its task runs late, or if it waits in
    ///   another bucket. For each stream that is dropped while it waits for the bucket, its chunk more may pass in
    ///   a span.
    /// - A task that runs so late may also lose the chunk that it had charged. So may a stream with several
    ///   buckets that waits longer in one than the burst of another takes to come back.
    /// - Tokens are lost while a bucket is full. If the burst comes back in less time than timers and tasks are
    ///   late, which is some milliseconds, the rate is not reached.
    /// - A stream with larger buffers has larger chunks, and so a larger share.
    /// - Bytes are those of this layer: not headers of packets, nor what TLS adds below.
    /// - A read may take time though there are no bytes: at the end of a stream it has a turn too.
    ///
    /// ```
    /// use tokio::io::{AsyncReadExt, AsyncWriteExt};
    /// use tollgate::Quota;
    /// use tollgate_paced::{Pace, Paced};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (client, mut server) = tokio::io::duplex(64 * 1024);
    /// let upload = Pace::new(Quota::per_second(1_000_000).burst(1_000))?;
    /// let mut client = Paced::new(client, Pace::unlimited(), upload);
    /// let start = std::time::Instant::now();
    /// client.write_all(&[7; 21_000]).await?;
    /// assert!(start.elapsed().as_millis() >= 20);
    /// drop(client);
    /// let mut bytes = Vec::new();
    /// server.read_to_end(&mut bytes).await?;
    /// assert_eq!(bytes.len(), 21_000);
    /// # Ok(()) }
    /// ```
    #[derive(Debug)]
    pub struct Paced<T> {
        #[pin]
        inner: T,
        read: Direction,
        write: Direction,
    }
}

impl<T> Paced<T> {
    /// Paces what is read by one [`Pace`], and what is written by another. They may have buckets in common.
    ///
    /// ```
    /// use tollgate::Quota;
    /// use tollgate_paced::{Pace, Paced};
    ///
    /// let total = Pace::new(Quota::per_second(10_000_000))?;
    /// let stream = Paced::new(tokio::io::empty(), total.clone(), total);
    /// # Ok::<(), tollgate_paced::PaceError>(())
    /// ```
    pub fn new(inner: T, read: Pace, write: Pace) -> Self {
        Self { inner, read: Direction::new(read), write: Direction::new(write) }
    }

    /// The stream within.
    pub const fn get_ref(&self) -> &T {
        &self.inner
    }

    /// The stream within. Reads and writes of it are not charged.
    pub const fn get_mut(&mut self) -> &mut T {
        &mut self.inner
    }

    /// The stream within, when it is pinned. Reads and writes of it are not charged.
    pub fn get_pin_mut(self: Pin<&mut Self>) -> Pin<&mut T> {
        self.project().inner
    }

    /// Gives the stream back. Cells that were charged ahead are refunded.
    pub fn into_inner(self) -> T {
        self.inner
    }
}

impl<T: AsyncRead> AsyncRead for Paced<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.project();
        let inner = this.inner;
        this.read.poll_pass(context, buffer.remaining(), |context, bytes| {
            if bytes == buffer.remaining() {
                let result = inner.poll_read(context, buffer);
                return (bytes - buffer.remaining(), result);
            }
            let mut part = ReadBuf::new(buffer.initialize_unfilled_to(bytes));
            let result = inner.poll_read(context, &mut part);
            let filled = part.filled().len();
            buffer.advance(filled);
            (filled, result)
        })
    }
}

impl<T: AsyncWrite> AsyncWrite for Paced<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.project();
        let inner = this.inner;
        this.write.poll_pass(context, bytes.len(), |context, max| {
            written(inner.poll_write(context, &bytes[..max]))
        })
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.project();
        let inner = this.inner;
        let total = slices.iter().fold(0, |sum: usize, slice| sum.saturating_add(slice.len()));
        this.write.poll_pass(context, total, |context, max| {
            if max == total {
                return written(inner.poll_write_vectored(context, slices));
            }
            let mut first = [IoSlice::new(&[]); SLICES_MAX];
            let count = fill(&mut first, slices, max);
            written(inner.poll_write_vectored(context, &first[..count]))
        })
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.project().inner.poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.project().inner.poll_shutdown(context)
    }
}

/// The bytes that a write took, and its result.
fn written(result: Poll<io::Result<usize>>) -> (usize, Poll<io::Result<usize>>) {
    let bytes = match &result {
        Poll::Ready(Ok(bytes)) => *bytes,
        _ => 0,
    };
    (bytes, result)
}

/// Fills `first` with slices of at most `max` bytes in all. Returns how many there are.
fn fill<'a>(first: &mut [IoSlice<'a>], slices: &'a [IoSlice<'_>], mut max: usize) -> usize {
    let mut count = 0;
    for slice in slices.iter().filter(|slice| !slice.is_empty()) {
        if max == 0 || count == first.len() {
            break;
        }
        let bytes = &slice[..slice.len().min(max)];
        first[count] = IoSlice::new(bytes);
        max -= bytes.len();
        count += 1;
    }
    count
}
