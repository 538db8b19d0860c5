//! A limiter that spends in this process what it took ahead.

use core::fmt;
use std::sync::Arc;

use tollgate::clock::QuantaClock;
use tollgate::{Clock, Tick};

use super::builder::LeasedBuilder;
use super::key_state::{Attempt, KeyState, Prefetch, Settings};
use super::lease_source::LeaseSource;
use super::stats::{LeaseStats, Stat, StripedStats};
use crate::answer::{Answer, Origin};
use crate::bounded_map::BoundedMap;
use crate::unavailable::Unavailable;

/// A limiter for several machines that makes most decisions in this process: it takes cells ahead
/// from a [`LeaseSource`], and spends them without a call.
///
/// How many cells it takes follows how fast they are spent. When few are left, it fetches more in
/// the background. A request waits only if none are left. All requests that wait for a key share
/// one call. If one call brings less than is spent during a round trip, up to 256 calls for the key
/// are in flight at a time. When the source is short of cells, the key pauses between calls
/// ([`LeasedBuilder::pause`]). When the source denies, requests are denied here until it is time to
/// come back. So an overloaded key, or a client that ignores denials, costs few calls.
///
/// Clones share everything.
///
/// **Guarantee.** What the source grants is spent once, by the process that asked, within its
/// lifetime. If the source fulfils [`Grant::lifetime`](crate::Grant::lifetime), all processes
/// together never exceed the quota in any span, whichever of them die or are stopped. A request
/// waits no longer than the source's [deadline](LeaseSource::deadline).
///
/// **Not guaranteed.**
///
/// - Not every cell is used. Cells that a process holds when it ends, or does not spend within
///   the lifetime, are lost: at most the cells that it took in the last lifetime.
/// - There is no order between processes. One may be denied while another still has cells.
/// - A denial may be older than the source's latest state: by the pause, or, while the source is
///   asked again, by the time to come back.
/// - [`Permit::remaining`](tollgate::Permit::remaining) is the cells held here plus those that the
///   source had in its last reply. Other processes may have taken those of the source since.
///
/// It runs on tokio. Each call is a task of its own, so a request that is dropped while it waits
/// loses at most its own cells.
///
/// ```
/// # use std::time::Duration;
/// # use tollgate::decision::DecisionParts;
/// # use tollgate_redis::{LeaseSource, Grant, Leased, Origin, Unavailable, LeaseRequest};
/// # struct Rich;
/// # impl LeaseSource for Rich {
/// #     async fn take(&self, _: &[u8], want: LeaseRequest) -> Result<Grant, Unavailable> {
/// #         let parts = DecisionParts { limit: 9, remaining: 9, reset_after: Duration::from_secs(1) };
/// #         let lifetime = Duration::from_secs(9);
/// #         Ok(Grant { cells: want.max, lifetime, parts, retry_after: None })
/// #     }
/// # }
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let leased = Leased::builder(Rich).build()?;
/// for _ in 0..100 {
///     match leased.check(b"192.0.2.7").await?.decision {
///         Ok(_) => {}
///         Err(denied) => println!("429, retry after {:?}", denied.retry_after()),
///     }
/// }
/// assert!(leased.stats().calls <= 20);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Leased<B, C = QuantaClock> {
    pub(super) shared: Arc<Shared<B, C>>,
}

pub(super) struct Shared<B, C> {
    pub(super) source: B,
    clock: C,
    /// The clock's time when the limiter was built.
    origin: Tick,
    pub(super) settings: Settings,
    keys: BoundedMap<KeyState>,
    pub(super) stats: StripedStats,
}

impl<B, C> Clone for Leased<B, C> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<B, C> fmt::Debug for Leased<B, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shared { settings, keys, .. } = &*self.shared;
        let keys = keys.len();
        f.debug_struct("Leased").field("settings", settings).field("keys", &keys).finish()
    }
}

impl<B: LeaseSource> Leased<B> {
    /// A builder for a limiter on this source.
    ///
    /// ```
    /// # use tollgate_redis::{LeaseSource, Grant, LeaseError, Leased, Unavailable, LeaseRequest};
    /// # struct Away;
    /// # impl LeaseSource for Away {
    /// #     async fn take(&self, _: &[u8], _: LeaseRequest) -> Result<Grant, Unavailable> {
    /// #         Err(Unavailable::Disconnected)
    /// #     }
    /// # }
    /// let leased = Leased::builder(Away).max_lease(500).build()?;
    /// assert!(leased.try_check(b"a", 1).is_none());
    /// # Ok::<(), LeaseError>(())
    /// ```
    pub fn builder(source: B) -> LeasedBuilder<B> {
        LeasedBuilder::new(source)
    }
}

/// The result of the first attempt, without waiting.
enum FastAnswer {
    Answered(Answer),
    Unavailable(Unavailable),
    /// The request must call or wait.
    NotYet,
}

