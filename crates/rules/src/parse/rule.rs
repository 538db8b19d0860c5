//! One `[[rule]]`.

use std::collections::HashMap;
use std::ops::Range;

use tollgate::OnFull;
use toml::de::{DeTable, DeValue};

use super::fields::{Reader, Value, optional, or_default};
use super::{bytes, concurrency, cost, key, limits, matcher, plan, store};
use crate::key::{Key, OnNoKey, Part, PartSettings};
use crate::matcher::Matcher;
use crate::request::path::Spelling;
use crate::rule::{ALGORITHMS, Action, PlanChoice, Rule, RuleLimit};

const CAPACITY_DEFAULT: u64 = 100_000;
const CAPACITY_MAX: u64 = 1_000_000_000;
const IPV6_PREFIX_DEFAULT: u8 = 64;

const KEYS: &[&str] = &[
    "name",
    "match",
    "action",
    "key",
    "ipv6_prefix",
    "on_no_key",
    "algorithm",
    "limits",
    "plan",
    "cost",
    "concurrency",
    "bytes",
    "capacity",
    "on_full",
    "shadow",
    "penalty",
    "store",
];
/// The words of `action`.
const ACTIONS: [Action; 3] = [Action::Limit, Action::Exempt, Action::Deny];
const ALIASES: &[(&str, &str)] = &[
    ("path", "write match = { path = … }"),
    ("method", "write match = { method = … }"),
    ("host", "write match = { host = … }"),
    ("header", "write match = { header = … }"),
    ("ip", "write match = { ip = … }"),
    ("query", "write match = { query = … }"),
    ("cookie", "write match = { cookie = … }"),
    ("not", "write match = { not = … }"),
    ("quota", "write \"limits\""),
    ("rate", "write \"limits\""),
    ("max_in_flight", "write \"concurrency\""),
    ("connections", "write \"concurrency\""),
    ("bandwidth", "write \"bytes\""),
    ("weight", "write \"cost\""),
    ("plans", "write \"plan\""),
    ("burst", "write it behind the limit, as in limits = \"100/s burst 20\""),
    ("redis", "write \"store\""),
    ("encoded_slash", "it is for the whole file: write it before the first rule"),
    ("backslash", "it is for the whole file: write it before the first rule"),
    ("path_params", "it is for the whole file: write it before the first rule"),
    ("path_case", "it is for the whole file: write it before the first rule"),
    ("shared", "it is for the whole file: write it before the first rule"),
    ("audit", "write \"shadow\""),
    ("ban", "write \"penalty\""),
    ("exempt", "write action = \"exempt\""),
    ("allow", "write action = \"exempt\""),
    ("deny", "write action = \"deny\""),
    ("block", "write action = \"deny\""),
];

