//! Rules that can be exchanged while requests are decided.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use tollgate::Clock;
use tollgate::clock::QuantaClock;

use crate::error::ReloadError;
use crate::gate::Gate;
use crate::inherit::{self, ReloadSummary};
use crate::rule::Rules;

/// A longer file is not read.
const BYTES_MAX: u64 = 1 << 20;

/// The rules in force: what requests are decided by, on any thread, without a lock.
///
/// Made by [`RulesFile::open`].
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
    gate: ArcSwap<Gate<C>>,
    reloads: AtomicU64,
    failures: AtomicU64,
}

impl<C: Clock> LiveRules<C> {
    /// The rules that are in force now, for one request: whoever keeps them longer keeps the old
    /// ones' memory.
    ///
    /// ```
    /// # use tollgate_rules::{Request, RulesFile};
    /// # let path = std::env::temp_dir().join("tollgate-rules-load.toml");
    /// # std::fs::write(&path, r#"rule = [{ name = "a", limits = "1/min" }]"#)?;
    /// # let live = RulesFile::open(&path)?.live();
    /// let rules = live.load();
    /// let verdict = rules.decide(&Request::default());
    /// assert!(verdict.is_admitted());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn load(&self) -> Loaded<C> {
        Loaded { gate: self.gate.load() }
    }

    /// How often the rules were exchanged.
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

    /// How often a file was not taken over, and the rules before it stayed in force.
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

/// The rules that were in force when they were loaded.
///
/// ```
/// # use tollgate_rules::RulesFile;
/// # let path = std::env::temp_dir().join("tollgate-rules-loaded.toml");
/// # std::fs::write(&path, r#"rule = [{ name = "a", limits = "1/min" }]"#)?;
/// let live = RulesFile::open(&path)?.live();
/// assert_eq!(live.load().rules().count(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Loaded<C: Clock = QuantaClock> {
    gate: arc_swap::Guard<Arc<Gate<C>>>,
}

impl<C: Clock> Deref for Loaded<C> {
    type Target = Gate<C>;

    fn deref(&self) -> &Gate<C> {
        &self.gate
    }
}

impl<C: Clock + std::fmt::Debug> std::fmt::Debug for Loaded<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (**self).fmt(f)
    }
}

/// A rules file, and what puts its changes in force.
///
/// It has one owner, who calls [`poll`](Self::poll) every second or so, and
/// [`reload`](Self::reload) on `SIGHUP`; neither is ever waited for by a decision. What a change
/// keeps is told by [`ReloadSummary`].
///
/// **Guarantee.** Rules are exchanged as a whole, and only for a file that is right to its end;
/// else those before stay in force, and [`LiveRules::failures`] counts one more. A request that is
/// being decided is decided by the rules it began with.
///
/// **Not guaranteed.** A file that is read while it is written may be right, and not what was
/// meant: write another, and rename it. (An empty file is an error, so the usual case, a file cut
/// off at its beginning, is harmless.)
///
/// ```
/// use tollgate_rules::{Request, RulesFile};
///
/// let path = std::env::temp_dir().join("tollgate-rules-file.toml");
/// std::fs::write(&path, r#"rule = [{ name = "a", key = "none", limits = "1/min" }]"#)?;
/// let mut file = RulesFile::open(&path)?;
/// let live = file.live();
/// assert!(live.load().decide(&Request::default()).is_admitted());
/// assert_eq!(file.poll()?, None); // no change
///
/// std::fs::write(&path, r#"rule = [{ name = "a", key = "none", limits = ["1/min", "9/h"] }]"#)?;
/// let carried = file.poll()?.expect("the file has changed");
/// assert_eq!((carried.kept, carried.new), (1, 1));
/// assert!(!live.load().decide(&Request::default()).is_admitted()); // 1/min is used up
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct RulesFile<C: Clock = QuantaClock> {
    path: PathBuf,
    /// What was read last, right or wrong; `None` where it could not be read.
    seen: Option<String>,
    live: Arc<LiveRules<C>>,
}

impl RulesFile {
    /// Reads a file and puts its rules in force.
    ///
    /// # Errors
    ///
    /// The file cannot be read; all that is wrong in it; or there is no memory for it.
    ///
    /// ```
    /// # use tollgate_rules::RulesFile;
    /// assert!(RulesFile::open("no/such/rules.toml").is_err());
    /// ```
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ReloadError> {
        Self::open_with_clock(path, Arc::new(QuantaClock::new()))
    }
}

impl<C: Clock> RulesFile<C> {
    /// As [`open`](RulesFile::open), with a clock of the caller's.
    ///
    /// # Errors
    ///
    /// The file cannot be read; all that is wrong in it; or there is no memory for it.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use tollgate_rules::RulesFile;
    /// let clock = Arc::new(tollgate::ManualClock::new());
    /// assert!(RulesFile::open_with_clock("no/such/rules.toml", clock).is_err());
    /// ```
    pub fn open_with_clock(path: impl AsRef<Path>, clock: Arc<C>) -> Result<Self, ReloadError> {
        let path = path.as_ref().to_owned();
        let text = read(&path)?;
        let rules = Rules::parse(&path.to_string_lossy(), &text)?;
        let live = LiveRules {
            gate: ArcSwap::from_pointee(Gate::with_clock(rules, clock)?),
            reloads: AtomicU64::new(0),
            failures: AtomicU64::new(0),
        };
        Ok(Self { path, seen: Some(text), live: Arc::new(live) })
    }

