//! The limiters of a set of rules, and how they decide a request together.
//!
//! `decide.rs` finds the rules that apply to a request and their keys; `charge.rs` charges their
//! limits.

mod charge;
mod decide;
mod index;
mod stats;

use std::sync::Arc;

use tollgate::Clock;
use tollgate::clock::QuantaClock;

use crate::active_rule::ActiveRule;
use crate::error::{RuleWarning, RulesBuildError};
use crate::matcher::Needs;
use crate::reload::{self, ReloadSummary};
use crate::rule::{Apply, Rule, Rules};
use crate::shared::Home;
use index::RuleIndex;
pub use stats::{InFlightStats, LimitStats, RuleStats};

/// A set of rules with a limiter for each limit.
///
/// Threads share it by reference or in an `Arc`. [`LiveRules`](crate::LiveRules) holds one that can
/// be replaced while threads decide requests.
///
/// **Guarantee.** A request is charged to every limit of every rule that applies to it, or to none.
/// Each limit keeps the guarantees of its [`Limiter`](tollgate::Limiter), over all threads. A
/// decision takes no lock. It allocates nothing unless a path or a host has more than 16 segments, the keys
/// have more than 256 bytes, more than 8 rules or limits apply, a rule in shadow would deny, or a rule applies that
/// has `concurrency`, `bytes`, a `store`, or a `cost` that the response settles.
///
/// **Cost.** An index finds the rules that may match by the path's first segments, the client's network
/// and the method. Each of these is tried, in the order of the file. A rule that is tried and does not match
/// costs some nanoseconds, and a limit that is checked some tens: see `docs/rules.md`.
///
/// **Not guaranteed.**
///
/// - If several limits apply, a decision peeks at all of them before it charges the first. If
///   another thread takes the last cell of one in between, the limits charged so far refund the
///   request. Until then they may deny one request too many. Only `gcra`, `fixed-window` and
///   `fixed-window-aligned` can refund; limits of other algorithms are charged last. If two of those
///   apply, the charge of the first stays. No limit ever admits more than its quota.
/// - A request in flight is counted until [`Held`](crate::Held) is dropped: the caller takes it from the
///   decision and keeps it until the response has ended.
/// - A key that finds no slot in a full table is noticed when it is charged, not at the peek. Such
///   a denial may not name the limit that denies for the longest time.
/// - Rules with a [store](crate::Store) are matched but not decided here: see
///   [`RulesDecision::deferred`](crate::RulesDecision::deferred).
///
/// ```
/// use tollgate_rules::{RulesLimiter, Request, Rules};
///
/// let text = r#"rule = [{ name = "a", key = "none", limits = "1/min" }]"#;
/// let gate = RulesLimiter::new(Rules::parse("rules.toml", text)?)?;
/// assert!(gate.decide(&Request::default()).is_admitted());
/// assert!(!gate.decide(&Request::default()).is_admitted());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct RulesLimiter<C: Clock = QuantaClock> {
    apply: Apply,
    needs: Needs,
    active: Vec<ActiveRule<C>>,
    home: Home<C>,
    /// Whether rules that say so share their limits with other processes.
    may_share: bool,
    warnings: Vec<RuleWarning>,
    index: RuleIndex,
}

impl RulesLimiter {
    /// How many requests of a key the proxy lets wait in a queue, and so does a replay that tells what the proxy
    /// would decide: see [`decide_queued`](Self::decide_queued).
    ///
    /// ```
    /// # use tollgate_rules::RulesLimiter;
    /// assert_eq!(RulesLimiter::MAX_WAITING_PER_KEY, 128);
    /// ```
    pub const MAX_WAITING_PER_KEY: u64 = 128;

    /// Builds a limiter for every limit. Rules that say [`shared`](Rules::shared) share them with other processes.
    ///
    /// # Errors
    ///
    /// The system has no memory for one of them, or it cannot be shared.
    ///
    /// ```
    /// # use tollgate_rules::{RulesLimiter, Rules};
    /// let text = r#"rule = [{ name = "a", capacity = 1000, limits = "1/min" }]"#;
    /// let gate = RulesLimiter::new(Rules::parse("rules.toml", text)?)?;
    /// assert!(gate.memory_bytes() <= 128 << 10);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(rules: Rules) -> Result<Self, RulesBuildError> {
        let home = Home::of(rules.shared.as_ref(), Arc::new(QuantaClock::new()))?;
        Self::build(rules, None, home, true).map(|(limiter, _)| limiter)
    }
}

