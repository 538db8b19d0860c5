//! The bans of a rule: `penalty` in a rules file.

use std::time::Duration;

use tollgate::{Clock, Denied, FixedWindow, Limiter, OnFull, Quota, Tick};

use crate::clock::RulesClock;
use crate::error::LimiterError;
use crate::rule::Penalty;
use crate::shared::{Place, build_at};

/// The bans of a rule, kept in two fixed windows for each key. One has a single cell, which a ban takes for its
/// length. The other counts the denials before the ban.
#[derive(Debug)]
pub(crate) struct Ban<C: Clock> {
    banned: Limiter<[u8], FixedWindow, RulesClock<C>>,
    /// `None`: the first denial bans.
    strikes: Option<Limiter<[u8], FixedWindow, RulesClock<C>>>,
}

impl<C: Clock> Ban<C> {
    /// `places` are those of the bans and of the denials before them.
    pub(crate) fn build(
        penalty: Penalty,
        capacity: u64,
        places: [&Place<'_, C>; 2],
    ) -> Result<Self, LimiterError> {
        let window = |cells, period, place: &Place<'_, C>| {
            let builder = Limiter::<[u8]>::builder(Quota::new(cells, period))
                .algorithm(FixedWindow::anchored())
                .capacity(capacity)
                .on_full(OnFull::EvictNearestIdle);
            build_at!(builder, place)
        };
        let before = penalty.after - 1;
        let strikes = (before > 0).then(|| window(before, penalty.within, places[1]));
        Ok(Self { banned: window(1, penalty.ban, places[0])?, strikes: strikes.transpose()? })
    }

    /// The key's ban, as the denial of its window; `None` if the key is not banned.
    pub(crate) fn get(&self, key: &[u8], now: Tick) -> Option<Denied> {
        self.banned.ask(key).at(now).peek().err()
    }

    /// Counts a denial of the key, and begins a ban if there were enough. Returns how long the key is banned from
    /// now; zero if it is not.
    pub(crate) fn strike(&self, key: &[u8], now: Tick) -> Duration {
        if let Some(strikes) = &self.strikes
            && strikes.ask(key).at(now).check().is_ok()
        {
            let Some(banned) = self.get(key, now) else { return Duration::ZERO };
            // Another thread has begun a ban and reset the denials: this one does not count towards the next ban.
            strikes.reset(key);
            return banned.reset_after();
        }
        match self.banned.ask(key).at(now).check() {
            Ok(begun) => {
                // The next ban takes as many denials as this one.
                if let Some(strikes) = &self.strikes {
                    strikes.reset(key);
                }
                begun.reset_after()
            }
            // Another thread has begun the ban.
            Err(denied) => denied.reset_after(),
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.banned.memory_bytes() + self.strikes.as_ref().map_or(0, Limiter::memory_bytes)
    }
}