    /// The rules in force, now and after every change.
    ///
    /// ```
    /// # use tollgate_rules::RulesFile;
    /// # let path = std::env::temp_dir().join("tollgate-rules-handle.toml");
    /// # std::fs::write(&path, r#"rule = [{ name = "a", limits = "1/min" }]"#)?;
    /// let live = RulesFile::open(&path)?.live();
    /// assert_eq!(live.reloads(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn live(&self) -> Arc<LiveRules<C>> {
        Arc::clone(&self.live)
    }

    /// Reads the file again, and puts its rules in force, changed or not.
    ///
    /// # Errors
    ///
    /// Why the rules before it stay in force.
    ///
    /// ```
    /// # use tollgate_rules::RulesFile;
    /// # let path = std::env::temp_dir().join("tollgate-rules-reload.toml");
    /// # std::fs::write(&path, r#"rule = [{ name = "a", limits = "1/min" }]"#)?;
    /// let mut file = RulesFile::open(&path)?;
    /// assert_eq!(file.reload()?.kept, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reload(&mut self) -> Result<ReloadSummary, ReloadError> {
        self.reload_if(|_| Ok(()))
    }

    /// Reads the file again, and puts its rules in force if its content has changed since it was
    /// last read. A wrong file is reported once, until it changes again.
    ///
    /// # Errors
    ///
    /// Why the rules before it stay in force.
    ///
    /// ```
    /// # use tollgate_rules::RulesFile;
    /// # let path = std::env::temp_dir().join("tollgate-rules-poll.toml");
    /// # std::fs::write(&path, r#"rule = [{ name = "a", limits = "1/min" }]"#)?;
    /// let mut file = RulesFile::open(&path)?;
    /// std::fs::write(&path, "rule = 7")?;
    /// assert!(file.poll().is_err());
    /// assert!(file.poll().is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn poll(&mut self) -> Result<Option<ReloadSummary>, ReloadError> {
        self.poll_if(|_| Ok(()))
    }

    /// As [`reload`](Self::reload), if whoever follows the file can keep such rules: `fits` looks at
    /// them before anything is exchanged, and says why not.
    ///
    /// # Errors
    ///
    /// As [`reload`](Self::reload), and [`ReloadError::Unfit`] with what `fits` has said.
    ///
    /// ```
    /// # use tollgate_rules::{ReloadError, RulesFile};
    /// # let path = std::env::temp_dir().join("tollgate-rules-reload-if.toml");
    /// # std::fs::write(&path, r#"rule = [{ name = "a", limits = "1/min" }]"#)?;
    /// let mut file = RulesFile::open(&path)?;
    /// let unfit = file.reload_if(|rules| Err(format!("{} rule too many", rules.rules().len())));
    /// assert!(matches!(unfit, Err(ReloadError::Unfit(why)) if why == "1 rule too many"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reload_if(
        &mut self,
        fits: impl FnOnce(&Rules) -> Result<(), String>,
    ) -> Result<ReloadSummary, ReloadError> {
        let read = read(&self.path);
        self.take(read, fits)
    }

    /// As [`poll`](Self::poll), if whoever follows the file can keep such rules.
    ///
    /// # Errors
    ///
    /// As [`poll`](Self::poll), and [`ReloadError::Unfit`] with what `fits` has said.
    ///
    /// ```
    /// # use tollgate_rules::RulesFile;
    /// # let path = std::env::temp_dir().join("tollgate-rules-poll-if.toml");
    /// # std::fs::write(&path, r#"rule = [{ name = "a", limits = "1/min" }]"#)?;
    /// let mut file = RulesFile::open(&path)?;
    /// assert_eq!(file.poll_if(|_| Err("never".to_owned()))?, None, "it is as it was");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn poll_if(
        &mut self,
        fits: impl FnOnce(&Rules) -> Result<(), String>,
    ) -> Result<Option<ReloadSummary>, ReloadError> {
        let read = read(&self.path);
        if read.as_ref().ok() == self.seen.as_ref() {
            return Ok(None);
        }
        self.take(read, fits).map(Some)
    }

    fn take(
        &mut self,
        read: Result<String, ReloadError>,
        fits: impl FnOnce(&Rules) -> Result<(), String>,
    ) -> Result<ReloadSummary, ReloadError> {
        let taken = self.follow(read, fits);
        let counter = if taken.is_ok() { &self.live.reloads } else { &self.live.failures };
        counter.fetch_add(1, Ordering::Relaxed);
        taken
    }

    fn follow(
        &mut self,
        read: Result<String, ReloadError>,
        fits: impl FnOnce(&Rules) -> Result<(), String>,
    ) -> Result<ReloadSummary, ReloadError> {
        // Even what is wrong is not read again until it changes.
        self.seen = None;
        let text = self.seen.insert(read?);
        let rules = Rules::parse(&self.path.to_string_lossy(), text)?;
        fits(&rules).map_err(ReloadError::Unfit)?;
        let (gate, carried) = inherit::follow(&self.live.gate.load(), rules)?;
        self.live.gate.store(Arc::new(gate));
        Ok(carried)
    }
}

fn read(path: &Path) -> Result<String, ReloadError> {
    let unreadable = |error| ReloadError::Unreadable { path: path.to_owned(), error };
    let file = File::open(path).map_err(unreadable)?;
    let mut text = String::new();
    file.take(BYTES_MAX + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > BYTES_MAX {
        let why = "it is longer than a mebibyte, which no rules file needs";
        return Err(unreadable(io::Error::new(io::ErrorKind::InvalidData, why)));
    }
    Ok(text)
}
