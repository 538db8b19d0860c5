//! `limits`, `algorithm`, `on_full` and `penalty`.

use std::time::Duration;

use tollgate::{AnyAlgorithm, BuildError, OnFull, QuotaError};
use toml::de::{DeTable, DeValue};

use super::fields::{Reader, Value, quoted_list};
use super::spot::word_at;
use crate::active_rule::{Ban, Bucket};
use crate::error::LimiterError;
use crate::rule::{Penalty, RuleAlgorithm, RuleLimit};
use crate::shared::Place;

/// Every limit is checked for every request that the rule matches.
const LIMITS_MAX: usize = 8;
const AFTER_MAX: u64 = 1_000_000;
const LIMIT_KEYS: &[&str] = &["quota", "name", "algorithm"];
const PENALTY_KEYS: &[&str] = &["ban", "after", "within"];

pub(super) fn algorithm<'s>(
    reader: &mut Reader<'s>,
    value: &Value<'s>,
) -> Option<&'static RuleAlgorithm> {
    let names = quoted_list(AnyAlgorithm::NAMES);
    let text = reader.string(value, &names)?;
    let algorithm = RuleAlgorithm::named(text);
    if algorithm.is_none() {
        reader.error_in(value, format!("unknown algorithm \"{text}\": write {names}"));
    }
    algorithm
}

/// One limit, or a list of them. `usual` is the algorithm of limits that name none.
pub(super) fn limits<'s>(
    reader: &mut Reader<'s>,
    value: &Value<'s>,
    usual: &'static RuleAlgorithm,
    on_full: OnFull,
) -> Option<Vec<RuleLimit>> {
    let items = match value.get_ref() {
        DeValue::Array(items) => items.iter().collect(),
        _ => vec![value],
    };
    if items.is_empty() || items.len() > LIMITS_MAX {
        let message = format!("a rule has 1 to {LIMITS_MAX} limits; this one has {}", items.len());
        reader.error(value.span(), message);
        return None;
    }
    let mut limits: Vec<Option<RuleLimit>> = Vec::new();
    for item in items {
        let read = limit(reader, item, usual, on_full);
        let is_name_of =
            |limit: &RuleLimit| read.as_ref().is_some_and(|read| read.name == limit.name);
        if limits.iter().flatten().any(is_name_of) {
            let twice = "the rule has a limit of this name: leave one out, or name both, as in \
                         { quota = \"5/s\", name = \"writes\" }";
            reader.error(item.span(), twice.to_owned());
        }
        limits.push(read);
    }
    limits.into_iter().collect()
}

fn limit<'s>(
    reader: &mut Reader<'s>,
    value: &Value<'s>,
    usual: &'static RuleAlgorithm,
    on_full: OnFull,
) -> Option<RuleLimit> {
    let (given, name, by) = match value.get_ref() {
        DeValue::String(_) => (value, None, Some(usual)),
        DeValue::Table(table) => {
            reader.only_keys(table, LIMIT_KEYS, &[]);
            let by = table.get("algorithm").map(|value| algorithm(reader, value));
            let name = table.get("name").map(|value| name_of(reader, value, "limit"));
            let Some(quota) = table.get("quota") else {
                let message = "the limit has no quota: write, for example, { quota = \"100/s\" }";
                reader.error(value.span(), message.to_owned());
                return None;
            };
            (quota, name, by.unwrap_or(Some(usual)))
        }
        _ => {
            reader.wrong_type(value, "a quota such as \"100/s burst 20\" is needed");
            return None;
        }
    };
    let quota = reader.quota(given);
    let name = match name {
        Some(name) => name?,
        None => quota?.to_string(),
    };
    let (quota, algorithm) = (quota?, by?);
    let limit = RuleLimit { name, quota, algorithm };
    match buildable(&limit, on_full) {
        Ok(()) => Some(limit),
        // It is reported at the quota of the overflow.
        Err(BuildError::OverflowQuota(_)) => Some(limit),
        Err(BuildError::Quota(error)) => {
            reader.error_in(given, format!("{} cannot keep this: {error}", algorithm.name));
            None
        }
        Err(error) => {
            reader.error_in(given, error.to_string());
            None
        }
    }
}

/// Whether a limiter can be built. One key suffices: the number of keys does not matter.
fn buildable(limit: &RuleLimit, on_full: OnFull) -> Result<(), BuildError> {
    let built = Bucket::build(limit, 1, on_full, &Place::to_validate());
    built.map(drop).map_err(LimiterError::unshared)
}

/// Whether a limiter of these plans can be built; else the index of the plan that does not fit.
pub(super) fn buildable_plans(
    limits: &[RuleLimit],
    on_full: OnFull,
) -> Result<(), (usize, BuildError)> {
    let built = Bucket::build_plans(limits, 1, on_full, &Place::to_validate());
    match built.map_err(|(at, error)| (at, error.unshared())) {
        // It is reported at the quota of the overflow.
        Ok(_) | Err((_, BuildError::OverflowQuota(_))) => Ok(()),
        Err(failed) => Err(failed),
    }
}

