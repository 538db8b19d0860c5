//! Counts of fixed windows on the server, to which batches are sent.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use crate::reply;
use crate::script::Script;
use crate::server_key as key;
use crate::store::{Store, is_name};
use crate::{Charge, CounterStore, Unavailable, WindowCount};

/// Keys in one call. The server does nothing else during the call.
const KEYS_MAX: usize = 500;

/// The counts of keys in fixed windows, on a server: the [`CounterStore`] of a
/// [`Batched`](crate::Batched) limiter.
///
/// It adds what it receives and denies nothing. Windows follow the server's clock. In a cluster
/// each key is a call of its own. A key that holds something else is an error, and the others are
/// counted.
///
/// The limit is not on the server: processes with different limits count in the same windows, and
/// each process admits by its own limit. With another period, keys start afresh.
///
/// ```
/// use std::time::Duration;
/// use tollgate_redis::{Batched, Store, Windows};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = Store::builder("redis://127.0.0.1:6379").build()?;
/// let windows = Windows::first_hit(&store, "api", Duration::from_secs(60))?;
/// let gate = Batched::builder(windows, 6_000).build()?; // 6,000 a minute
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Windows(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    store: Store,
    script: Script,
    key_head: Vec<u8>,
    period_micros: u64,
    /// The script's argument for where windows begin.
    begin: String,
}

/// Why windows cannot be counted this way.
///
/// ```
/// use std::time::Duration;
/// use tollgate_redis::{Store, Windows, WindowsError};
///
/// let store = Store::builder("redis://127.0.0.1:6379").build()?;
/// let never = Windows::first_hit(&store, "api", Duration::ZERO);
/// assert_eq!(never.unwrap_err(), WindowsError::Period);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WindowsError {
    /// The name is empty, too long, or has braces.
    Name,
    /// The period is not a whole number of microseconds, or is longer than 366 days.
    Period,
}

impl fmt::Display for WindowsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Name => "a name has 1 to 64 bytes and no braces: use one like \"login\"",
            Self::Period => "a window is a whole number of microseconds, up to 366 days",
        })
    }
}

impl core::error::Error for WindowsError {}

impl Windows {
    /// Windows that begin with a key's first hit.
    ///
    /// # Errors
    ///
    /// The name or the period is out of range.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate_redis::{Store, Windows};
    /// # let store = Store::builder("redis://127.0.0.1:6379").build()?;
    /// let windows = Windows::first_hit(&store, "api", Duration::from_secs(1))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn first_hit(store: &Store, name: &str, period: Duration) -> Result<Self, WindowsError> {
        Self::new(store, name, period, "first".to_owned())
    }

    /// Windows that begin at multiples of the period since 1970, in UTC.
    ///
    /// # Errors
    ///
    /// The name or the period is out of range.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate_redis::{Store, Windows};
    /// # let store = Store::builder("redis://127.0.0.1:6379").build()?;
    /// let windows = Windows::aligned(&store, "api", Duration::from_secs(3_600))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn aligned(store: &Store, name: &str, period: Duration) -> Result<Self, WindowsError> {
        Self::new(store, name, period, "0".to_owned())
    }

    fn new(
        store: &Store,
        name: &str,
        period: Duration,
        begin: String,
    ) -> Result<Self, WindowsError> {
        const LONGEST: Duration = Duration::from_secs(366 * 86_400);
        if !is_name(name) {
            return Err(WindowsError::Name);
        }
        let is_whole = period.subsec_nanos().is_multiple_of(1_000);
        let period_micros = u64::try_from(period.as_micros()).unwrap_or(0);
        if !is_whole || period_micros == 0 || period > LONGEST {
            return Err(WindowsError::Period);
        }
        let key_head = key::head(store.prefix(), name, &format!("counts{period_micros}+{begin}"));
        let (store, script) = (store.clone(), Script::batch());
        Ok(Self(Arc::new(Inner { store, script, key_head, period_micros, begin })))
    }

    /// One call. It fails as a whole, or answers for each charge.
    async fn add_some(
        &self,
        charges: &[Charge],
    ) -> Result<Vec<Result<WindowCount, Unavailable>>, Unavailable> {
        let Inner { store, script, key_head, period_micros, begin } = &*self.0;
        let keys: Vec<_> = charges.iter().map(|its| key::whole(key_head, &its.key)).collect();
        let mut args = vec![period_micros.to_string(), begin.clone(), String::new()];
        args.extend(charges.iter().map(|its| its.cells.to_string()));
        let args: Vec<_> = args.into_iter().map(String::into_bytes).collect();
        let reply = store.run(script, &keys, &args).await?;
        reply::window_counts(&reply, charges.len()).ok_or_else(reply::impossible)
    }
}

impl CounterStore for Windows {
    async fn add(&self, charges: &[Charge]) -> Vec<Result<WindowCount, Unavailable>> {
        let at_once = if self.0.store.is_cluster() { 1 } else { KEYS_MAX };
        let mut all = Vec::with_capacity(charges.len());
        for some in charges.chunks(at_once) {
            match self.add_some(some).await {
                Ok(replies) => all.extend(replies),
                Err(why) => all.extend(vec![Err(why); some.len()]),
            }
        }
        all
    }

    fn deadline(&self) -> Duration {
        self.0.store.deadline()
    }
}
