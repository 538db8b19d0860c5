//! What can be chosen for a [`Leased`].

use core::fmt;
use core::time::Duration;

use tollgate::clock::QuantaClock;
use tollgate::{Clock, Tick};

use super::account::Rules;
use super::bank::LeaseSource;
use super::leased::Leased;
use super::purse::CELLS_MAX;
use super::sizing::Pauses;

/// Builds a [`Leased`].
///
/// ```
/// # use tollgate_redis::{LeaseSource, Grant, LeaseError, Leased, Unavailable, Want};
/// # struct Away;
/// # impl LeaseSource for Away {
/// #     async fn take(&self, _: &[u8], _: Want) -> Result<Grant, Unavailable> {
/// #         Err(Unavailable::Disconnected)
/// #     }
/// # }
/// let leased = Leased::builder(Away).most(100).capacity(10_000).build()?;
/// assert_eq!(leased.stats().purses, 0);
/// assert_eq!(Leased::builder(Away).most(0).build().unwrap_err(), LeaseError::Most);
/// # Ok::<(), LeaseError>(())
/// ```
#[derive(Debug)]
#[must_use = "nothing is limited before it is built"]
pub struct LeasedBuilder<B, C = QuantaClock> {
    bank: B,
    clock: C,
    capacity: u64,
    most: u64,
    pause: Duration,
    longest_pause: Duration,
    memory: Duration,
}

/// The longest span that a process pauses or remembers for.
const SPAN_MAX: Duration = Duration::from_secs(3_600);

impl<B: LeaseSource> LeasedBuilder<B> {
    pub(crate) fn new(bank: B) -> Self {
        Self {
            bank,
            clock: QuantaClock::new(),
            capacity: 100_000,
            most: 1_000,
            pause: Duration::from_millis(10),
            longest_pause: Duration::from_millis(250),
            memory: Duration::from_secs(1),
        }
    }
}

