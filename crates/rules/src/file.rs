//! The file that rules come from.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tollgate::Clock;
use tollgate::clock::QuantaClock;

use crate::error::{Mistakes, ReloadError, RulesBuildError, RulesError};
use crate::limiter::RulesLimiter;
use crate::live::LiveRules;
use crate::reload::ReloadSummary;
use crate::rule::Rules;

/// A longer file is an error.
const BYTES_MAX: u64 = 1 << 20;
const NOT_UTF8: &str = "this is not UTF-8: save the file in that encoding";

/// A rules file that is followed: it reads the file and puts changes in force.
///
/// It has one owner, which calls [`poll`](Self::poll) about every second, and
/// [`reload`](Self::reload) on `SIGHUP`. A decision never waits for either. [`ReloadSummary`]
/// describes what a change kept.
///
/// **Guarantee.** Rules are replaced as a whole, and only by a file without mistakes. Otherwise the
/// rules before it stay in force, and [`LiveRules::failures`] increases by one. A decision uses the
/// rules with which it began.
///
/// **Not guaranteed.** A file that is read while it is written may parse and still be incomplete.
/// Write another file and rename it. (An empty file is an error, so a file that was truncated and
/// not yet written is harmless.)
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
/// let summary = file.poll()?.expect("the file has changed");
/// assert_eq!((summary.kept, summary.new), (1, 1));
/// assert!(!live.load().decide(&Request::default()).is_admitted()); // 1/min is used up
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct RulesFile<C: Clock = QuantaClock> {
    path: PathBuf,
    /// The content of the last reading, with or without mistakes; `None` if the file could not be read.
    last_content: Option<Vec<u8>>,
    /// Whether that content has no mistake and is not in force: the caller has rejected it, or its limiters could not
    /// be built. The next poll tries again, since the reason may pass: a lack of memory, or another process that
    /// changes the quota of a shared limit.
    is_pending: bool,
    live: Arc<LiveRules<C>>,
}

impl RulesFile {
    /// Reads a file and puts its rules in force.
    ///
    /// # Errors
    ///
    /// The file cannot be read, it has mistakes, the system has no memory for its limiters, or they cannot be
    /// shared.
    ///
    /// ```
    /// # use tollgate_rules::RulesFile;
    /// assert!(RulesFile::open("no/such/rules.toml").is_err());
    /// ```
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ReloadError> {
        Self::open_if(path, |_| Ok(()))
    }

    /// [`open`](Self::open) with a check by the caller, as in [`reload_if`](Self::reload_if). `accept` sees the rules
    /// before their limiters are built: a quota of `gcra` that several processes share changes for all of them when its
    /// limiter is built.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open), and [`ReloadError::Rejected`] with the reason of `accept`.
    ///
    /// ```
    /// # use tollgate_rules::{ReloadError, RulesFile};
    /// # let path = std::env::temp_dir().join("tollgate-rules-open-if.toml");
    /// # std::fs::write(&path, r#"rule = [{ name = "a", limits = "1/min" }]"#)?;
    /// let rejected = RulesFile::open_if(&path, |_| Err("not today".to_owned()));
    /// assert!(matches!(rejected, Err(ReloadError::Rejected(why)) if why == "not today"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open_if(
        path: impl AsRef<Path>,
        accept: impl FnOnce(&Rules) -> Result<(), String>,
    ) -> Result<Self, ReloadError> {
        Self::open_by(path.as_ref(), accept, RulesLimiter::new)
    }
}

impl<C: Clock> RulesFile<C> {
    /// [`open`](RulesFile::open) with another clock. All limits are in this process, since others have another
    /// clock.
    ///
    /// # Errors
    ///
    /// As [`open`](RulesFile::open).
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use tollgate_rules::RulesFile;
    /// let clock = Arc::new(tollgate::ManualClock::new());
    /// assert!(RulesFile::open_with_clock("no/such/rules.toml", clock).is_err());
    /// ```
    pub fn open_with_clock(path: impl AsRef<Path>, clock: Arc<C>) -> Result<Self, ReloadError> {
        let build = |rules| RulesLimiter::with_clock(rules, clock);
        Self::open_by(path.as_ref(), |_| Ok(()), build)
    }

    fn open_by(
        path: &Path,
        accept: impl FnOnce(&Rules) -> Result<(), String>,
        build: impl FnOnce(Rules) -> Result<RulesLimiter<C>, RulesBuildError>,
    ) -> Result<Self, ReloadError> {
        let path = path.to_owned();
        let content = read(&path)?;
        let rules = parse(&path, &content)?;
        accept(&rules).map_err(ReloadError::Rejected)?;
        let live = Arc::new(LiveRules::new(build(rules)?));
        Ok(Self { path, last_content: Some(content), is_pending: false, live })
    }

    /// The rules in force, now and after each change.
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

    /// Reads the file again and puts its rules in force, even if it has not changed.
    ///
    /// # Errors
    ///
    /// The rules before it stay in force, for this reason.
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

    /// Reads the file again, and puts its rules in force if its content has changed since the last
    /// read. A file with mistakes is an error once, until it changes again. One whose limiters cannot be built is tried
    /// again by each call, until it is in force.
    ///
    /// # Errors
    ///
    /// The rules before it stay in force, for this reason.
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

