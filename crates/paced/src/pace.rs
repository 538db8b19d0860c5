//! The buckets of a direction.

use core::borrow::Borrow;
use core::fmt;
use core::hash::Hash;
use std::sync::Arc;

use tollgate::reservation::Chargeable;
use tollgate::{Clock, Direct, Limiter, Quota};

use crate::bucket::{Bucket, Keyed, TokenBucket, Whole};
use crate::error::PaceError;

/// The buckets that bytes are charged to, a cell for each byte: none, one, or several at once.
///
/// A clone charges the same buckets. So streams that share a bucket have clones of one `Pace`, and a
/// stream with a bucket of its own has a new one. One `Pace` may serve both directions of a stream.
///
/// | constructor | bucket |
/// |---|---|
/// | [`new`](Self::new) | a new one |
/// | [`shared`](Self::shared) | that of a [`Direct`], which may have a [`DynamicGcra`](tollgate::dynamic::DynamicGcra) and other users |
/// | [`keyed`](Self::keyed) | that of a key of a [`Limiter`] |
/// | [`and`](Self::and) | those of two, for example a client's and one for all clients |
/// | [`unlimited`](Self::unlimited) | none |
///
/// Choose a burst of at least the bytes that the rate carries in 10 ms. Timers are not more precise than some
/// milliseconds, and a bucket that is full meanwhile loses bytes. A quota has at most 10^9 cells a second, so the
/// highest rate is 1 GB/s.
///
/// ```
/// use std::net::IpAddr;
/// use std::sync::Arc;
/// use tollgate::{Limiter, Quota};
/// use tollgate_paced::Pace;
///
/// let clients: Arc<Limiter<IpAddr>> =
///     Arc::new(Limiter::builder(Quota::per_second(1_000_000).burst(100_000)).build()?);
/// let total = Pace::new(Quota::per_second(50_000_000).burst(1_000_000))?;
/// let address: IpAddr = "192.0.2.7".parse()?;
/// let pace = Pace::keyed(&clients, address)?.and(&total);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Pace {
    buckets: Vec<Arc<dyn Bucket>>,
}

impl Pace {
    /// A new bucket, which is full.
    ///
    /// # Errors
    ///
    /// The quota is out of range, or its burst is one byte. The error says what to do.
    ///
    /// ```
    /// use tollgate_paced::Pace;
    /// let pace = Pace::new("10M/s burst 1M".parse()?)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(quota: Quota) -> Result<Self, PaceError> {
        Self::shared(&Arc::new(Direct::new(quota)?))
    }

    /// The bucket of a [`Direct`]. If that has a [`DynamicGcra`](tollgate::dynamic::DynamicGcra), its rate
    /// may change while streams use it. A new rate holds from a stream's next chunk on: bytes that wait keep the turn
    /// that they were given by the old rate.
    ///
    /// # Errors
    ///
    /// The burst is one byte.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::dynamic::{DynamicGcra, Inherit};
    /// use tollgate::{Direct, Quota};
    /// use tollgate_paced::Pace;
    ///
    /// let quota = Quota::per_second(1_000_000).burst(100_000);
    /// let gate = Arc::new(Direct::builder(quota).algorithm(DynamicGcra::new()).build()?);
    /// let pace = Pace::shared(&gate)?;
    /// gate.set_quota(Quota::per_second(2_000_000).burst(100_000), Inherit::AsIs)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn shared<A, C>(gate: &Arc<Direct<A, C>>) -> Result<Self, PaceError>
    where
        A: TokenBucket + 'static,
        C: Clock + 'static,
        Direct<A, C>: Chargeable + Send + Sync,
    {
        Self::checked(Arc::new(Whole(Arc::clone(gate))))
    }

    /// The bucket of a key. The key is owned, such as a `String` for a `Limiter<str>`.
    ///
    /// **Not guaranteed.** What a key does that finds no slot is up to [`OnFull`](tollgate::OnFull), and a
    /// key that loses its slot starts afresh. With [`OnFull::Deny`](tollgate::OnFull::Deny) its bytes
    /// wait until a slot is free. With [`OnFull::SharedOverflow`](tollgate::OnFull::SharedOverflow) such keys are
    /// refunded nothing.
    ///
    /// # Errors
    ///
    /// The burst is one byte.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::{Limiter, Quota};
    /// use tollgate_paced::Pace;
    ///
    /// let tenants: Arc<Limiter<str>> = Arc::new(Limiter::builder(Quota::per_second(1_000_000)).build()?);
    /// let pace = Pace::keyed(&tenants, String::from("tenant-7"))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn keyed<K, Q, A, C>(gate: &Arc<Limiter<K, A, C>>, key: Q) -> Result<Self, PaceError>
    where
        K: Hash + ?Sized + 'static,
        Q: Borrow<K> + Send + Sync + 'static,
        A: TokenBucket + 'static,
        C: Clock + 'static,
        Limiter<K, A, C>: Chargeable + Send + Sync,
    {
        Self::checked(Arc::new(Keyed::new(Arc::clone(gate), key)))
    }

    /// No bucket: all bytes pass as they come.
    ///
    /// ```
    /// let pace = tollgate_paced::Pace::unlimited();
    /// ```
    #[must_use]
    pub const fn unlimited() -> Self {
        Self { buckets: Vec::new() }
    }

    /// The buckets of both: each byte is charged to all of them.
    ///
    /// ```
    /// use tollgate::Quota;
    /// use tollgate_paced::Pace;
    ///
    /// let total = Pace::new(Quota::per_second(50_000_000))?;
    /// let connection = Pace::new(Quota::per_second(1_000_000))?.and(&total);
    /// # Ok::<(), tollgate_paced::PaceError>(())
    /// ```
    #[must_use]
    pub fn and(mut self, other: &Self) -> Self {
        self.buckets.extend(other.buckets.iter().cloned());
        self
    }

    fn checked(bucket: Arc<dyn Bucket>) -> Result<Self, PaceError> {
        let seen = bucket.peek(0, bucket.now());
        if seen.map_or_else(|denied| denied.limit(), |permit| permit.limit()) < 2 {
            return Err(PaceError::BurstTooSmall);
        }
        Ok(Self { buckets: vec![bucket] })
    }

    pub(crate) fn into_buckets(self) -> Vec<Arc<dyn Bucket>> {
        self.buckets
    }
}

impl fmt::Debug for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pace").field("buckets", &self.buckets.len()).finish_non_exhaustive()
    }
}
