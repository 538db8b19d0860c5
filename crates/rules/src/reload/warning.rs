//! What an operator should know of an exchange of rules.

use std::fmt;
use std::time::Duration;

use tollgate::Quota;

use crate::rule::{Limit, Rule};

/// What an operator should know of an exchange of rules; displayed, it is one line of plain words.
///
/// ```
/// use tollgate_rules::{ReloadWarning, RulesFile};
///
/// let path = std::env::temp_dir().join("tollgate-rules-warning.toml");
/// std::fs::write(&path, r#"rule = [{ name = "a", key = "ip", limits = "5/h" }]"#)?;
/// let mut file = RulesFile::open(&path)?;
/// std::fs::write(&path, r#"rule = [{ name = "a", key = "path", limits = "5/h" }]"#)?;
/// let carried = file.reload()?;
/// let [warning @ ReloadWarning::StartsAfresh { .. }] = &carried.warnings[..] else { panic!() };
/// assert_eq!(
///     warning.to_string(),
///     "rule \"a\": all limits and bans start afresh, since \"key\" changed"
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReloadWarning {
    /// Every key may spend a whole quota again, whatever it has spent before.
    #[non_exhaustive]
    StartsAfresh {
        /// The rule's name.
        rule: String,
        /// The limit's name; `None` where it is all limits of the rule, and its bans.
        limit: Option<String>,
        /// What has changed.
        why: String,
    },
    /// The burst shrank: a key that has spent all of the old one waits for longer than either quota
    /// takes to come back.
    #[non_exhaustive]
    LongWait {
        /// The rule's name.
        rule: String,
        /// The limit's name.
        limit: String,
        /// The longest that a key waits for its next cell.
        wait: Duration,
    },
    /// The rule's `penalty` changed, and nobody is banned any more.
    #[non_exhaustive]
    BansLifted {
        /// The rule's name.
        rule: String,
    },
}

impl ReloadWarning {
    pub(super) fn keys_changed(rule: &Rule, what: &str) -> Self {
        let why = format!("\"{what}\" changed");
        Self::StartsAfresh { rule: rule.name.clone(), limit: None, why }
    }

    /// `limit` took the place of `old`, and cannot go on from it.
    pub(super) fn counted_otherwise(rule: &Rule, old: &Limit, limit: &Limit) -> Self {
        let why = match old.algorithm == limit.algorithm {
            true => format!("{} keeps nothing under a new quota", limit.algorithm_name),
            false => format!(
                "its algorithm changed from {} to {}",
                old.algorithm_name, limit.algorithm_name
            ),
        };
        Self::StartsAfresh { rule: rule.name.clone(), limit: Some(limit.name.clone()), why }
    }

    pub(super) fn too_far(rule: &Rule, before: Quota, limit: &Limit) -> Self {
        let why = format!("{} is too far from {before} to go on from it", limit.quota);
        Self::StartsAfresh { rule: rule.name.clone(), limit: Some(limit.name.clone()), why }
    }

    /// Whether a key may wait for longer than either quota takes to come back.
    pub(super) fn long_wait(rule: &Rule, before: Quota, limit: &Limit) -> Option<Self> {
        let excess = before.burst_cells().checked_sub(limit.quota.burst_cells())?.checked_add(1)?;
        let wait = time_of(excess, limit.quota);
        let usual = |quota: Quota| time_of(quota.burst_cells(), quota);
        let is_long = wait > usual(before).max(usual(limit.quota));
        is_long.then(|| Self::LongWait { rule: rule.name.clone(), limit: limit.name.clone(), wait })
    }
}

/// How long so many cells take to come back, to the second above; at most 584 years.
fn time_of(cells: u64, quota: Quota) -> Duration {
    let nanos = u128::from(cells) * quota.period().as_nanos() / u128::from(quota.limit());
    let secs = nanos.div_ceil(1_000_000_000).min((u64::MAX / 1_000_000_000).into());
    Duration::from_secs(u64::try_from(secs).expect("it was bounded"))
}

/// `5 days`: in the largest unit of which it is two at least, rounded up.
fn rounded_up(span: Duration) -> String {
    const UNITS: [(u64, &str); 3] = [(86_400, "days"), (3_600, "hours"), (60, "minutes")];
    let secs = span.as_secs();
    match UNITS.iter().find(|(unit, _)| secs >= 2 * unit) {
        Some((unit, name)) => format!("{} {name}", secs.div_ceil(*unit)),
        None => format!("{secs} s"),
    }
}

impl fmt::Display for ReloadWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StartsAfresh { rule, limit: None, why } => {
                write!(f, "rule \"{rule}\": all limits and bans start afresh, since {why}")
            }
            Self::StartsAfresh { rule, limit: Some(limit), why } => {
                write!(f, "rule \"{rule}\", limit \"{limit}\" starts afresh, since {why}")
            }
            Self::LongWait { rule, limit, wait } => write!(
                f,
                "rule \"{rule}\", limit \"{limit}\": a key that has used all of the old quota waits \
                 up to {}; rename the rule to forgive",
                rounded_up(*wait)
            ),
            Self::BansLifted { rule } => {
                write!(f, "rule \"{rule}\": all bans are lifted, since \"penalty\" changed")
            }
        }
    }
}