/// Reads a rule, whose number is 0. `names` are the names of the rules before it, each with its place.
pub(super) fn read<'s>(
    reader: &mut Reader<'s>,
    value: &Value<'s>,
    spelling: Spelling,
    names: &mut HashMap<String, Range<usize>>,
) -> Option<Rule> {
    let DeValue::Table(table) = value.get_ref() else {
        reader.wrong_type(value, "a rule is needed: begin each with a line [[rule]]");
        return None;
    };
    reader.only_keys(table, KEYS, ALIASES);
    let name = name(reader, value, table, names);
    let matcher = match table.get("match") {
        Some(given) => matcher::read(reader, given, spelling),
        // The explanation of a path asks any rule how paths are read.
        None => Some(Matcher { spelling, ..Matcher::default() }),
    };
    let actions = ACTIONS.map(|action| (action.name(), action));
    let action = or_default(table, "action", |given| reader.one_of(given, &actions));
    if let Some(action @ (Action::Exempt | Action::Deny)) = action {
        return without_limits(reader, table, name, matcher, action);
    }
    let key = read_key(reader, table, spelling);
    let words = [("shared", OnNoKey::Shared), ("skip", OnNoKey::Skip), ("deny", OnNoKey::Deny)];
    let on_no_key = or_default(table, "on_no_key", |given| reader.one_of(given, &words));
    let on_full = or_default(table, "on_full", |given| limits::on_full(reader, given));
    let concurrency = optional(table, "concurrency", |given| concurrency::read(reader, given));
    let (plan, limits) = plan_and_limits(reader, value, table, action, on_full);
    let bytes = optional(table, "bytes", |given| {
        bytes::check(reader, given, table);
        bytes::read(reader, given)
    });
    let cost = optional(table, "cost", |given| {
        let cost = cost::read(reader, given);
        if let (Some(cost), Some(limits)) = (&cost, &limits) {
            cost::check(reader, given, cost, table, limits);
        }
        cost
    });
    let capacity = optional(table, "capacity", |given| reader.number(given, 1, CAPACITY_MAX));
    let is_shadow = or_default(table, "shadow", |given| reader.boolean(given));
    let penalty = optional(table, "penalty", |given| {
        limits::check_penalty(reader, given, table);
        limits::penalty(reader, given)
    });
    let store = optional(table, "store", |given| {
        store::check(reader, given, table, limits.as_deref().unwrap_or_default());
        store::read(reader, given)
    });
    let key = key?;
    // One bucket for all requests takes one slot.
    let usual = if key.parts.is_empty() { 1 } else { CAPACITY_DEFAULT };
    Some(Rule {
        name: name?,
        number: 0,
        matcher: matcher?,
        action: action?,
        key,
        on_no_key: on_no_key?,
        limits: limits?,
        plan: plan?,
        cost: cost?,
        concurrency: concurrency?,
        bytes: bytes?,
        capacity: capacity?.unwrap_or(usual),
        on_full: on_full?,
        is_shadow: is_shadow?,
        penalty: penalty?,
        store: store?,
    })
}

/// Reads the rest of a rule that exempts or denies.
fn without_limits<'s>(
    reader: &mut Reader<'s>,
    table: &DeTable<'s>,
    name: Option<String>,
    matcher: Option<Matcher>,
    action: Action,
) -> Option<Rule> {
    let word = action.name();
    for key in table.keys() {
        let its: &str = key.get_ref();
        let message = match its {
            "shadow" if action == Action::Exempt => {
                format!("a rule with action = \"{word}\" denies nothing: leave \"shadow\" out")
            }
            "limits" => format!(
                "a rule with action = \"{word}\" has no limits: leave them out, or write action = \
                 \"limit\""
            ),
            "name" | "match" | "action" | "shadow" => continue,
            _ if !KEYS.contains(&its) => continue,
            _ => format!("a rule with action = \"{word}\" counts nothing: leave \"{its}\" out"),
        };
        reader.error(key.span(), message);
    }
    let is_shadow = or_default(table, "shadow", |given| reader.boolean(given));
    Some(Rule {
        name: name?,
        number: 0,
        matcher: matcher?,
        action,
        key: Key { parts: Vec::new() },
        on_no_key: OnNoKey::default(),
        limits: Vec::new(),
        plan: None,
        cost: None,
        concurrency: None,
        bytes: None,
        capacity: 1,
        on_full: OnFull::default(),
        is_shadow: is_shadow?,
        penalty: None,
        store: None,
    })
}

/// The choice of a plan if the rule has one, and the limits: those of the plans, or else of `limits`.
#[allow(clippy::option_option, reason = "left out, or wrong")]
fn plan_and_limits<'s>(
    reader: &mut Reader<'s>,
    rule: &Value<'s>,
    table: &DeTable<'s>,
    action: Option<Action>,
    on_full: Option<OnFull>,
) -> (Option<Option<PlanChoice>>, Option<Vec<RuleLimit>>) {
    if let Some(plan) = table.get("plan") {
        return read_plan(reader, plan, table, on_full);
    }
    let may_lack_quota = ["concurrency", "bytes"].iter().any(|key| table.contains_key(*key));
    let limits = match table.contains_key("limits") {
        true => read_limits(reader, rule, table, on_full),
        // The action is wrong. The right one may need no limits.
        false if action.is_none() => None,
        false if may_lack_quota => without_quota(reader, table),
        false => read_limits(reader, rule, table, on_full),
    };
    (Some(None), limits)
}

