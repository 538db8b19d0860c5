//! Rules that are replaced while threads decide requests.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use tollgate::Clock;
use tollgate::clock::QuantaClock;

use crate::limiter::RulesLimiter;

/// The rules in force. Any thread decides requests by them, without a lock.
///
/// [`RulesFile::live`](crate::RulesFile::live) returns it.
///
/// ```
/// use tollgate_rules::{Request, RulesFile};
///
/// let path = std::env::temp_dir().join("tollgate-rules-live.toml");
/// std::fs::write(&path, r#"rule = [{ name = "a", limits = "1/min" }]"#)?;
/// let rules = RulesFile::open(&path)?.live();
/// assert!(rules.load().decide(&Request::default()).is_admitted());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct LiveRules<C: Clock = QuantaClock> {
    gate: ArcSwap<RulesLimiter<C>>,
    reloads: AtomicU64,
    failures: AtomicU64,
}

impl<C: Clock> LiveRules<C> {
    pub(crate) fn new(gate: RulesLimiter<C>) -> Self {
        let gate = ArcSwap::from_pointee(gate);
        Self { gate, reloads: AtomicU64::new(0), failures: AtomicU64::new(0) }
    }

    pub(crate) fn replace(&self, gate: RulesLimiter<C>) {
        self.gate.store(Arc::new(gate));
        self.reloads.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_failure(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
    }

    /// The rules that are in force now. Take them for one request: a guard that is kept over a reload
    /// keeps the memory of the old rules.
    ///
    /// ```
    /// # use tollgate_rules::{Request, RulesFile};
    /// # let path = std::env::temp_dir().join("tollgate-rules-load.toml");
    /// # std::fs::write(&path, r#"rule = [{ name = "a", limits = "1/min" }]"#)?;
    /// # let live = RulesFile::open(&path)?.live();
    /// let rules = live.load();
    /// let decision = rules.decide(&Request::default());
    /// assert!(decision.is_admitted());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn load(&self) -> RulesGuard<C> {
        RulesGuard { gate: self.gate.load() }
    }

    /// How often the rules were replaced.
    ///
    /// ```
    /// # use tollgate_rules::RulesFile;
    /// # let path = std::env::temp_dir().join("tollgate-rules-reloads.toml");
    /// # std::fs::write(&path, r#"rule = [{ name = "a", limits = "1/min" }]"#)?;
    /// let mut file = RulesFile::open(&path)?;
    /// file.reload()?;
    /// assert_eq!(file.live().reloads(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reloads(&self) -> u64 {
        self.reloads.load(Ordering::Relaxed)
    }

    /// How often a changed file was not put in force, because of an error. A file that is tried again
    /// counts once for each attempt.
    ///
    /// ```
    /// # use tollgate_rules::RulesFile;
    /// # let path = std::env::temp_dir().join("tollgate-rules-failures.toml");
    /// # std::fs::write(&path, r#"rule = [{ name = "a", limits = "1/min" }]"#)?;
    /// let mut file = RulesFile::open(&path)?;
    /// std::fs::write(&path, "rule = 7")?;
    /// assert!(file.poll().is_err());
    /// assert_eq!(file.live().failures(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }
}

/// The rules that were in force when [`LiveRules::load`] was called.
///
/// ```
/// # use tollgate_rules::RulesFile;
/// # let path = std::env::temp_dir().join("tollgate-rules-loaded.toml");
/// # std::fs::write(&path, r#"rule = [{ name = "a", limits = "1/min" }]"#)?;
/// let live = RulesFile::open(&path)?.live();
/// assert_eq!(live.load().rules().count(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct RulesGuard<C: Clock = QuantaClock> {
    gate: arc_swap::Guard<Arc<RulesLimiter<C>>>,
}

impl<C: Clock> Deref for RulesGuard<C> {
    type Target = RulesLimiter<C>;

    fn deref(&self) -> &RulesLimiter<C> {
        &self.gate
    }
}

impl<C: Clock + std::fmt::Debug> std::fmt::Debug for RulesGuard<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (**self).fmt(f)
    }
}
