//! The list of live nodes on the server, by which a quota is divided.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use crate::reply;
use crate::script::Script;
use crate::server_key::{self as key, is_name};
use crate::share::{Heartbeat, Membership};
use crate::store::Store;
use crate::unavailable::Unavailable;
use crate::windows::WindowsError;

/// The list of live nodes on a server: the [`Membership`] of a [`Share`](crate::Share).
///
/// The list holds no quota. If nodes have different quotas, as during a roll-out, each node uses a
/// part of its own quota. Together the parts are no more than the larger quota.
///
/// ```
/// use tollgate::Quota;
/// use tollgate_redis::{RedisMembership, Share, Store};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = Store::builder("redis://127.0.0.1:6379").build()?;
/// let share = Share::builder(RedisMembership::new(&store, "api")?, Quota::per_second(1_000)).build()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RedisMembership(Arc<Inner>);

struct Inner {
    store: Store,
    heartbeat: Script,
    leave: Script,
    /// The keys of "last heartbeat of each node" and "when each node joined".
    keys: [Vec<u8>; 2],
}

impl RedisMembership {
    /// The nodes that share the quota of this name.
    ///
    /// # Errors
    ///
    /// The name is empty, longer than 64 bytes, or has braces.
    ///
    /// ```
    /// # use tollgate_redis::{RedisMembership, Store};
    /// # let store = Store::builder("redis://127.0.0.1:6379").build()?;
    /// assert!(RedisMembership::new(&store, "api").is_ok());
    /// assert!(RedisMembership::new(&store, "").is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(store: &Store, name: &str) -> Result<Self, WindowsError> {
        if !is_name(name) {
            return Err(WindowsError::Name);
        }
        let keys = ["heard", "came"].map(|of| key::of_nodes(store.prefix(), name, of));
        let (heartbeat, leave) = (Script::heartbeat(), Script::leave());
        Ok(Self(Arc::new(Inner { store: store.clone(), heartbeat, leave, keys })))
    }
}

impl Membership for RedisMembership {
    async fn heartbeat(&self, id: &str, lifetime: Duration) -> Result<Heartbeat, Unavailable> {
        let Inner { store, heartbeat, keys, .. } = &*self.0;
        let micros = u64::try_from(lifetime.as_micros()).unwrap_or(u64::MAX);
        let args = [id.as_bytes().to_vec(), micros.to_string().into_bytes(), Vec::new()];
        let reply = store.run(heartbeat, keys, &args).await?;
        reply::heartbeat(&reply).ok_or_else(reply::impossible)
    }

    async fn leave(&self, id: &str) -> Result<(), Unavailable> {
        let Inner { store, leave, keys, .. } = &*self.0;
        store.run(leave, keys, &[id.as_bytes().to_vec()]).await.map(|_| ())
    }
}

impl fmt::Debug for RedisMembership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisMembership").finish_non_exhaustive()
    }
}
