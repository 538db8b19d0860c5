//! The quota in force: where it is kept, and how it is replaced.
//!
//! # Guarded by
//!
//! `loom-tests/tests/dynamic_quota.rs`, run by `ci/check.sh loom`, with a model of a torn quota.

use core::time::Duration;

#[cfg(feature = "shared-memory")]
use super::shared::SharedQuota;
use crate::algo::dynamic_gcra::{GCRA_EPOCH_WORDS, GcraEpoch, Inherit};
use crate::quota::{Quota, QuotaError};
use crate::sync::VersionedCell;
use crate::time::Tick;

/// Words of the published quota: the parameters, and the quota's limit and period in nanoseconds.
const WORDS: usize = GCRA_EPOCH_WORDS + 2;

/// A quota that changes.
#[derive(Debug)]
pub(super) enum QuotaInForce {
    /// In the process.
    Own(VersionedCell<WORDS>),
    /// In a block that other processes map.
    #[cfg(feature = "shared-memory")]
    Shared(SharedQuota),
}

/// A change of a quota.
#[derive(Clone, Copy)]
pub(super) struct Change<'a> {
    pub(super) quota: &'a Quota,
    pub(super) inherit: Inherit,
    pub(super) now: Tick,
}

impl QuotaInForce {
    pub(super) fn new(first: GcraEpoch, quota: &Quota) -> Self {
        Self::Own(VersionedCell::new(&to_words(first, quota)))
    }

    #[inline(always)]
    pub(super) fn read(&self) -> GcraEpoch {
        match self {
            Self::Own(versions) => from_words(&versions.read()),
            #[cfg(feature = "shared-memory")]
            Self::Shared(shared) => shared.read(),
        }
    }

    pub(super) fn quota(&self) -> Quota {
        match self {
            Self::Own(versions) => {
                let words = versions.read();
                let [.., limit, period] = words;
                Quota::new(limit, Duration::from_nanos(period)).burst(from_words(&words).burst())
            }
            #[cfg(feature = "shared-memory")]
            Self::Shared(shared) => shared.quota(),
        }
    }

    /// Replaces the quota. If, after many changes, old states could be taken for live ones, `renew` first
    /// renews all idle states.
    pub(super) fn change(
        &self,
        change: Change<'_>,
        renew: impl FnOnce(&GcraEpoch),
    ) -> Result<(), QuotaError> {
        match self {
            Self::Own(versions) => {
                let renewed = change.prepare(self.read(), renew)?;
                let changed = versions.replace(|words| {
                    let next = change.after(from_words(words), renewed)?;
                    Ok(to_words(next, change.quota))
                });
                changed.unwrap_or(Err(QuotaError::ChangeUnderWay))
            }
            #[cfg(feature = "shared-memory")]
            Self::Shared(shared) => shared.change(change, renew),
        }
    }
}

impl Change<'_> {
    /// Checks the change, and renews the states if that is due. Returns the quota by which they were renewed.
    pub(super) fn prepare(
        self,
        before: GcraEpoch,
        renew: impl FnOnce(&GcraEpoch),
    ) -> Result<Option<GcraEpoch>, QuotaError> {
        let is_worn = before.change(self.quota, self.inherit, self.now)?.is_worn();
        if is_worn {
            renew(&before);
        }
        Ok(is_worn.then_some(before))
    }

    /// The parameters after the change. `renewed` is the quota by which states were renewed before it.
    pub(super) fn after(
        self,
        current: GcraEpoch,
        renewed: Option<GcraEpoch>,
    ) -> Result<GcraEpoch, QuotaError> {
        let current = match renewed {
            Some(before) => current.renewed_by(&before),
            None => current,
        };
        current.change(self.quota, self.inherit, self.now)
    }
}

fn to_words(params: GcraEpoch, quota: &Quota) -> [u64; WORDS] {
    let mut words = [0; WORDS];
    words[..GCRA_EPOCH_WORDS].copy_from_slice(&params.to_words());
    words[GCRA_EPOCH_WORDS..].copy_from_slice(&[quota.limit(), quota.period_nanos()]);
    words
}

fn from_words(words: &[u64; WORDS]) -> GcraEpoch {
    GcraEpoch::from_words(words.first_chunk().expect("they come first"))
}
