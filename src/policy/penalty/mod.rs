//! Bans for keys that are denied again and again.
//!
//! Two further limiters hold the state. One counts *strikes*, in a window that a key's first denial
//! opens. The other holds *bans*: a banned key has spent its only cell, and time restores it. So
//! looking up a ban writes nothing, a ban ends by itself, and its end is known. To prolong a ban is to
//! replace the state of a key that is banned still, so it never bans a key that was pardoned meanwhile.

mod answer;
mod builder;
mod strike;
#[cfg(all(test, not(tollgate_loom)))]
mod tests;

use core::fmt;
use core::hash::Hash;
use core::time::Duration;

pub use answer::{Ban, PenaltyDenied, PenaltyStats};
pub use builder::PenaltiesBuilder;

use crate::algo::fixed_window::FixedWindow;
use crate::algo::gcra::Gcra;
use crate::algo::{Algorithm, Liveness, StateMachine, Step};
use crate::decision::Permit;
use crate::limiter::Limiter;
use crate::limiter::ask::{Ask, sealed::Askable};
use crate::quota::Quota;
use crate::table::Tally;
use crate::time::quanta_clock::QuantaClock;
use crate::time::{Clock, Tick};

/// A limiter that bans a key for a while when the key was denied too often.
///
/// Each denial is a strike, and so is each failure that the caller [reports](Self::strike), such as
/// a wrong password. The first strike opens a period. With the last of the allowed strikes in that
/// period the key is banned, and its strikes are forgotten. Every request of a banned key is denied
/// without asking the limiter, and the denial says when the ban ends.
///
/// **Guarantee.** No key is banned before its last strike. With that strike it is banned at once,
/// for all threads. A banned key is denied until its ban ends. Memory is bounded, nothing is
/// allocated after the build, and no lock is taken.
///
/// **Not guaranteed.**
///
/// - A request that is being decided when the ban begins may still be admitted.
/// - Strikes are counted in periods that the first strike opens. Around the end of a period a key
///   may be denied up to twice the allowed number, less two, without a ban.
/// - If more keys have strikes, or bans, than the [capacity](PenaltiesBuilder::capacity), the key
///   with the fewest strikes is evicted, or the one whose ban ends first. So a flood of banned keys
///   ends some bans early.
/// - Every denial is a strike, whatever its reason, unless only [reported
///   failures](PenaltiesBuilder::failures_only) are. If the limiter [denies keys](crate::OnFull::Deny)
///   that find no slot, or has them share an overflow bucket, those keys get strikes for it: choose
///   another policy.
/// - Like all keys, two that coincide (see [`Limiter`]) share their strikes and bans.
///
/// A request of a key that is not banned pays for one lookup, in a table that is read and not
/// written. The penalties take 8 KB of memory, and about 58 bytes for each key of the capacity, in
/// addition to the limiter.
///
/// ```
/// use std::time::Duration;
/// use tollgate::penalty::{Penalties, PenaltyDenied};
/// use tollgate::{Limiter, Quota};
///
/// let gate: Limiter<str> = Limiter::builder(Quota::per_second(10)).build()?;
/// // Denied three times within a minute: banned for ten.
/// let gate = Penalties::builder(gate, Quota::per_minute(3), Duration::from_secs(600)).build()?;
///
/// for _ in 0..10 {
///     assert!(gate.check("somebody").is_ok());
/// }
/// assert!(matches!(gate.check("somebody"), Err(PenaltyDenied::Limited(_))));
/// assert!(matches!(gate.check("somebody"), Err(PenaltyDenied::Limited(_))));
/// match gate.check("somebody") {
///     Err(PenaltyDenied::Banned(ban)) => assert!(ban.begins() && ban.ends_in().as_secs() >= 599),
///     other => panic!("{other:?}"),
/// }
/// assert_eq!(gate.stats().banned_now, 1);
/// gate.pardon("somebody");
/// assert_eq!(gate.stats().banned_now, 0);
/// # Ok::<(), tollgate::BuildError>(())
/// ```
pub struct Penalties<K: ?Sized, A: Algorithm = Gcra, C = QuantaClock> {
    limiter: Limiter<K, A, C>,
    strikes: Limiter<K, FixedWindow, NeverRead>,
    bans: Limiter<K, Gcra, NeverRead>,
    prolonged: bool,
    failures_only: bool,
    /// Bans that began (admitted), and requests denied because of a ban (denied).
    tally: Tally,
}

