//! The bans of a rule: `penalty` in a rules file.

use std::sync::Arc;

use tollgate::{BuildError, Clock, Denied, FixedWindow, Limiter, OnFull, Quota, Tick};

use crate::limit::Penalty;

/// The bans of a rule: a window of one cell that opens with the ban, and a window that counts the
/// denials before it.
#[derive(Debug)]
pub(crate) struct Ban<C: Clock> {
    banned: Limiter<[u8], FixedWindow, Arc<C>>,
    /// `None`: the first denial bans.
    strikes: Option<Limiter<[u8], FixedWindow, Arc<C>>>,
}

impl<C: Clock> Ban<C> {
    pub(crate) fn build(
        penalty: Penalty,
        capacity: u64,
        clock: &Arc<C>,
    ) -> Result<Self, BuildError> {
        let window = |cells, period| {
            Limiter::<[u8]>::builder(Quota::new(cells, period))
                .algorithm(FixedWindow::anchored())
                .clock(Arc::clone(clock))
                .capacity(capacity)
                .on_full(OnFull::EvictNearestIdle)
                .build()
        };
        let before = penalty.after - 1;
        Ok(Self {
            banned: window(1, penalty.ban)?,
            strikes: (before > 0).then(|| window(before, penalty.within)).transpose()?,
        })
    }

    /// The key's ban, if it is banned.
    pub(super) fn get(&self, key: &[u8], now: Tick) -> Option<Denied> {
        self.banned.ask(key).at(now).peek().err()
    }

    /// Counts a denial of the key, and begins a ban if there were enough.
    pub(super) fn strike(&self, key: &[u8], now: Tick) {
        let is_enough =
            self.strikes.as_ref().is_none_or(|strikes| strikes.ask(key).at(now).check().is_err());
        if is_enough {
            // If it fails, another thread has begun the ban.
            let _ = self.banned.ask(key).at(now).check();
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.banned.memory_bytes() + self.strikes.as_ref().map_or(0, Limiter::memory_bytes)
    }
}