    /// [`reload`](Self::reload) with a check by the caller. `accept` sees the new rules before they
    /// are put in force, and may reject them with a reason.
    ///
    /// # Errors
    ///
    /// As [`reload`](Self::reload), and [`ReloadError::Rejected`] with the reason of `accept`.
    ///
    /// ```
    /// # use tollgate_rules::{ReloadError, RulesFile};
    /// # let path = std::env::temp_dir().join("tollgate-rules-reload-if.toml");
    /// # std::fs::write(&path, r#"rule = [{ name = "a", limits = "1/min" }]"#)?;
    /// let mut file = RulesFile::open(&path)?;
    /// let rejected = file.reload_if(|rules| Err(format!("{} rule too many", rules.rules().len())));
    /// assert!(matches!(rejected, Err(ReloadError::Rejected(why)) if why == "1 rule too many"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reload_if(
        &mut self,
        accept: impl FnOnce(&Rules) -> Result<(), String>,
    ) -> Result<ReloadSummary, ReloadError> {
        let read = read_again(&self.path);
        self.put_in_force(read, accept)
    }

    /// [`poll`](Self::poll) with a check by the caller, as in [`reload_if`](Self::reload_if). Rules that `accept`
    /// rejects are tried again by each call, since its reason may pass, such as a lack of memory. Each of these calls
    /// returns the error, so log a new text only.
    ///
    /// # Errors
    ///
    /// As [`poll`](Self::poll), and [`ReloadError::Rejected`] with the reason of `accept`.
    ///
    /// ```
    /// # use tollgate_rules::RulesFile;
    /// # let path = std::env::temp_dir().join("tollgate-rules-poll-if.toml");
    /// # std::fs::write(&path, r#"rule = [{ name = "a", limits = "1/min" }]"#)?;
    /// let mut file = RulesFile::open(&path)?;
    /// assert_eq!(file.poll_if(|_| Err("never".to_owned()))?, None, "it has not changed");
    /// std::fs::write(&path, r#"rule = [{ name = "a", limits = "2/min" }]"#)?;
    /// assert!(file.poll_if(|_| Err("not yet".to_owned())).is_err());
    /// assert!(file.poll_if(|_| Ok(()))?.is_some(), "it is tried again");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn poll_if(
        &mut self,
        accept: impl FnOnce(&Rules) -> Result<(), String>,
    ) -> Result<Option<ReloadSummary>, ReloadError> {
        let read = read_again(&self.path);
        if read.as_ref().ok() == self.last_content.as_ref() && !self.is_pending {
            return Ok(None);
        }
        self.put_in_force(read, accept).map(Some)
    }

    fn put_in_force(
        &mut self,
        read: Result<Vec<u8>, ReloadError>,
        accept: impl FnOnce(&Rules) -> Result<(), String>,
    ) -> Result<ReloadSummary, ReloadError> {
        let summary = self.try_put_in_force(read, accept);
        if summary.is_err() {
            self.live.count_failure();
        }
        summary
    }

    fn try_put_in_force(
        &mut self,
        read: Result<Vec<u8>, ReloadError>,
        accept: impl FnOnce(&Rules) -> Result<(), String>,
    ) -> Result<ReloadSummary, ReloadError> {
        // A file with mistakes is remembered too, so that `poll` reports it once.
        (self.last_content, self.is_pending) = (None, false);
        let content = self.last_content.insert(read?);
        let rules = parse(&self.path, content)?;
        self.is_pending = true;
        accept(&rules).map_err(ReloadError::Rejected)?;
        let (gate, summary) = self.live.load().successor(rules)?;
        self.live.replace(gate);
        self.is_pending = false;
        Ok(summary)
    }
}

impl Rules {
    /// Reads a file of at most a mebibyte and parses it, without building its limiters. The path is the name in
    /// errors.
    ///
    /// # Errors
    ///
    /// [`ReloadError::Unreadable`] if the file cannot be read, and [`ReloadError::Rules`] if it has mistakes.
    ///
    /// ```
    /// # use tollgate_rules::Rules;
    /// let path = std::env::temp_dir().join("tollgate-rules-read.toml");
    /// std::fs::write(&path, r#"rule = [{ name = "a", limits = "1/min" }]"#)?;
    /// assert_eq!(Rules::read(&path)?.rules().len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read(path: impl AsRef<Path>) -> Result<Self, ReloadError> {
        let path = path.as_ref();
        Ok(parse(path, &read(path)?)?)
    }
}

/// Reads a file that was read before. A pipe is read once: another read would wait for a writer, for ever if there is
/// none.
fn read_again(path: &Path) -> Result<Vec<u8>, ReloadError> {
    match is_pipe(path) {
        true => Err(unreadable(path, "it is a pipe, which is read once")),
        false => read(path),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, ReloadError> {
    let failed = |error| ReloadError::Unreadable { path: path.to_owned(), error };
    let file = File::open(path).map_err(failed)?;
    let mut bytes = Vec::new();
    file.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(unreadable(path, "it is longer than a mebibyte, which no rules file needs"));
    }
    Ok(bytes)
}

/// Parses what a file contains. The path is the name in errors.
fn parse(path: &Path, content: &[u8]) -> Result<Rules, RulesError> {
    let file = path.to_string_lossy();
    match std::str::from_utf8(content) {
        Ok(text) => Rules::parse(&file, text),
        Err(error) => {
            // Up to the wrong byte, the text that stands for the content is the same.
            let (at, text) = (error.valid_up_to(), String::from_utf8_lossy(content));
            let mut mistakes = Mistakes::default();
            mistakes.add(at..at + char::REPLACEMENT_CHARACTER.len_utf8(), NOT_UTF8);
            Err(RulesError::new(&file, &text, mistakes))
        }
    }
}

fn unreadable(path: &Path, why: &str) -> ReloadError {
    let error = io::Error::new(io::ErrorKind::InvalidData, why);
    ReloadError::Unreadable { path: path.to_owned(), error }
}

#[cfg(unix)]
fn is_pipe(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;

    path.metadata().is_ok_and(|metadata| metadata.file_type().is_fifo())
}

#[cfg(not(unix))]
fn is_pipe(_: &Path) -> bool {
    false
}