/// The clock of the strikes and the bans, which is never read: every call passes the time of the
/// limiter's clock.
#[derive(Debug)]
struct NeverRead;

impl Clock for NeverRead {
    fn now(&self) -> Tick {
        Tick::ZERO
    }
}

impl<K: Hash + ?Sized, A: Algorithm, C: Clock> Penalties<K, A, C> {
    /// Starts a limiter that bans a key for the time `ban` once the key has as many strikes as
    /// `strikes` allows: with [`Quota::per_minute(3)`](Quota::per_minute), at the third denial
    /// within a minute.
    ///
    /// ```
    /// use std::time::Duration;
    /// # use tollgate::penalty::Penalties;
    /// # use tollgate::{Limiter, Quota};
    /// let gate: Limiter<u64> = Limiter::builder(Quota::per_hour(1)).build()?;
    /// let gate = Penalties::builder(gate, Quota::per_hour(1), Duration::from_secs(60)).build()?;
    /// assert!(gate.check(&7).is_ok());
    /// assert!(gate.check(&7).is_err());
    /// assert!(gate.banned(&7).is_some());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn builder(
        limiter: Limiter<K, A, C>,
        strikes: Quota,
        ban: Duration,
    ) -> PenaltiesBuilder<K, A, C> {
        PenaltiesBuilder::new(limiter, strikes, ban)
    }

    /// Begins a request for `key`: one cell, now, unless the [`Ask`] says otherwise.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::penalty::Penalties;
    /// # use tollgate::{Limiter, Quota, Tick};
    /// # let gate: Limiter<u64> = Limiter::builder(Quota::per_second(1)).build()?;
    /// # let gate = Penalties::builder(gate, Quota::per_hour(1), Duration::from_secs(60)).build()?;
    /// let ask_at = |seconds| gate.ask(&7).at(Tick::from_duration(Duration::from_secs(seconds)));
    /// assert!(ask_at(0).check().is_ok());
    /// assert!(ask_at(0).check().is_err()); // a strike, and the key is banned
    /// let denied = ask_at(20).check().unwrap_err();
    /// assert_eq!(denied.retry_after(), Some(Duration::from_secs(40)));
    /// assert_eq!(denied.to_string(), "banned for another 40s");
    /// assert!(ask_at(60).check().is_ok());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn ask<'g, 'k>(&'g self, key: &'k K) -> Ask<'g, 'k, Self> {
        Ask::new(self, key)
    }

    /// Asks for one cell for `key`, now.
    ///
    /// # Errors
    ///
    /// The denial: by the limiter, or by a ban.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::penalty::Penalties;
    /// # use tollgate::{Limiter, Quota};
    /// # let gate: Limiter<u64> = Limiter::builder(Quota::per_hour(1)).build()?;
    /// # let gate = Penalties::builder(gate, Quota::per_hour(2), Duration::from_secs(60)).build()?;
    /// assert!(gate.check(&7).is_ok());
    /// assert!(gate.check(&7).is_err());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn check(&self, key: &K) -> Result<Permit, PenaltyDenied> {
        self.ask(key).check()
    }

    /// Asks for `n` cells for `key`, now.
    ///
    /// # Errors
    ///
    /// The denial: by the limiter, or by a ban.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::penalty::Penalties;
    /// # use tollgate::{Limiter, Quota};
    /// # let gate: Limiter<u64> = Limiter::builder(Quota::per_hour(9)).build()?;
    /// # let gate = Penalties::builder(gate, Quota::per_hour(2), Duration::from_secs(60)).build()?;
    /// assert!(gate.check_n(&7, 9).is_ok());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn check_n(&self, key: &K, n: u64) -> Result<Permit, PenaltyDenied> {
        self.ask(key).cells(n).check()
    }

    #[cold]
    #[inline(never)]
    fn deny_banned(&self, key: &K, mut ends_in: Duration, now: Tick) -> PenaltyDenied {
        if self.prolonged {
            self.restart_ban(key, now);
            ends_in = self.ban_ends_in(key, now).unwrap_or(ends_in);
        }
        self.tally.count(false);
        PenaltyDenied::Banned(Ban { ends_in, begins: false })
    }

    /// Makes the ban of a key begin now. A key whose ban has ended, or that was pardoned, is not banned.
    fn restart_ban(&self, key: &K, now: Tick) {
        let algo = self.bans.params();
        let begun = match algo.step(algo.fresh(now), now, 1) {
            Step::Admit { next } => next,
            Step::Deny | Step::DenyCounted { .. } => {
                unreachable!("a bucket that is full has a cell")
            }
        };
        let left = |state| match algo.liveness(state, algo.instant(now)) {
            Liveness::Live { debt } => debt,
            Liveness::Idle { .. } => 0,
        };
        // A clock that is behind shortens no ban.
        let is_shorter = |state| (1..left(begun)).contains(&left(state));
        let next = |state| if is_shorter(state) { begun } else { state };
        self.bans.table().revise(self.bans.probe(key), next);
    }

    /// How long `key` is still banned; `None` if it is not.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::penalty::Penalties;
    /// # use tollgate::{Limiter, Quota};
    /// # let gate: Limiter<u64> = Limiter::builder(Quota::per_hour(9)).build()?;
    /// # let gate = Penalties::builder(gate, Quota::per_hour(2), Duration::from_secs(60)).build()?;
    /// assert_eq!(gate.banned(&7), None);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn banned(&self, key: &K) -> Option<Duration> {
        self.ask(key).banned()
    }

    fn ban_ends_in(&self, key: &K, now: Tick) -> Option<Duration> {
        let seen = self.bans.ask(key).cells(0).at(now).peek().ok()?;
        (seen.remaining() == 0).then(|| seen.reset_after())
    }

    /// Ends the ban of `key` and forgets its strikes. Cells that the limiter charged stay charged.
    ///
    /// A request that is being denied meanwhile does not prolong the ban that ends. If that denial is
    /// the key's last strike, it may begin a new one.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::penalty::Penalties;
    /// # use tollgate::{Limiter, Quota};
    /// # let gate: Limiter<u64> = Limiter::builder(Quota::per_hour(9)).build()?;
    /// # let gate = Penalties::builder(gate, Quota::per_hour(1), Duration::from_secs(60)).build()?;
    /// assert!(gate.check_n(&7, 10).is_err());
    /// gate.pardon(&7);
    /// assert!(gate.check_n(&7, 9).is_ok());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn pardon(&self, key: &K) {
        self.strikes.reset(key);
        self.bans.reset(key);
    }

    /// Counters of bans, now. To count the banned keys it reads the whole table of bans, which
    /// takes about a millisecond for each 100,000 keys of the capacity.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::penalty::Penalties;
    /// # use tollgate::{Limiter, Quota};
    /// # let gate: Limiter<u64> = Limiter::builder(Quota::per_hour(9)).build()?;
    /// # let gate = Penalties::builder(gate, Quota::per_hour(1), Duration::from_secs(60)).build()?;
    /// for _ in 0..5 {
    ///     assert!(gate.check_n(&7, 10).is_err());
    /// }
    /// let stats = gate.stats();
    /// assert_eq!((stats.bans, stats.denied_banned, stats.banned_now), (1, 4, 1));
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn stats(&self) -> PenaltyStats {
        self.stats_at(self.limiter.clock().now())
    }

    /// Like [`stats`](Self::stats), at the instant `now`.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::penalty::Penalties;
    /// # use tollgate::{Limiter, Quota, Tick};
    /// # let gate: Limiter<u64> = Limiter::builder(Quota::per_hour(9)).build()?;
    /// # let gate = Penalties::builder(gate, Quota::per_hour(1), Duration::from_secs(60)).build()?;
    /// assert!(gate.ask(&7).cells(10).at(Tick::ZERO).check().is_err());
    /// assert_eq!(gate.stats_at(Tick::from_duration(Duration::from_secs(60))).banned_now, 0);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn stats_at(&self, now: Tick) -> PenaltyStats {
        PenaltyStats {
            bans: self.tally.total(true),
            denied_banned: self.tally.total(false),
            banned_now: self.bans.table().estimate_live(self.bans.params(), now, u32::MAX),
            forgotten: self.bans.stats().evicted,
        }
    }

    /// The limiter behind the penalties.
    pub fn limiter(&self) -> &Limiter<K, A, C> {
        &self.limiter
    }
}

