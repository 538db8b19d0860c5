//! Strikes, for denials and for failures that callers report.

use core::hash::Hash;

use super::{Ban, Penalties, PenaltyDenied};
use crate::algo::Algorithm;
use crate::decision::Denied;
use crate::limiter::ask::Ask;
use crate::time::{Clock, Tick};

impl<K: Hash + ?Sized, A: Algorithm, C: Clock> Penalties<K, A, C> {
    /// Counts a denial of the limiter as a strike.
    #[cold]
    #[inline(never)]
    pub(super) fn count_denial(&self, key: &K, denied: Denied, now: Tick) -> PenaltyDenied {
        if self.failures_only {
            return PenaltyDenied::Limited(denied);
        }
        match self.add_strike(key, now) {
            None => PenaltyDenied::Limited(denied),
            Some(ban) if ban.begins => PenaltyDenied::Banned(ban),
            Some(ban) => self.deny_banned(key, ban.ends_in, now),
        }
    }

    /// Counts a strike. Returns `None` if the key is not banned after it.
    fn add_strike(&self, key: &K, now: Tick) -> Option<Ban> {
        let is_last = match self.strikes.ask(key).at(now).check() {
            Ok(permit) => permit.remaining() == 0,
            // Another thread had the last strike, or the strikes' table has no slot for the key.
            Err(_) => self.strikes.ask(key).at(now).peek().is_err(),
        };
        if !is_last {
            // Another thread may have banned the key meanwhile. A strike that comes after its
            // strikes were forgotten must not open a new period.
            let ends_in = self.ban_ends_in(key, now)?;
            self.strikes.reset(key);
            return Some(Ban { ends_in, begins: false });
        }
        let begins = self.bans.ask(key).at(now).check().is_ok();
        if begins {
            self.strikes.reset(key);
        }
        // `None`: the key found no slot, or was pardoned already.
        let ends_in = self.ban_ends_in(key, now)?;
        if begins {
            self.tally.count(true);
        }
        Some(Ban { ends_in, begins })
    }

    /// Counts a failure of `key` that is not a denial, such as a wrong password, as a strike now:
    /// see [`Ask::strike`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::penalty::Penalties;
    /// use tollgate::{Limiter, Quota};
    ///
    /// // Ten tries a second. Three wrong passwords within a minute: banned for ten minutes.
    /// let gate: Limiter<str> = Limiter::builder(Quota::per_second(10)).build()?;
    /// let gate = Penalties::builder(gate, Quota::per_minute(3), Duration::from_secs(600))
    ///     .failures_only()
    ///     .build()?;
    ///
    /// for password in ["swordfish", "123456", "letmein"] {
    ///     assert!(gate.check("ada").is_ok());
    ///     let is_wrong = password != "correct horse";
    ///     let ban = is_wrong.then(|| gate.strike("ada")).flatten();
    ///     assert_eq!(ban.is_some(), password == "letmein");
    /// }
    /// assert!(gate.check("ada").is_err());
    /// assert!(gate.check("bob").is_ok());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn strike(&self, key: &K) -> Option<Ban> {
        self.ask(key).strike()
    }
}

impl<K: Hash + ?Sized, A: Algorithm, C: Clock> Ask<'_, '_, Penalties<K, A, C>> {
    /// Counts a failure of the key as a strike, like a denial. Returns the ban that it begins, or the
    /// ban that already holds. A banned key gets no strike, and its ban is not prolonged.
    ///
    /// **Not guaranteed.** Concurrent attempts are all admitted before the first of them fails:
    /// only the limiter bounds their number.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::penalty::Penalties;
    /// # use tollgate::{Limiter, Quota, Tick};
    /// # let gate: Limiter<u64> = Limiter::builder(Quota::per_hour(9)).build()?;
    /// # let gate = Penalties::builder(gate, Quota::per_hour(2), Duration::from_secs(60)).build()?;
    /// let ask_at = |seconds| gate.ask(&7).at(Tick::from_duration(Duration::from_secs(seconds)));
    /// assert!(ask_at(0).strike().is_none());
    /// assert!(ask_at(1).strike().is_some_and(|ban| ban.begins()));
    /// assert!(ask_at(2).strike().is_some_and(|ban| !ban.begins()));
    /// assert_eq!(ask_at(2).banned(), Some(Duration::from_secs(59)));
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn strike(self) -> Option<Ban> {
        let (gate, key, now) = (self.gate, self.key, self.now());
        match gate.ban_ends_in(key, now) {
            Some(ends_in) => Some(Ban { ends_in, begins: false }),
            None => gate.add_strike(key, now),
        }
    }
}
