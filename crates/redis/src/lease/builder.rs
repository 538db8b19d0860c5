//! The builder of a [`Leased`].

use core::fmt;
use core::time::Duration;

use tollgate::clock::QuantaClock;
use tollgate::{Clock, Tick};

use super::key_state::Settings;
use super::lease_cell::CELLS_MAX;
use super::lease_source::LeaseSource;
use super::leased::Leased;
use super::sizing::PauseBounds;

/// Configures a [`Leased`].
///
/// ```
/// # use tollgate_redis::{LeaseSource, Grant, LeaseError, Leased, Unavailable, LeaseRequest};
/// # struct Away;
/// # impl LeaseSource for Away {
/// #     async fn take(&self, _: &[u8], _: LeaseRequest) -> Result<Grant, Unavailable> {
/// #         Err(Unavailable::Disconnected)
/// #     }
/// # }
/// let leased = Leased::builder(Away).max_lease(100).capacity(10_000).build()?;
/// assert_eq!(leased.stats().keys, 0);
/// assert_eq!(Leased::builder(Away).max_lease(0).build().unwrap_err(), LeaseError::MaxLease);
/// # Ok::<(), LeaseError>(())
/// ```
#[derive(Debug)]
#[must_use = "nothing is limited before it is built"]
pub struct LeasedBuilder<B, C = QuantaClock> {
    source: B,
    clock: C,
    capacity: u64,
    max_lease: u64,
    pause: Duration,
    max_pause: Duration,
    memory: Duration,
}

/// The longest pause or memory.
const SPAN_MAX: Duration = Duration::from_secs(3_600);

impl<B: LeaseSource> LeasedBuilder<B> {
    pub(super) fn new(source: B) -> Self {
        Self {
            source,
            clock: QuantaClock::new(),
            capacity: 100_000,
            max_lease: 1_000,
            pause: Duration::from_millis(10),
            max_pause: Duration::from_millis(250),
            memory: Duration::from_secs(1),
        }
    }
}