impl<B: LeaseSource, C: Clock + Send + Sync + 'static> Leased<B, C> {
    pub(super) fn new(source: B, clock: C, capacity: u64, settings: Settings) -> Self {
        let (keys, stats) = (BoundedMap::new(capacity), StripedStats::default());
        let origin = clock.now();
        Self { shared: Arc::new(Shared { source, clock, origin, settings, keys, stats }) }
    }

    /// Asks for one cell of `key`'s quota.
    ///
    /// # Errors
    ///
    /// The source is unavailable, and no cells are held here.
    ///
    /// ```
    /// # use tollgate_redis::{LeaseSource, Grant, Leased, Unavailable, LeaseRequest};
    /// # struct Away;
    /// # impl LeaseSource for Away {
    /// #     async fn take(&self, _: &[u8], _: LeaseRequest) -> Result<Grant, Unavailable> {
    /// #         Err(Unavailable::Disconnected)
    /// #     }
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let leased = Leased::builder(Away).build()?;
    /// assert_eq!(leased.check(b"a").await, Err(Unavailable::Disconnected));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn check(&self, key: &[u8]) -> Result<Answer, Unavailable> {
        self.check_n(key, 1).await
    }

    /// Asks for `n` cells of `key`'s quota, all of them or none. With `n` = 0, nothing is charged.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check).
    ///
    /// ```
    /// # use tollgate_redis::{LeaseSource, Grant, Leased, Unavailable, LeaseRequest};
    /// # struct Away;
    /// # impl LeaseSource for Away {
    /// #     async fn take(&self, _: &[u8], _: LeaseRequest) -> Result<Grant, Unavailable> {
    /// #         Err(Unavailable::CircuitOpen)
    /// #     }
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let leased = Leased::builder(Away).build()?;
    /// assert_eq!(leased.check_n(b"a", 5).await, Err(Unavailable::CircuitOpen));
    /// assert_eq!(leased.stats().unavailable, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn check_n(&self, key: &[u8], n: u64) -> Result<Answer, Unavailable> {
        let found = match self.try_now(key, n) {
            FastAnswer::Answered(answer) => Ok(answer),
            FastAnswer::Unavailable(why) => Err(why),
            FastAnswer::NotYet => match self.key_state(key) {
                Some(key_state) if self.is_leased(n) => self.answer_by_calls(&key_state, n).await,
                key_state => self.call_unleased(key_state.as_deref(), key, n).await,
            },
        };
        self.count(&found);
        found
    }

    /// The answer of [`check_n`](Self::check_n), if it needs no waiting: from cells held here, or
    /// from the source's last reply. `None` if `check_n` would call the source, or knows that it is
    /// unavailable.
    ///
    /// If this is called on tokio, it also fetches cells in the background, as `check_n` does.
    ///
    /// ```
    /// # use tollgate_redis::{LeaseSource, Grant, LeaseError, Leased, Unavailable, LeaseRequest};
    /// # struct Away;
    /// # impl LeaseSource for Away {
    /// #     async fn take(&self, _: &[u8], _: LeaseRequest) -> Result<Grant, Unavailable> {
    /// #         Err(Unavailable::Disconnected)
    /// #     }
    /// # }
    /// let leased = Leased::builder(Away).build()?;
    /// assert!(leased.try_check(b"a new key", 1).is_none());
    /// # Ok::<(), LeaseError>(())
    /// ```
    pub fn try_check(&self, key: &[u8], n: u64) -> Option<Answer> {
        let FastAnswer::Answered(answer) = self.try_now(key, n) else { return None };
        self.count_answer(&answer);
        Some(answer)
    }

    /// Counters so far.
    ///
    /// ```
    /// # use tollgate_redis::{LeaseSource, Grant, LeaseError, Leased, Unavailable, LeaseRequest};
    /// # struct Away;
    /// # impl LeaseSource for Away {
    /// #     async fn take(&self, _: &[u8], _: LeaseRequest) -> Result<Grant, Unavailable> {
    /// #         Err(Unavailable::Disconnected)
    /// #     }
    /// # }
    /// assert_eq!(Leased::builder(Away).build()?.stats().calls, 0);
    /// # Ok::<(), LeaseError>(())
    /// ```
    #[must_use]
    pub fn stats(&self) -> LeaseStats {
        self.shared.stats.read(self.shared.keys.len())
    }

    /// The source of leases.
    #[must_use]
    pub fn source(&self) -> &B {
        &self.shared.source
    }

    /// The time since the limiter was built, because a lease has room for 36 years: a clock may count since 1970.
    pub(super) fn now(&self) -> Tick {
        let Shared { clock, origin, .. } = &*self.shared;
        Tick::from_nanos(clock.now().as_nanos().saturating_sub(origin.as_nanos()))
    }

    /// Whether a lease can hold this many cells.
    fn is_leased(&self, n: u64) -> bool {
        (1..=self.shared.settings.max_lease).contains(&n)
    }

    /// The fast path: look the key up and try to answer.
    #[inline]
    fn try_now(&self, key: &[u8], n: u64) -> FastAnswer {
        let now = self.now();
        let attempt = self.shared.keys.read(key, |key_state| {
            let attempt = match self.is_leased(n) {
                true => key_state.try_answer(n, now),
                false => key_state.try_unleased(n, now).unwrap_or(Attempt::Ask),
            };
            if let Attempt::Answered(_, Prefetch::Cells(min)) = attempt {
                self.prefetch(key_state, min, now);
            }
            attempt
        });
        match attempt {
            Some(Attempt::Answered(answer, _)) => FastAnswer::Answered(answer),
            Some(Attempt::Unavailable(why)) => FastAnswer::Unavailable(why),
            Some(Attempt::Ask | Attempt::Wait) | None => FastAnswer::NotYet,
        }
    }

    fn key_state(&self, key: &[u8]) -> Option<Arc<KeyState>> {
        let (key_state, dropped) = self.shared.keys.get_or_insert(key, || self.now());
        self.shared.stats.add(Stat::CellsLapsed, dropped.cells);
        key_state
    }

    fn count(&self, found: &Result<Answer, Unavailable>) {
        match found {
            Ok(answer) => self.count_answer(answer),
            Err(_) => self.shared.stats.one(Stat::Unavailable),
        }
    }

    #[inline]
    fn count_answer(&self, answer: &Answer) {
        self.shared.stats.one(match answer.origin {
            Origin::Lease => Stat::FromLease,
            Origin::Memory => Stat::FromMemory,
            Origin::Server | Origin::Local | Origin::Fallback => Stat::FromSource,
        });
    }
}
