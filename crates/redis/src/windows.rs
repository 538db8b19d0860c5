//! Counts of fixed windows on the server, to which batches are sent.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use tokio::time::Instant;
use tollgate::{Direct, Quota};

use crate::batch::{Charge, CounterStore, WindowCount};
use crate::reply;
use crate::script::Script;
use crate::server_key::{self as key, is_name};
use crate::store::Store;
use crate::unavailable::Unavailable;

/// Keys in one call. The server does nothing else during the call.
const KEYS_MAX: usize = 500;
/// The rate at which calls may be halved, to find the keys that the server denies. A call whose keys are all denied
/// is halved 499 times.
const HALVINGS: Quota = Quota::per_second(200).burst(KEYS_MAX as u64);

/// The counts of keys in fixed windows, on a server: the [`CounterStore`] of a
/// [`Batched`](crate::Batched) limiter.
///
/// It adds what it receives and denies nothing. Windows follow the server's clock. In a cluster
/// each key is a call of its own. A key that holds something else is an error, and the others are
/// counted. So is a key that the server's user may not read and write: a call with such a key is
/// halved, and sent again, until that key is alone.
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
    halvings: Direct,
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
        let halvings = Direct::builder(HALVINGS).build().expect("a quota in range");
        Ok(Self(Arc::new(Inner { store, script, key_head, period_micros, begin, halvings })))
    }

    /// One call. It fails as a whole, or answers for each charge.
    async fn add_some(
        &self,
        charges: &[Charge],
    ) -> Result<Vec<Result<WindowCount, Unavailable>>, Unavailable> {
        let Inner { store, script, key_head, period_micros, begin, .. } = &*self.0;
        let keys: Vec<_> = charges.iter().map(|its| key::whole(key_head, &its.key)).collect();
        let mut args = vec![period_micros.to_string(), begin.clone(), String::new()];
        args.extend(charges.iter().map(|its| its.cells.to_string()));
        let args: Vec<_> = args.into_iter().map(String::into_bytes).collect();
        let reply = store.run(script, &keys, &args).await?;
        reply::window_counts(&reply, charges.len()).ok_or_else(reply::impossible)
    }

    /// Counts the charges of a call that was denied because of some of its keys. Each half is a call, and is
    /// halved again if it is denied too.
    async fn add_halves(&self, charges: &[Charge], why: Unavailable) -> Vec<Received> {
        let Ok(halvings) = self.0.halvings.ask().cells(charges.len() as u64 - 1).reserve() else {
            return received(vec![Err(why); charges.len()]).collect();
        };
        let (mut all, mut halved) = (Vec::with_capacity(charges.len()), 1);
        let (first, second) = charges.split_at(charges.len() / 2);
        let mut left = vec![second, first];
        while let Some(some) = left.pop() {
            match self.add_some(some).await {
                Ok(replies) => all.extend(received(replies)),
                Err(why) if some.len() > 1 && is_for_a_key(&why) => {
                    halved += 1;
                    let (first, second) = some.split_at(some.len() / 2);
                    left.extend([second, first]);
                }
                Err(why) => all.extend(received(vec![Err(why); some.len()])),
            }
        }
        halvings.settle(halved);
        all
    }
}

impl CounterStore for Windows {
    async fn add(&self, charges: &[Charge]) -> Vec<Result<WindowCount, Unavailable>> {
        let at_once = if self.0.store.is_cluster() { 1 } else { KEYS_MAX };
        let mut all = Vec::with_capacity(charges.len());
        for some in charges.chunks(at_once) {
            match self.add_some(some).await {
                Ok(replies) => all.extend(received(replies)),
                Err(why) if some.len() > 1 && is_for_a_key(&why) => {
                    all.extend(self.add_halves(some, why).await);
                }
                Err(why) => all.extend(received(vec![Err(why); some.len()])),
            }
        }
        all.into_iter().map(as_of_now).collect()
    }

    fn deadline(&self) -> Duration {
        self.0.store.deadline()
    }
}

/// The reply for a key, and when it came.
type Received = (Result<WindowCount, Unavailable>, Instant);

fn received(replies: Vec<Result<WindowCount, Unavailable>>) -> impl Iterator<Item = Received> {
    let now = Instant::now();
    replies.into_iter().map(move |reply| (reply, now))
}

/// The reply, whose window ends sooner by the time since it came: that of the calls after it.
fn as_of_now((reply, came): Received) -> Result<WindowCount, Unavailable> {
    reply.map(|window| WindowCount {
        ends_after: window.ends_after.saturating_sub(came.elapsed()),
        ..window
    })
}

/// Whether the server denied the call, and executed nothing of it, because its user may not use one of the
/// keys. `NOPERM No permissions to access a key`; before Redis 7, `to access one of the keys used as arguments`.
fn is_for_a_key(why: &Unavailable) -> bool {
    matches!(why, Unavailable::Failed(text) if text.contains("permissions to access"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_window_of_an_early_reply_ends_when_the_server_said() {
        let window = |millis| WindowCount { used: 7, ends_after: Duration::from_millis(millis) };
        let early: Vec<_> = received(vec![Ok(window(200)), Ok(window(300))]).collect();
        tokio::time::advance(Duration::from_millis(250)).await;
        let all = early.into_iter().chain(received(vec![Ok(window(50))])).map(as_of_now);
        assert!(all.eq([0, 50, 50].map(|millis| Ok(window(millis)))));
    }
}