impl<B: LeaseSource, C: Clock + Send + Sync + 'static> LeasedBuilder<B, C> {
    /// The clock that lifetimes are counted by; the processor's own unless chosen.
    ///
    /// It must not run slower than the server's. If it is read late, as a coarse clock is by up to
    /// `s`, cells may be spent for `s` longer, and a span may see `rate * s` more of them.
    ///
    /// ```
    /// # use tollgate_redis::{LeaseSource, Grant, LeaseError, Leased, Unavailable, Want};
    /// # struct Away;
    /// # impl LeaseSource for Away {
    /// #     async fn take(&self, _: &[u8], _: Want) -> Result<Grant, Unavailable> {
    /// #         Err(Unavailable::Disconnected)
    /// #     }
    /// # }
    /// use tollgate::ManualClock;
    /// let leased = Leased::builder(Away).clock(ManualClock::new()).build()?;
    /// # Ok::<(), LeaseError>(())
    /// ```
    pub fn clock<D: Clock + Send + Sync + 'static>(self, clock: D) -> LeasedBuilder<B, D> {
        let Self { bank, clock: _, capacity, most, pause, longest_pause, memory } = self;
        LeasedBuilder { bank, clock, capacity, most, pause, longest_pause, memory }
    }

    /// Keys that may hold cells at a time; 100,000 unless chosen. A key takes some 400 bytes.
    /// Beyond that, keys that find no place cost a call for each request.
    ///
    /// ```
    /// # use tollgate_redis::{LeaseSource, Grant, LeaseError, Leased, Unavailable, Want};
    /// # struct Away;
    /// # impl LeaseSource for Away {
    /// #     async fn take(&self, _: &[u8], _: Want) -> Result<Grant, Unavailable> {
    /// #         Err(Unavailable::Disconnected)
    /// #     }
    /// # }
    /// let leased = Leased::builder(Away).capacity(1_000).build()?;
    /// # Ok::<(), LeaseError>(())
    /// ```
    pub fn capacity(self, keys: u64) -> Self {
        Self { capacity: keys, ..self }
    }

    /// The most cells that are taken at a time; 1,000 unless chosen. Requests for more go to the
    /// bank each.
    ///
    /// Where that is less than a key spends in a round trip, several calls for it are under way at
    /// once, 256 at most, as long as the bank has had what they asked for.
    ///
    /// ```
    /// # use tollgate_redis::{LeaseSource, Grant, LeaseError, Leased, Unavailable, Want};
    /// # struct Away;
    /// # impl LeaseSource for Away {
    /// #     async fn take(&self, _: &[u8], _: Want) -> Result<Grant, Unavailable> {
    /// #         Err(Unavailable::Disconnected)
    /// #     }
    /// # }
    /// assert_eq!(Leased::builder(Away).most(1 << 20).build().unwrap_err(), LeaseError::Most);
    /// ```
    pub fn most(self, cells: u64) -> Self {
        Self { most: cells, ..self }
    }

    /// How long a key pauses between calls once the bank is short of its cells; 10 ms unless
    /// chosen. While calls bring few cells, the pause doubles up to the
    /// [`longest`](Self::longest_pause). It is never longer than half of a lease's lifetime.
    ///
    /// ```
    /// # use tollgate_redis::{LeaseSource, Grant, LeaseError, Leased, Unavailable, Want};
    /// # struct Away;
    /// # impl LeaseSource for Away {
    /// #     async fn take(&self, _: &[u8], _: Want) -> Result<Grant, Unavailable> {
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

    /// The longest pause between calls for one key; 250 ms unless chosen.
    ///
    /// ```
    /// # use tollgate_redis::{LeaseSource, Grant, LeaseError, Leased, Unavailable, Want};
    /// # struct Away;
    /// # impl LeaseSource for Away {
    /// #     async fn take(&self, _: &[u8], _: Want) -> Result<Grant, Unavailable> {
    /// #         Err(Unavailable::Disconnected)
    /// #     }
    /// # }
    /// use std::time::Duration;
    /// let builder = Leased::builder(Away).longest_pause(Duration::from_millis(1));
    /// assert_eq!(builder.build().unwrap_err(), LeaseError::Pause); // shorter than the first
    /// ```
    pub fn longest_pause(self, span: Duration) -> Self {
        Self { longest_pause: span, ..self }
    }

    /// For how long a denial is believed without asking again; 1 s unless chosen. After that it
    /// still answers, until its time, while the bank is asked in the background: so a quota that
    /// was reset on the server is noticed. Requests for more than a lease has are denied until
    /// their time without being asked for again.
    ///
    /// ```
    /// # use tollgate_redis::{LeaseSource, Grant, LeaseError, Leased, Unavailable, Want};
    /// # struct Away;
    /// # impl LeaseSource for Away {
    /// #     async fn take(&self, _: &[u8], _: Want) -> Result<Grant, Unavailable> {
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

    /// The limiter. It takes no cells before it is asked for some.
    ///
    /// # Errors
    ///
    /// What is out of range, and what to choose.
    ///
    /// ```
    /// # use tollgate_redis::{LeaseSource, Grant, LeaseError, Leased, Unavailable, Want};
    /// # struct Away;
    /// # impl LeaseSource for Away {
    /// #     async fn take(&self, _: &[u8], _: Want) -> Result<Grant, Unavailable> {
    /// #         Err(Unavailable::Disconnected)
    /// #     }
    /// # }
    /// assert_eq!(Leased::builder(Away).capacity(0).build().unwrap_err(), LeaseError::Capacity);
    /// ```
    pub fn build(self) -> Result<Leased<B, C>, LeaseError> {
        if self.capacity == 0 {
            return Err(LeaseError::Capacity);
        }
        if !(1..=CELLS_MAX).contains(&self.most) {
            return Err(LeaseError::Most);
        }
        let pause = Duration::from_millis(1)..=SPAN_MAX;
        if !pause.contains(&self.pause) || !(self.pause..=SPAN_MAX).contains(&self.longest_pause) {
            return Err(LeaseError::Pause);
        }
        if self.memory > SPAN_MAX {
            return Err(LeaseError::Memory);
        }
        let nanos = |span: Duration| Tick::from_duration(span).as_nanos();
        let pauses =
            Pauses { least_nanos: nanos(self.pause), most_nanos: nanos(self.longest_pause) };
        let rules = Rules { most: self.most, pauses, memory_nanos: nanos(self.memory) };
        Ok(Leased::new(self.bank, self.clock, self.capacity, rules))
    }
}

/// Why there is no [`Leased`].
///
/// ```
/// use tollgate_redis::LeaseError;
///
/// assert_eq!(LeaseError::Capacity.to_string(), "no key has a place: choose a capacity of 1 or more");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeaseError {
    /// No key has a place.
    Capacity,
    /// Leases of no cells, or of too many.
    Most,
    /// A pause that is too short or too long.
    Pause,
    /// A memory that is too long.
    Memory,
}

impl fmt::Display for LeaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Capacity => "no key has a place: choose a capacity of 1 or more",
            Self::Most => "a lease has 1 to 1,048,575 cells: choose so many at most",
            Self::Pause => {
                "a pause is 1 ms to 1 hour long, and the longest no shorter than the first"
            }
            Self::Memory => "a denial is believed for an hour at most: choose a shorter memory",
        })
    }
}

impl core::error::Error for LeaseError {}