impl<K: ?Sized, A: Algorithm, C> Askable for Penalties<K, A, C> {
    type Key = K;
    type Params = ();
    type Time = Option<Tick>;
}

impl<K: Hash + ?Sized, A: Algorithm, C: Clock> Ask<'_, '_, Penalties<K, A, C>> {
    /// Accepts no [delay](Permit::delay) longer than `max_delay`, as a request to a [`Limiter`] does. A denial because
    /// the turn comes later is a denial like others.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::penalty::{Penalties, PenaltyDenied};
    /// use tollgate::{LeakyQueue, Limiter, Quota, Tick};
    ///
    /// let quota = Quota::per_second(10).burst(5);
    /// let gate: Limiter<str, LeakyQueue> =
    ///     Limiter::builder(quota).algorithm(LeakyQueue::new()).build()?;
    /// let gate = Penalties::builder(gate, Quota::per_hour(2), Duration::from_secs(60)).build()?;
    /// let ask = || gate.ask("a").at(Tick::ZERO).max_delay(Duration::from_millis(150)).check();
    /// assert_eq!(ask().unwrap().delay(), Duration::ZERO);
    /// assert_eq!(ask().unwrap().delay(), Duration::from_millis(100));
    /// // The third turn is in 200 ms.
    /// assert_eq!(ask().unwrap_err().retry_after(), Some(Duration::from_millis(50)));
    /// assert!(matches!(ask(), Err(PenaltyDenied::Banned(_))));
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn max_delay(self, max_delay: Duration) -> Self {
        Self { max_delay: Some(max_delay), ..self }
    }