impl<B: LeaseSource, C: Clock + Send + Sync + 'static> LeasedBuilder<B, C> {
    /// The clock that counts lifetimes. The default is the processor's own.
    ///
    /// It must not run slower than the server's clock. If it is read late by up to `s`, as a coarse
    /// clock is, cells may be spent for `s` longer, and a span may see `rate * s` more of them.
    ///
    /// ```
    /// # use tollgate_redis::{LeaseSource, Grant, LeaseError, Leased, Unavailable, LeaseRequest};
    /// # struct Away;
    /// # impl LeaseSource for Away {
    /// #     async fn take(&self, _: &[u8], _: LeaseRequest) -> Result<Grant, Unavailable> {
    /// #         Err(Unavailable::Disconnected)
    /// #     }
    /// # }
    /// use tollgate::ManualClock;
    /// let leased = Leased::builder(Away).clock(ManualClock::new()).build()?;
    /// # Ok::<(), LeaseError>(())
    /// ```
    pub fn clock<D: Clock + Send + Sync + 'static>(self, clock: D) -> LeasedBuilder<B, D> {
        let Self { source, clock: _, capacity, max_lease, pause, max_pause, memory } = self;
        LeasedBuilder { source, clock, capacity, max_lease, pause, max_pause, memory }
    }

    /// The number of keys that may hold cells at a time. The default is 100,000. A key takes about
    /// 400 bytes, and its own length. For a key that finds no room, each request costs a call. A key of
    /// more than 1,024 bytes takes no room.
    ///
    /// ```
    /// # use tollgate_redis::{LeaseSource, Grant, LeaseError, Leased, Unavailable, LeaseRequest};
    /// # struct Away;
    /// # impl LeaseSource for Away {
    /// #     async fn take(&self, _: &[u8], _: LeaseRequest) -> Result<Grant, Unavailable> {
    /// #         Err(Unavailable::Disconnected)
    /// #     }
    /// # }
    /// let leased = Leased::builder(Away).capacity(1_000).build()?;
    /// # Ok::<(), LeaseError>(())
    /// ```
    pub fn capacity(self, keys: u64) -> Self {
        Self { capacity: keys, ..self }
    }

    /// The largest number of cells that one call takes. The default is 1,000. A request for more
    /// calls the source for itself.
    ///
    /// If this is less than a key spends in a round trip, several calls for the key are in flight
    /// at a time, 256 at most, as long as the source grants what they ask for.
    ///
    /// ```
    /// # use tollgate_redis::{LeaseSource, Grant, LeaseError, Leased, Unavailable, LeaseRequest};
    /// # struct Away;
    /// # impl LeaseSource for Away {
    /// #     async fn take(&self, _: &[u8], _: LeaseRequest) -> Result<Grant, Unavailable> {
    /// #         Err(Unavailable::Disconnected)
    /// #     }
    /// # }
    /// assert_eq!(Leased::builder(Away).max_lease(1 << 20).build().unwrap_err(), LeaseError::MaxLease);
    /// ```
    pub fn max_lease(self, cells: u64) -> Self {
        Self { max_lease: cells, ..self }
    }

    /// How long a key pauses between calls while the source is short of its cells. The default is
    /// 10 ms. While calls bring few cells, the pause doubles, up to [`max_pause`](Self::max_pause).
    /// It is never longer than half of a lease's lifetime.
    ///
    /// ```
    /// # use tollgate_redis::{LeaseSource, Grant, LeaseError, Leased, Unavailable, LeaseRequest};
    /// # struct Away;
    /// # impl LeaseSource for Away {
    /// #     async fn take(&self, _: &[u8], _: LeaseRequest) -> Result<Grant, Unavailable> {
    /// #         Err(Unavailable::Disconnected)
    /// #     }
    /// # }
    /// use std::time::Duration;
    /// let leased = Leased::builder(Away).pause(Duration::from_millis(20)).build()?;
    /// # Ok::<(), LeaseError>(())
    /// ```
    pub fn pause(self, span: Duration) -> Self {
        Self { pause: span, ..self }
    }

    /// The longest pause between calls for one key. The default is 250 ms.
    ///
    /// ```
    /// # use tollgate_redis::{LeaseSource, Grant, LeaseError, Leased, Unavailable, LeaseRequest};
    /// # struct Away;
    /// # impl LeaseSource for Away {
    /// #     async fn take(&self, _: &[u8], _: LeaseRequest) -> Result<Grant, Unavailable> {
    /// #         Err(Unavailable::Disconnected)
    /// #     }
    /// # }
    /// use std::time::Duration;
    /// let builder = Leased::builder(Away).max_pause(Duration::from_millis(1));
    /// assert_eq!(builder.build().unwrap_err(), LeaseError::Pause); // shorter than the first
    /// ```
    pub fn max_pause(self, span: Duration) -> Self {
        Self { max_pause: span, ..self }
    }

    /// How long a denial is trusted without asking again. The default is 1 s. After that, requests
    /// are still denied until the time to come back, while the source is asked in the background;
    /// so a quota that was reset on the server is noticed. A request for more cells than a lease has
    /// is denied until its time, without asking again. If it was for more than the limit, there is no
    /// such time: after this span, one request asks again and waits for the answer.
    ///
    /// ```
    /// # use tollgate_redis::{LeaseSource, Grant, LeaseError, Leased, Unavailable, LeaseRequest};
    /// # struct Away;
    /// # impl LeaseSource for Away {
    /// #     async fn take(&self, _: &[u8], _: LeaseRequest) -> Result<Grant, Unavailable> {
    /// #         Err(Unavailable::Disconnected)
    /// #     }
    /// # }
    /// use std::time::Duration;
    /// let builder = Leased::builder(Away).memory(Duration::from_secs(7_200));
    /// assert_eq!(builder.build().unwrap_err(), LeaseError::Memory);
    /// ```
    pub fn memory(self, span: Duration) -> Self {
        Self { memory: span, ..self }
    }

    /// Builds the limiter. It takes no cells before the first request.
    ///
    /// # Errors
    ///
    /// A setting is out of range; the error says what to choose.
    ///
    /// ```
    /// # use tollgate_redis::{LeaseSource, Grant, LeaseError, Leased, Unavailable, LeaseRequest};
    /// # struct Away;
    /// # impl LeaseSource for Away {
    /// #     async fn take(&self, _: &[u8], _: LeaseRequest) -> Result<Grant, Unavailable> {
    /// #         Err(Unavailable::Disconnected)
    /// #     }
    /// # }
    /// assert_eq!(Leased::builder(Away).capacity(0).build().unwrap_err(), LeaseError::Capacity);
    /// ```
    pub fn build(self) -> Result<Leased<B, C>, LeaseError> {
        if self.capacity == 0 {
            return Err(LeaseError::Capacity);
        }
        if !(1..=CELLS_MAX).contains(&self.max_lease) {
            return Err(LeaseError::MaxLease);
        }
        let pause = Duration::from_millis(1)..=SPAN_MAX;
        if !pause.contains(&self.pause) || !(self.pause..=SPAN_MAX).contains(&self.max_pause) {
            return Err(LeaseError::Pause);
        }
        if self.memory > SPAN_MAX {
            return Err(LeaseError::Memory);
        }
        let nanos = |span: Duration| Tick::from_duration(span).as_nanos();
        let pauses = PauseBounds { min_nanos: nanos(self.pause), max_nanos: nanos(self.max_pause) };
        let settings =
            Settings { max_lease: self.max_lease, pauses, memory_nanos: nanos(self.memory) };
        Ok(Leased::new(self.source, self.clock, self.capacity, settings))
    }
}

/// Why a [`Leased`] cannot be built.
///
/// ```
/// use tollgate_redis::LeaseError;
///
/// assert_eq!(LeaseError::Capacity.to_string(), "no key has room: choose a capacity of 1 or more");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeaseError {
    /// The capacity is zero.
    Capacity,
    /// The largest lease has no cells, or too many.
    MaxLease,
    /// A pause is too short or too long.
    Pause,
    /// The memory is too long.
    Memory,
}

impl fmt::Display for LeaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Capacity => "no key has room: choose a capacity of 1 or more",
            Self::MaxLease => "a lease has 1 to 1,048,575 cells: choose a size within that",
            Self::Pause => {
                "a pause is 1 ms to 1 hour long, and the longest no shorter than the first"
            }
            Self::Memory => "a denial is trusted for an hour at most: choose a shorter memory",
        })
    }
}

impl core::error::Error for LeaseError {}
