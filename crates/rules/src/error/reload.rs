//! Errors of building limiters and of reloading a file.

use std::fmt;
use std::io;
use std::path::PathBuf;

use tollgate::BuildError;
use tollgate::concurrency::ConcurrencyError;

use super::RulesError;

/// A limiter that cannot be built: the system has no memory for it, or it cannot be shared.
///
/// ```
/// use tollgate_rules::{RulesLimiter, Rules};
///
/// let rules = Rules::parse("rules.toml", r#"
///     rule = [{ name = "a", key = "ip", limits = "60000/s", algorithm = "sliding-log",
///               capacity = 1_000_000_000 }]
/// "#)?;
/// let failed = RulesLimiter::new(rules).unwrap_err();
/// assert!(failed.to_string().starts_with("rule \"a\", limit \"60000/s\": "));
/// # Ok::<(), tollgate_rules::RulesError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RulesBuildError {
    /// The rule and the limit, or the folder.
    subject: String,
    error: LimiterError,
}

/// Why one limiter cannot be built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LimiterError {
    Build(BuildError),
    /// The fault of its block of shared memory, or of the folder of blocks, in plain words.
    Shared(String),
}

impl LimiterError {
    /// The block in this file cannot be attached or created.
    #[cfg(feature = "shared-memory")]
    pub(crate) fn shared(path: &std::path::Path, error: &tollgate::shared::SharedError) -> Self {
        Self::Shared(format!("{}: {error}", path.display()))
    }
}

impl LimiterError {
    /// The error of a limiter that is not shared.
    pub(crate) fn unshared(self) -> BuildError {
        match self {
            Self::Build(error) => error,
            Self::Shared(why) => unreachable!("the limiter is in this process: {why}"),
        }
    }
}

impl From<BuildError> for LimiterError {
    fn from(error: BuildError) -> Self {
        Self::Build(error)
    }
}

impl From<ConcurrencyError> for LimiterError {
    fn from(error: ConcurrencyError) -> Self {
        match error {
            ConcurrencyError::Table(error) => Self::Build(error),
            other => unreachable!("the parser has checked the numbers: {other}"),
        }
    }
}

impl RulesBuildError {
    pub(crate) fn new(rule: &str, limit: &str, error: LimiterError) -> Self {
        Self { subject: format!("rule \"{rule}\", limit \"{limit}\""), error }
    }

    pub(crate) fn of_folder(name: &str, why: String) -> Self {
        Self { subject: format!("shared = \"{name}\""), error: LimiterError::Shared(why) }
    }
}

impl fmt::Display for RulesBuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.subject)?;
        match &self.error {
            LimiterError::Build(error) => error.fmt(f),
            LimiterError::Shared(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for RulesBuildError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.error {
            LimiterError::Build(error) => Some(error),
            LimiterError::Shared(_) => None,
        }
    }
}

/// Why a rules file was not put in force. The rules before it stay in force.
///
/// ```
/// use tollgate_rules::{ReloadError, RulesFile};
///
/// let error = RulesFile::open("no/such/rules.toml").unwrap_err();
/// assert!(matches!(error, ReloadError::Unreadable { .. }));
/// assert!(error.to_string().starts_with("no/such/rules.toml cannot be read: "));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum ReloadError {
    /// The file cannot be read, or is longer than a mebibyte.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// The file has mistakes.
    Rules(RulesError),
    /// The system has no memory for its limiters, or they cannot be shared.
    Build(RulesBuildError),
    /// The caller rejected the rules, for this reason: see [`RulesFile::open_if`](crate::RulesFile::open_if) and
    /// [`RulesFile::poll_if`](crate::RulesFile::poll_if).
    Rejected(String),
}

impl fmt::Display for ReloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { path, error } => {
                write!(f, "{} cannot be read: {error}", path.display())
            }
            Self::Rules(error) => error.fmt(f),
            Self::Build(error) => error.fmt(f),
            Self::Rejected(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for ReloadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unreadable { error, .. } => Some(error),
            Self::Rules(error) => Some(error),
            Self::Build(error) => Some(error),
            Self::Rejected(_) => None,
        }
    }
}

impl From<RulesError> for ReloadError {
    fn from(error: RulesError) -> Self {
        Self::Rules(error)
    }
}

impl From<RulesBuildError> for ReloadError {
    fn from(error: RulesBuildError) -> Self {
        Self::Build(error)
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;
    use crate::error::Mistakes;

    #[test]
    fn each_error_has_its_source() {
        let build = RulesBuildError::new("a", "5/s", BuildError::ZeroCapacity.into());
        assert!(RulesBuildError::of_folder("a", "taken".to_owned()).source().is_none());
        assert!(build.source().is_some_and(|cause| cause.is::<BuildError>()));
        let mut mistakes = Mistakes::default();
        mistakes.add(0..0, "no rules");
        let rules = RulesError::new("r.toml", "", mistakes);
        let (path, error) = (PathBuf::new(), io::Error::other("gone"));
        for (error, is_caused) in [
            (ReloadError::from(build), true),
            (ReloadError::from(rules), true),
            (ReloadError::Unreadable { path, error }, true),
            (ReloadError::Rejected("no".to_owned()), false),
        ] {
            assert_eq!(error.source().is_some(), is_caused, "{error:?}");
        }
    }
}
