//! `store`: which server keeps the limits.

use std::time::Duration;

use toml::de::{DeTable, DeValue};

use super::fields::{Reader, Value, quoted_list};
use super::limits::span;
use crate::algorithm::ALGORITHMS;
use crate::limit::RuleLimit;
use crate::store::{Fallback, Store};

const KEYS: &[&str] = &["url", "fallback", "nodes", "ask", "deadline", "prefix"];
/// Keys that a user may try, and what to write instead.
const ALIASES: &[(&str, &str)] = &[
    ("on_store_down", "write \"fallback\""),
    ("when_down", "write \"fallback\""),
    ("on_down", "write \"fallback\""),
    ("timeout", "write \"deadline\""),
    ("key_prefix", "write \"prefix\""),
];
const NODES_MAX: u64 = 1_000_000;
const DEADLINES: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(1)..=Duration::from_secs(60);
const PREFIX_BYTES_MAX: usize = 64;
const SCHEMES: [&str; 2] = ["redis://", "redis+cluster://"];
const NEEDED: &str = "a server such as \"redis://10.0.0.5:6379\"";

/// A URL, or a table with one.
pub(super) fn read<'s>(reader: &mut Reader<'s>, value: &Value<'s>) -> Option<Store> {
    let none = DeTable::new();
    let (given, table) = match value.get_ref() {
        DeValue::Table(table) => {
            reader.only_keys(table, KEYS, ALIASES);
            let Some(given) = table.get("url") else {
                let message =
                    "the store has no url: write, for example, { url = \"redis://cache\" }";
                reader.error(value.span(), message.to_owned());
                return None;
            };
            (given, table)
        }
        _ => (value, &none),
    };
    let url = url(reader, given);
    let words = [("local", Fallback::Local), ("deny", Fallback::Deny), ("admit", Fallback::Admit)];
    let fallback = match table.get("fallback") {
        Some(value) => reader.one_of(value, &words),
        None => Some(Fallback::default()),
    };
    let nodes = match table.get("nodes") {
        Some(value) => reader.number(value, 1, NODES_MAX),
        None => Some(1),
    };
    let asks_always = match table.get("ask") {
        Some(value) => reader.one_of(value, &[("ahead", false), ("always", true)]),
        None => Some(false),
    };
    let deadline = table.get("deadline").map(|value| deadline(reader, value));
    let prefix = table.get("prefix").map(|value| prefix(reader, value));
    Some(Store {
        url: url?,
        fallback: fallback?,
        nodes: nodes?,
        asks_always: asks_always?,
        deadline: all_or_none(deadline)?,
        prefix: all_or_none(prefix)?,
    })
}

/// The inner `None` is an error; the outer one means that the key is left out.
#[allow(clippy::option_option, reason = "left out, or wrong")]
fn all_or_none<T>(given: Option<Option<T>>) -> Option<Option<T>> {
    match given {
        None => Some(None),
        Some(read) => read.map(Some),
    }
}

fn deadline<'s>(reader: &mut Reader<'s>, value: &Value<'s>) -> Option<Duration> {
    let deadline = span(reader, value)?;
    if !DEADLINES.contains(&deadline) {
        let message = "out of range: write a deadline from \"1 ms\" to \"60 s\"";
        reader.error_in(value, message.to_owned());
        return None;
    }
    Some(deadline)
}

fn prefix<'s>(reader: &mut Reader<'s>, value: &Value<'s>) -> Option<String> {
    const NEEDED: &str = "a prefix of 1 to 64 bytes, without braces, such as \"staging\"";
    let text = reader.string(value, NEEDED)?;
    let fits = (1..=PREFIX_BYTES_MAX).contains(&text.len());
    if !fits || text.contains(|c: char| matches!(c, '{' | '}') || c.is_control()) {
        reader.error_in(value, format!("expected {NEEDED}"));
        return None;
    }
    Some(text.to_owned())
}

fn url<'s>(reader: &mut Reader<'s>, value: &Value<'s>) -> Option<String> {
    let text = reader.string(value, NEEDED)?;
    let host = SCHEMES.iter().find_map(|scheme| text.strip_prefix(scheme));
    let is_url = host.is_some_and(|host| !host.is_empty() && !host.starts_with('/'));
    if !is_url || text.chars().any(|c| c.is_control() || c.is_whitespace()) {
        reader.error_in(value, format!("expected {NEEDED}"));
        return None;
    }
    Some(text.to_owned())
}

/// Reports what a rule with a store cannot have.
pub(super) fn check<'s>(
    reader: &mut Reader<'s>,
    store: &Value<'s>,
    rule: &DeTable<'s>,
    limits: &[RuleLimit],
) {
    for limit in limits {
        let by = limit.algorithm;
        if !by.in_stores {
            let names: Vec<_> =
                ALGORITHMS.iter().filter(|known| known.in_stores).map(|known| known.name).collect();
            let (by, names) = (by.name, quoted_list(&names));
            reader.error(store.span(), format!("a store cannot count by \"{by}\": write {names}"));
        }
    }
    for (key, why) in [
        ("penalty", "bans are kept in this process: leave out the store, or the penalty"),
        (
            "bytes",
            "bytes are counted in this process: leave out the store, or write a rule of its own",
        ),
        ("plan", "a store keeps one quota for all keys: leave out the store, or the plan"),
        (
            "concurrency",
            "requests in flight are counted in this process: leave out the store, or write a rule of its own",
        ),
        ("on_full", "a store keeps as many keys as it has memory for: leave this out"),
    ] {
        if let Some(value) = rule.get(key) {
            reader.error(value.span(), why.to_owned());
        }
    }
}
