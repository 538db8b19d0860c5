//! A changing quota in a block that several processes map.
//!
//! The block holds the words from which the parameters of a quota are worked out. A process checks these words
//! when it sees a new version, and keeps the parameters in its own memory. So no word that another process may
//! have spoilt is ever a divisor.
//!
//! # Guarded by
//!
//! `loom-tests/tests/dynamic_quota.rs` and `stopped/change.rs`, run by `ci/check.sh loom`, and
//! `ci/check.sh shared-memory`.

use core::time::Duration;
use std::sync::Arc;

use super::in_force::{Change, QuotaInForce};
use super::{DynamicGcra, DynamicGcraParams, Kind};
use crate::algo::dynamic_gcra::{GCRA_EPOCH_WORDS, GcraEpoch, QUOTA_WORDS};
use crate::algo::{CONFIG_WORDS, StateMachine as _};
use crate::limiter::DirectBuilder;
use crate::limiter::Limiter;
use crate::limiter::builder::{BuildError, Builder};
use crate::limiter::direct::Direct;
use crate::limiter::shared::{
    Content, DYNAMIC_GCRA, Shared, SharedError, build_bucket, build_table,
};
use crate::quota::{Quota, QuotaError};
use crate::sync::{DerivedCell, VersionedCell};
use crate::table::{Placed, Source};
use crate::time::monotonic_clock::MonotonicClock;

/// How long a change waits for that of another process.
const WAIT_MAX: Duration = Duration::from_millis(100);

/// A quota in a block.
type PlacedQuota = Placed<VersionedCell<QUOTA_WORDS>>;

/// A quota in a block, and the parameters that this process has worked out from it.
#[derive(Debug)]
pub(super) struct SharedQuota {
    current: PlacedQuota,
    derived: DerivedCell<{ GCRA_EPOCH_WORDS + 1 }>,
}

fn derive(words: &[u64; QUOTA_WORDS]) -> Option<[u64; GCRA_EPOCH_WORDS + 1]> {
    let epoch = GcraEpoch::described(words)?.to_words();
    Some(core::array::from_fn(|index| epoch.get(index).copied().unwrap_or(0)))
}

impl SharedQuota {
    #[inline(always)]
    pub(super) fn read(&self) -> GcraEpoch {
        let words = self.derived.read(&self.current, derive);
        GcraEpoch::from_words(words.first_chunk().expect("they come first"))
    }

    pub(super) fn quota(&self) -> Quota {
        GcraEpoch::quota_described(&self.current.read())
    }

    /// Replaces the quota, alone among all processes.
    pub(super) fn change(
        &self,
        change: Change<'_>,
        renew: impl FnOnce(&GcraEpoch),
    ) -> Result<(), QuotaError> {
        let file = self.current.file().ok_or(QuotaError::ChangeUnderWay)?;
        let _alone = file.lock_within(WAIT_MAX).ok_or(QuotaError::ChangeUnderWay)?;
        let before = self.read();
        let renewed = change.prepare(before, renew)?;
        // Every other writer has finished, or has died with its lock.
        self.current
            .replace_after_death(|_| Ok(change.after(before, renewed)?.describe(change.quota)))
    }
}

/// Parameters whose quota is in the block.
struct Changing;

impl Content<DynamicGcraParams> for Changing {
    fn algorithm(_: &DynamicGcraParams) -> u64 {
        DYNAMIC_GCRA
    }

    /// The quota is left out, because a process that attaches takes the one in force.
    fn config(params: &DynamicGcraParams, _: u64) -> [u64; CONFIG_WORDS] {
        let mut config = [0; CONFIG_WORDS];
        config[0] = params.starts_in_debt().into();
        config
    }

    fn overflow_config(params: &DynamicGcraParams, _: u64) -> [u64; CONFIG_WORDS] {
        let quota = params.quota();
        let mut config = [0; CONFIG_WORDS];
        config[..3].copy_from_slice(&[quota.limit(), quota.period_nanos(), params.first.burst()]);
        config
    }

    /// Two quotas: the creator's, which sets how many units a cell has, and the one in force.
    fn block_bytes(_: &mut DynamicGcraParams) -> usize {
        2 * PlacedQuota::BLOCK_BYTES
    }

    fn place(params: &mut DynamicGcraParams, source: &Source) -> Result<(), SharedError> {
        let described = params.first.describe(&params.quota());
        let place = || PlacedQuota::new(source, VersionedCell::new(&described));
        let (Ok(first), Ok(current)) = (place(), place()) else {
            return Err(BuildError::OutOfMemory.into());
        };
        let first = GcraEpoch::described(&first.read());
        let first = first.ok_or(SharedError::Spoilt { field: "the creator's quota" })?;
        let derived = DerivedCell::new(&*current, derive);
        let derived = derived.ok_or(SharedError::Spoilt { field: "the quota in force" })?;
        let quota = QuotaInForce::Shared(SharedQuota { current, derived });
        *params = DynamicGcraParams { kind: Kind::InForce(Arc::new(quota)), first };
        Ok(())
    }
}

impl<K: ?Sized> Builder<K, DynamicGcra> {
    /// Checks everything, and takes the memory from a block that other processes share: it is created, or
    /// attached if it is there. See [`shared`](crate::shared).
    ///
    /// The quota is part of what is shared. The process that creates the block sets it. A process that
    /// attaches takes the quota in force, whatever its builder says. A [change](Limiter::set_quota) is made by one
    /// process at a time, and seen by all.
    ///
    /// # Errors
    ///
    /// As for [`build`](Builder::build); and the system has no memory, or the block was made by another
    /// program or with other choices. The error names the first that differs.
    ///
    /// ```
    /// use tollgate::dynamic::{DynamicGcra, Inherit};
    /// use tollgate::shared::Shared;
    /// use tollgate::{Limiter, Quota};
    ///
    /// let gate = Limiter::<str>::builder(Quota::per_hour(10))
    ///     .algorithm(DynamicGcra::new())
    ///     .build_shared(&Shared::anonymous())?;
    /// // Fork the workers here. This holds for all of them:
    /// gate.set_quota(Quota::per_hour(100), Inherit::Spent)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn build_shared(
        self,
        shared: &Shared,
    ) -> Result<Limiter<K, DynamicGcra, MonotonicClock>, SharedError> {
        build_table::<K, DynamicGcra, Changing>(&self, shared)
    }
}

impl DirectBuilder<DynamicGcra> {
    /// As the method of the same name of [`Builder`], which says whose quota is in force.
    ///
    /// # Errors
    ///
    /// Those of that method.
    ///
    /// ```
    /// use tollgate::dynamic::DynamicGcra;
    /// use tollgate::shared::Shared;
    /// use tollgate::{Direct, Quota};
    ///
    /// let upstream = Direct::builder(Quota::per_second(500)).algorithm(DynamicGcra::new());
    /// let upstream = upstream.build_shared(&Shared::anonymous())?;
    /// assert!(upstream.check().is_ok());
    /// # Ok::<(), tollgate::shared::SharedError>(())
    /// ```
    pub fn build_shared(
        self,
        shared: &Shared,
    ) -> Result<Direct<DynamicGcra, MonotonicClock>, SharedError> {
        build_bucket::<DynamicGcra, Changing>(&self, shared)
    }
}
