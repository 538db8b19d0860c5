//! The name of the file of a limiter.
//!
//! ```text
//! RULE.PART.HASH    the rule and the part, as far as they are letters, digits, - and _; and a hash of
//!                   everything that must be equal: rule, part, key, capacity, on_full, and what the part states
//! ```
//!
//! The quota of `gcra` is replaced in place, so it is no part of the name. A limit of `gcra` is known by the name
//! that the file gives it. A limit without a name is known by its period, and by its number among the limits of
//! that period.

use std::time::Duration;

use tollgate::Quota;

use crate::rule::{Penalty, Rule, RuleLimit};

const WORD_CHARS: usize = 40;

/// A limiter of a rule.
#[derive(Clone, Copy)]
pub(crate) enum Block<'a> {
    /// The limit with this index.
    Limit(usize),
    /// The same with its quota in the name, if the quota of the block cannot be replaced by it.
    LimitOfQuota(usize),
    /// All plans, of which the fastest has this quota.
    Plans(&'a RuleLimit),
    Ban(Penalty),
    Strikes(Penalty),
    Concurrency,
    Bytes(Quota),
}

impl Block<'_> {
    /// The name of the file.
    pub(crate) fn file_name(self, rule: &Rule) -> String {
        let (part, states) = self.part(rule);
        let key = &rule.key;
        let room = (rule.capacity, rule.on_full);
        let all = format!("{:?}", (&rule.name, part, states, key, room));
        format!("{}.{}.{:016x}", word(&rule.name), word(part), hash(&all))
    }

    /// The part, and what it states.
    fn part(self, rule: &Rule) -> (&'static str, String) {
        let limit = |index: usize| &rule.limits[index];
        match self {
            Self::Limit(index) => (limit(index).algorithm.name, limit_text(&rule.limits, index)),
            Self::LimitOfQuota(index) => {
                let text = limit_text(&rule.limits, index) + " of " + &quota(limit(index).quota);
                (limit(index).algorithm.name, text)
            }
            Self::Plans(fastest) => {
                ("plans", format!("{} {}", fastest.algorithm.name, quota(fastest.quota)))
            }
            // All of it, so that any change of a penalty lifts bans.
            Self::Ban(Penalty { ban, after, within }) => {
                ("ban", format!("{ban:?} {after} {within:?}"))
            }
            Self::Strikes(Penalty { after, within, .. }) => {
                ("strikes", format!("{after} {within:?}"))
            }
            Self::Concurrency => {
                ("concurrency", format!("{:?}", rule.concurrency.and_then(|its| its.max_hold)))
            }
            Self::Bytes(rate) => ("bytes", quota(rate)),
        }
    }
}

/// The algorithm, and the given name or the period.
fn known_by(limit: &RuleLimit) -> (&str, Option<&str>, Option<Duration>) {
    match limit.given_name() {
        Some(name) => (limit.algorithm.name, Some(name), None),
        None => (limit.algorithm.name, None, Some(limit.quota.period())),
    }
}

/// The data that identify a limit within its rule.
fn limit_text(limits: &[RuleLimit], index: usize) -> String {
    let limit = &limits[index];
    if !limit.algorithm.can_replace_quota() {
        return format!("{} {:?}", quota(limit.quota), limit.given_name());
    }
    let its = known_by(limit);
    let number = limits[..index].iter().filter(|other| known_by(other) == its).count();
    format!("{its:?} {number}")
}

fn quota(quota: Quota) -> String {
    format!("{}/{:?} burst {}", quota.limit(), quota.period(), quota.burst_cells())
}

/// A readable part of a file's name. It need not be unique.
fn word(text: &str) -> String {
    let is_kept = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    text.chars().map(|c| if is_kept(&c) { c } else { '_' }).take(WORD_CHARS).collect()
}

/// FNV-1a, the same in all builds.
fn hash(text: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::Rules;

    /// The names of the files of the limits of a rule.
    fn names(rest: &str) -> Vec<String> {
        let text = format!("rule = [{{ name = \"a/b\", {rest} }}]");
        let rules = Rules::parse("r.toml", &text).expect("rules");
        let rule = &rules.rules()[0];
        (0..rule.limits.len()).map(|index| Block::Limit(index).file_name(rule)).collect()
    }

    #[test]
    fn a_name_begins_with_the_rule_and_the_part() {
        let [name] = &names("limits = \"5/s\"")[..] else { panic!() };
        assert!(name.starts_with("a_b.gcra.") && name.len() == "a_b.gcra.".len() + 16, "{name}");
        assert!(
            names("algorithm = \"sliding-log\", limits = \"5/s\"")[0]
                .starts_with("a_b.sliding-log.")
        );
    }

    #[test]
    fn the_quota_of_gcra_is_no_part_of_its_name_and_its_period_is() {
        let by_second = names("limits = \"5/s\"");
        assert_eq!(by_second, names("limits = \"9/s burst 3\""));
        assert_ne!(by_second, names("limits = \"300/min\""));
        let named = |quota| names(&format!("limits = {{ name = \"x\", quota = \"{quota}\" }}"));
        assert_eq!(named("5/s"), named("300/min"));
        assert_ne!(named("5/s"), by_second);
        // Whatever is before it in the list, a limit of another period keeps its name.
        assert_eq!(names("limits = [\"5/s\", \"9/h\"]")[1], names("limits = \"8/h\"")[0]);
        let two = names("limits = [\"5/s\", \"9/s\"]");
        assert_eq!(two[0], by_second[0]);
        assert_ne!(two[0], two[1]);
    }

    #[test]
    fn whatever_must_be_equal_is_part_of_the_name() {
        let forms = [
            "limits = \"5/s\"",
            "limits = \"5/s\", capacity = 10",
            "limits = \"5/s\", on_full = \"deny\"",
            "limits = \"5/s\", on_full = { shared = \"9/s\" }",
            "limits = \"5/s\", key = \"path\"",
            "limits = \"5/s\", key = \"ip\", ipv6_prefix = 56",
            "limits = \"5/s\", algorithm = \"fixed-window\"",
            "limits = \"6/s\", algorithm = \"fixed-window\"",
            "limits = \"5/s\", algorithm = \"sliding-counter\"",
        ];
        let all: std::collections::BTreeSet<_> =
            forms.iter().flat_map(|form| names(form)).collect();
        assert_eq!(all.len(), forms.len());
        // And what need not be is none.
        let same =
            "limits = \"5/s\", match = { path = \"/a\" }, shadow = true, on_no_key = \"skip\"";
        assert_eq!(names(same), names(forms[0]));
    }
}