/// The choice of a plan, and its limits.
#[allow(clippy::option_option, reason = "left out, or wrong")]
fn read_plan<'s>(
    reader: &mut Reader<'s>,
    value: &Value<'s>,
    table: &DeTable<'s>,
    on_full: Option<OnFull>,
) -> (Option<Option<PlanChoice>>, Option<Vec<RuleLimit>>) {
    let usual = match table.get("algorithm") {
        Some(value) => limits::algorithm(reader, value),
        None => Some(&ALGORITHMS[0]),
    };
    if table.contains_key("limits") {
        let message =
            "the rule has limits, which are the same for each key: leave them out, or the plan";
        reader.error(value.span(), message.to_owned());
    }
    let when_full = on_full.unwrap_or_default();
    let read = plan::read(reader, value, usual, when_full);
    if let (Some(value), Some((_, limits)), OnFull::SharedOverflow(_)) =
        (table.get("on_full"), &read, when_full)
    {
        limits::check_overflow(reader, value, limits, when_full);
    }
    read.map_or((None, None), |(choice, limits)| (Some(Some(choice)), Some(limits)))
}

/// The limits of a rule that has no quota.
fn without_quota<'s>(reader: &mut Reader<'s>, table: &DeTable<'s>) -> Option<Vec<RuleLimit>> {
    if let Some(value) = table.get("algorithm") {
        let message = "the rule has no quota that it could keep: add \"limits\", or leave this out";
        reader.error(value.span(), message.to_owned());
    }
    Some(Vec::new())
}

fn name<'s>(
    reader: &mut Reader<'s>,
    rule: &Value<'s>,
    table: &DeTable<'s>,
    names: &mut HashMap<String, Range<usize>>,
) -> Option<String> {
    let Some(value) = table.get("name") else {
        let message = "the rule has no name: write, for example, name = \"logins\"".to_owned();
        reader.error(rule.span(), message);
        return None;
    };
    let name = limits::name_of(reader, value, "rule")?;
    if let Some(first) = names.get(&name) {
        let line = super::line_of(reader.text, first);
        let message = format!("the rule on line {line} has this name: give each its own");
        reader.error_in(value, message);
        return None;
    }
    names.insert(name.clone(), value.span());
    Some(name)
}

fn read_key<'s>(reader: &mut Reader<'s>, table: &DeTable<'s>, spelling: Spelling) -> Option<Key> {
    let prefix = match table.get("ipv6_prefix") {
        Some(value) => reader.number(value, 1, 128).and_then(|bits| u8::try_from(bits).ok()),
        None => Some(IPV6_PREFIX_DEFAULT),
    };
    let ipv6_prefix = prefix.unwrap_or(IPV6_PREFIX_DEFAULT);
    let key = match table.get("key") {
        Some(value) => key::read(reader, value, PartSettings { ipv6_prefix, spelling }),
        None => Some(Key { parts: vec![Part::Ip { ipv6_prefix }] }),
    };
    if let (Some(value), Some(key)) = (table.get("ipv6_prefix"), &key)
        && !key.parts.iter().any(|part| part.reads().address)
    {
        let message = "the key has no address: add \"ip\" to it, or leave this out".to_owned();
        reader.error(value.span(), message);
    }
    prefix.and(key)
}

fn read_limits<'s>(
    reader: &mut Reader<'s>,
    rule: &Value<'s>,
    table: &DeTable<'s>,
    on_full: Option<OnFull>,
) -> Option<Vec<RuleLimit>> {
    let usual = match table.get("algorithm") {
        Some(value) => limits::algorithm(reader, value),
        None => Some(&ALGORITHMS[0]),
    };
    let Some(value) = table.get("limits") else {
        let message = "the rule has no limits: write, for example, limits = \"100/s\"".to_owned();
        reader.error(rule.span(), message);
        return None;
    };
    // The quotas are checked even if the algorithm is unknown.
    let by = usual.unwrap_or(&ALGORITHMS[0]);
    let when_full = on_full.unwrap_or_default();
    let limits = limits::limits(reader, value, by, when_full)?;
    if let (Some(value), OnFull::SharedOverflow(_)) = (table.get("on_full"), when_full) {
        limits::check_overflow(reader, value, &limits, when_full);
    }
    usual.and(Some(limits))
}