impl<C: Clock> RulesLimiter<C> {
    /// [`new`](RulesLimiter::new) with another clock. All limits are in this process, since others have another
    /// clock.
    ///
    /// # Errors
    ///
    /// The system has no memory for one of the limiters.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::time::Duration;
    /// use tollgate::ManualClock;
    /// use tollgate_rules::{RulesLimiter, Request, Rules};
    ///
    /// let clock = Arc::new(ManualClock::new());
    /// let text = r#"rule = [{ name = "a", key = "none", limits = "1/min" }]"#;
    /// let gate = RulesLimiter::with_clock(Rules::parse("rules.toml", text)?, Arc::clone(&clock))?;
    /// assert!(gate.decide(&Request::default()).is_admitted());
    /// clock.advance(Duration::from_secs(60));
    /// assert!(gate.decide(&Request::default()).is_admitted());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_clock(rules: Rules, clock: Arc<C>) -> Result<Self, RulesBuildError> {
        let home = Home::own(clock, None);
        Self::build(rules, None, home, false).map(|(limiter, _)| limiter)
    }

    /// [`with_clock`](Self::with_clock) with a fixed seed for the hashes of keys: with the same requests at the same
    /// times, each run makes the same decisions, also where a table is full.
    ///
    /// It is for replays and tests only: an attacker who knows the seed can choose keys that collide.
    ///
    /// # Errors
    ///
    /// The system has no memory for one of the limiters.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::ManualClock;
    /// use tollgate_rules::{RulesLimiter, Request, Rules};
    ///
    /// let text = r#"rule = [{ name = "a", capacity = 1, limits = "1/min", on_full = "deny" }]"#;
    /// let rules = Rules::parse("rules.toml", text)?;
    /// let admitted = || {
    ///     let clock = Arc::new(ManualClock::new());
    ///     let gate = RulesLimiter::repeatable(rules.clone(), clock, 7).expect("memory");
    ///     let admits = |host| {
    ///         let peer = Some([192, 0, 2, host].into());
    ///         gate.decide(&Request { peer, ..Request::default() }).is_admitted()
    ///     };
    ///     (0..=255).map(admits).collect::<Vec<_>>()
    /// };
    /// assert_eq!(admitted(), admitted());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn repeatable(
        rules: Rules,
        clock: Arc<C>,
        hash_seed: u64,
    ) -> Result<Self, RulesBuildError> {
        let home = Home::own(clock, Some(hash_seed));
        Self::build(rules, None, home, false).map(|(limiter, _)| limiter)
    }

    /// The limiter of other rules, which continues the limits of this one that count the same. On an error, this one
    /// is unchanged.
    pub(crate) fn successor(&self, rules: Rules) -> Result<(Self, ReloadSummary), RulesBuildError> {
        let clock = self.home.clock.as_given();
        let home = match self.may_share {
            true => Home::of(rules.shared.as_ref(), clock)?,
            false => Home::own(clock, self.home.hash_seed),
        };
        Self::build(rules, Some(self), home, self.may_share)
    }

    fn build(
        rules: Rules,
        old: Option<&Self>,
        home: Home<C>,
        may_share: bool,
    ) -> Result<(Self, ReloadSummary), RulesBuildError> {
        let Rules { apply, rules, warnings, .. } = rules;
        let old_active = old.map(|old| &*old.active).unwrap_or_default();
        let has_moved = old.is_some_and(|old| old.home.name() != home.name());
        let (active, summary) = reload::activate_all(rules, old_active, &home, has_moved)?;
        let needs = active.iter().fold(Needs::default(), |needs, its| needs.and(&its.rule.matcher));
        let index = RuleIndex::new(active.iter().map(|its| &its.rule.matcher));
        Ok((Self { apply, needs, active, home, may_share, warnings, index }, summary))
    }

    /// The warnings about the rules: see [`Rules::warnings`].
    pub fn warnings(&self) -> &[RuleWarning] {
        &self.warnings
    }

    /// The rules, in the order of the file.
    ///
    /// ```
    /// # use tollgate_rules::{RulesLimiter, Rules};
    /// let text = r#"rule = [{ name = "a", limits = "1/min" }]"#;
    /// let gate = RulesLimiter::new(Rules::parse("rules.toml", text)?)?;
    /// assert!(gate.rules().map(|rule| rule.name()).eq(["a"]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.active.iter().map(|active| &active.rule)
    }

    /// The memory of all tables in bytes. It is reserved at once and becomes resident as keys arrive.
    ///
    /// ```
    /// # use tollgate_rules::{RulesLimiter, Rules};
    /// let text = r#"rule = [{ name = "a", key = "none", limits = "1/min" }]"#;
    /// let gate = RulesLimiter::new(Rules::parse("rules.toml", text)?)?;
    /// assert!(gate.memory_bytes() <= 512); // one bucket for all
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn memory_bytes(&self) -> usize {
        self.active.iter().map(ActiveRule::memory_bytes).sum()
    }

    /// The memory of each rule's tables in bytes, in the order of the file.
    ///
    /// ```
    /// # use tollgate_rules::{RulesLimiter, Rules};
    /// let text = r#"rule = [{ name = "a", limits = "1/min" }]"#;
    /// let gate = RulesLimiter::new(Rules::parse("rules.toml", text)?)?;
    /// assert!(gate.memory_by_rule().eq([gate.memory_bytes()]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn memory_by_rule(&self) -> impl Iterator<Item = usize> {
        self.active.iter().map(ActiveRule::memory_bytes)
    }
}
