//! Warnings about a reload.

use std::fmt;
use std::time::Duration;

use tollgate::Quota;

use crate::rule::{Rule, RuleLimit};

/// A warning for the operator about a reload. `Display` writes one line of plain words.
///
/// ```
/// use tollgate_rules::{ReloadWarning, RulesFile};
///
/// let path = std::env::temp_dir().join("tollgate-rules-warning.toml");
/// std::fs::write(&path, r#"rule = [{ name = "a", key = "ip", limits = "5/h" }]"#)?;
/// let mut file = RulesFile::open(&path)?;
/// std::fs::write(&path, r#"rule = [{ name = "a", key = "path", limits = "5/h" }]"#)?;
/// let summary = file.reload()?;
/// let [warning @ ReloadWarning::StartsAfresh { .. }] = &summary.warnings[..] else { panic!() };
/// assert_eq!(
///     warning.to_string(),
///     "rule \"a\": all limits and bans start afresh, since \"key\" changed"
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReloadWarning {
    /// The limit starts afresh: every key may spend a whole quota again.
    #[non_exhaustive]
    StartsAfresh {
        /// The rule's name.
        rule: String,
        /// The limit's name, or the key of the file: `"plan"` for all plans, `"concurrency"`, or `"bytes"`. `None`
        /// for all limits of the rule and its bans.
        limit: Option<String>,
        /// The change.
        why: String,
    },
    /// The burst shrank. A key that has spent the old burst waits longer than either quota takes to
    /// be restored.
    #[non_exhaustive]
    LongWait {
        /// The rule's name.
        rule: String,
        /// The limit's name.
        limit: String,
        /// The longest that a key waits for its next cell.
        wait: Duration,
    },
    /// The rule's `penalty` changed, and all its bans are lifted.
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

    /// The store knows a key by the bytes of its values, whatever they are the values of.
    pub(super) fn stored_keys_changed(rule: &Rule, what: &str) -> Self {
        let why = format!(
            "\"{what}\" changed; in the store, a key with the bytes of an old one keeps what that one has used: rename \
             the rule to start all afresh"
        );
        Self::StartsAfresh { rule: rule.name.clone(), limit: None, why }
    }

    /// `limit` replaces `old` and cannot continue its state.
    pub(super) fn counted_otherwise(rule: &Rule, old: &RuleLimit, limit: &RuleLimit) -> Self {
        let why = match old.algorithm == limit.algorithm {
            true => format!("{} keeps nothing under a new quota", limit.algorithm.name),
            false => format!(
                "its algorithm changed from {} to {}",
                old.algorithm.name, limit.algorithm.name
            ),
        };
        Self::StartsAfresh { rule: rule.name.clone(), limit: Some(limit.name.clone()), why }
    }

    /// Another block of shared memory holds the limit.
    pub(super) fn other_block(rule: &Rule, limit: &RuleLimit) -> Self {
        let why = "another block counts it, since its name, period, quota or algorithm changed";
        let limit = Some(limit.name.clone());
        Self::StartsAfresh { rule: rule.name.clone(), limit, why: why.to_owned() }
    }

    /// The store keeps the limit under another key.
    pub(super) fn stored_elsewhere(rule: &Rule, limit: &RuleLimit) -> Self {
        let why =
            "the store keeps it under another key, since its name, period or algorithm changed";
        let limit = Some(limit.name.clone());
        Self::StartsAfresh { rule: rule.name.clone(), limit, why: why.to_owned() }
    }

    /// The limit is known by its place and has another one. There, `keeper` of shared memory or of a store has the state
    /// of another limit, or none.
    pub(super) fn renumbered(rule: &Rule, limit: &RuleLimit, keeper: &str) -> Self {
        let why = format!(
            "another {keeper} counts it, since its name or its place among the limits of its period changed: name it"
        );
        Self::StartsAfresh { rule: rule.name.clone(), limit: Some(limit.name.clone()), why }
    }

    pub(super) fn max_hold_changed(rule: &Rule) -> Self {
        let (limit, why) = (Some("concurrency".to_owned()), "\"max_hold\" changed".to_owned());
        Self::StartsAfresh { rule: rule.name.clone(), limit, why }
    }

    pub(super) fn bytes_changed(rule: &Rule) -> Self {
        let (limit, why) = (Some("bytes".to_owned()), "its rate changed".to_owned());
        Self::StartsAfresh { rule: rule.name.clone(), limit, why }
    }

    pub(super) fn plans_too_far(rule: &Rule) -> Self {
        let why = "the limiter of the old plans cannot keep the new ones".to_owned();
        Self::StartsAfresh { rule: rule.name.clone(), limit: Some("plan".to_owned()), why }
    }

    /// The rule had limits and has a plan now, or the reverse: a warning for the plan, or for each limit.
    pub(super) fn plan_in_place_of_limits(rule: &Rule) -> Vec<Self> {
        let afresh = |limit: &str, before: &str| {
            let (limit, why) =
                (Some(limit.to_owned()), format!("the rule had \"{before}\" before"));
            Self::StartsAfresh { rule: rule.name.clone(), limit, why }
        };
        match rule.plan {
            Some(_) => vec![afresh("plan", "limits")],
            None => rule.limits.iter().map(|limit| afresh(&limit.name, "plan")).collect(),
        }
    }

    pub(super) fn too_far(rule: &Rule, before: Quota, limit: &RuleLimit) -> Self {
        let why = format!("{} is too far from {before} to go on from it", limit.quota);
        Self::StartsAfresh { rule: rule.name.clone(), limit: Some(limit.name.clone()), why }
    }

    /// A warning if a key may wait longer than either quota takes to be restored.
    pub(super) fn long_wait(rule: &Rule, before: Quota, limit: &RuleLimit) -> Option<Self> {
        let excess = before.burst_cells().checked_sub(limit.quota.burst_cells())?.checked_add(1)?;
        let wait = time_of(excess, limit.quota);
        let usual = |quota: Quota| time_of(quota.burst_cells(), quota);
        let is_long = wait > usual(before).max(usual(limit.quota));
        is_long.then(|| Self::LongWait { rule: rule.name.clone(), limit: limit.name.clone(), wait })
    }
}

/// How long a quota takes to restore `cells` cells, rounded up to seconds; at most 584 years.
fn time_of(cells: u64, quota: Quota) -> Duration {
    let nanos = u128::from(cells) * quota.period().as_nanos() / u128::from(quota.limit());
    let secs = nanos.div_ceil(1_000_000_000).min((u64::MAX / 1_000_000_000).into());
    Duration::from_secs(u64::try_from(secs).expect("it was bounded"))
}

/// `5 days`: rounded up, in the largest unit of which there are at least two.
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