    /// Charges the cells if the key is not banned and they are there. A denial is a strike, unless
    /// [only failures](PenaltiesBuilder::failures_only) are.
    ///
    /// # Errors
    ///
    /// The denial: by the limiter, or because the key is banned.
    pub fn check(self) -> Result<Permit, PenaltyDenied> {
        let (gate, key, now) = (self.gate, self.key, self.now());
        if let Some(ends_in) = gate.ban_ends_in(key, now) {
            return Err(gate.deny_banned(key, ends_in, now));
        }
        let ask = gate.limiter.ask(key).cells(self.cells).at(now);
        let decision = Ask { max_delay: self.max_delay, ..ask }.check();
        decision.map_err(|denied| gate.count_denial(key, denied, now))
    }

    /// For how much longer the key is banned; `None` if it is not.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::penalty::Penalties;
    /// # use tollgate::{Limiter, Quota, Tick};
    /// # let gate: Limiter<u64> = Limiter::builder(Quota::per_hour(9)).build()?;
    /// # let gate = Penalties::builder(gate, Quota::per_hour(1), Duration::from_secs(60)).build()?;
    /// let ask = gate.ask(&7).at(Tick::ZERO);
    /// assert!(ask.cells(10).check().is_err());
    /// assert_eq!(ask.banned(), Some(Duration::from_secs(60)));
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn banned(self) -> Option<Duration> {
        self.gate.ban_ends_in(self.key, self.now())
    }

    /// The time given, or that of the limiter's clock.
    fn now(&self) -> Tick {
        self.gate.limiter.or_now(self.at)
    }
}

impl<K: ?Sized, A: Algorithm, C: fmt::Debug> fmt::Debug for Penalties<K, A, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Penalties")
            .field("limiter", &self.limiter)
            .field("strikes", &self.strikes)
            .field("bans", &self.bans)
            .finish_non_exhaustive()
    }
}