/// The name of a rule or a limit.
pub(super) fn name_of<'s>(
    reader: &mut Reader<'s>,
    value: &Value<'s>,
    what: &str,
) -> Option<String> {
    let name = reader.string(value, &format!("the name of the {what}"))?;
    let is_name = !name.is_empty() && name.len() <= 100 && !name.chars().any(char::is_control);
    if !is_name {
        let message = "a name has 1 to 100 bytes, and no control characters".to_owned();
        reader.error_in(value, message);
    }
    is_name.then(|| name.to_owned())
}

/// `on_full`.
pub(super) fn on_full<'s>(reader: &mut Reader<'s>, value: &Value<'s>) -> Option<OnFull> {
    let DeValue::Table(table) = value.get_ref() else {
        let words =
            [("evict", OnFull::EvictNearestIdle), ("deny", OnFull::Deny), ("admit", OnFull::Admit)];
        return reader.one_of(value, &words);
    };
    reader.only_keys(table, &["shared"], &[]);
    let Some(quota) = table.get("shared") else {
        let message = "write on_full = { shared = \"1000/s\" }, or one of \"evict\", \"deny\" \
                       and \"admit\"";
        reader.error(value.span(), message.to_owned());
        return None;
    };
    reader.quota(quota).map(OnFull::SharedOverflow)
}

/// Reports the first limit whose algorithm cannot keep the quota of the overflow.
pub(super) fn check_overflow<'s>(
    reader: &mut Reader<'s>,
    value: &Value<'s>,
    limits: &[RuleLimit],
    on_full: OnFull,
) {
    for limit in limits {
        if let Err(BuildError::OverflowQuota(error)) = buildable(limit, on_full) {
            let message = format!("{} cannot keep this: {error}", limit.algorithm.name);
            let place = value.get_ref().as_table().and_then(|table| table.get("shared"));
            reader.error_in(place.unwrap_or(value), message);
            return;
        }
    }
}

/// Reports a penalty of a rule that has only `bytes`, and denies nothing.
pub(super) fn check_penalty<'s>(reader: &mut Reader<'s>, value: &Value<'s>, rule: &DeTable<'s>) {
    let denies = ["limits", "plan", "concurrency"].iter().any(|key| rule.contains_key(*key));
    if rule.contains_key("bytes") && !denies {
        let message = "the rule denies nothing that a ban could follow: add \"limits\" or \"concurrency\", or leave \
                       this out";
        reader.error(value.span(), message.to_owned());
    }
}

/// `penalty`.
pub(super) fn penalty<'s>(reader: &mut Reader<'s>, value: &Value<'s>) -> Option<Penalty> {
    let DeValue::Table(table) = value.get_ref() else {
        let ban = span(reader, value)?;
        return kept(reader, value, Penalty { after: 1, within: ban, ban });
    };
    reader.only_keys(table, PENALTY_KEYS, &[]);
    let after = table.get("after").map(|value| reader.number(value, 1, AFTER_MAX));
    let within = table.get("within").map(|value| span(reader, value));
    let Some(given) = table.get("ban") else {
        let message = "the penalty has no ban: write, for example, { ban = \"10 min\", after = 5 }";
        reader.error(value.span(), message.to_owned());
        return None;
    };
    let ban = span(reader, given)?;
    let (after, within) = (after.unwrap_or(Some(1))?, within.unwrap_or(Some(ban))?);
    kept(reader, value, Penalty { after, within, ban })
}

/// The penalty, if a limiter can keep it.
fn kept<'s>(reader: &mut Reader<'s>, value: &Value<'s>, penalty: Penalty) -> Option<Penalty> {
    match Ban::build(penalty, 1, [&Place::to_validate(), &Place::to_validate()]) {
        Ok(_) => Some(penalty),
        Err(_) => {
            let message = "the penalty is too short to be kept: write longer spans".to_owned();
            reader.error(value.span(), message);
            None
        }
    }
}

/// A span of time such as "10 min": any text that a quota may have after "1 per".
pub(super) fn span<'s>(reader: &mut Reader<'s>, value: &Value<'s>) -> Option<Duration> {
    const NEEDED: &str = "a span of time such as \"30 s\", \"10 min\" or \"1 day\"";
    const BEFORE: &str = "1 per ";
    let text = reader.string(value, NEEDED)?;
    // A quota may have a unit alone, as in "1 per s".
    if !text.trim_start().starts_with(|first: char| first.is_ascii_digit()) {
        reader.error_in(value, format!("expected {NEEDED}"));
        return None;
    }
    match format!("{BEFORE}{text}").parse::<tollgate::Quota>() {
        Ok(quota) if !text.to_ascii_lowercase().contains("burst") => Some(quota.period()),
        Err(QuotaError::Range {
            error: QuotaError::TooSlow | QuotaError::PeriodTooLong, ..
        }) => {
            reader.error_in(value, "longer than 366 days: write a shorter span".to_owned());
            None
        }
        Err(QuotaError::Syntax { column, .. }) => {
            let column = column.saturating_sub(BEFORE.len()).max(1);
            reader.error_within(value, word_at(text, column), format!("expected {NEEDED}"));
            None
        }
        _ => {
            reader.error_in(value, format!("expected {NEEDED}"));
            None
        }
    }
}
