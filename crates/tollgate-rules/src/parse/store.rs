//! `store`: which server keeps the limits.

use toml::de::{DeTable, DeValue};

use super::fields::{Reader, Value};
use crate::rule::Limit;
use crate::store::{Store, WhenDown};

const KEYS: &[&str] = &["url", "when_down", "nodes", "ask"];
const NODES_MAX: u64 = 1_000_000;
const SCHEMES: [&str; 2] = ["redis://", "redis+cluster://"];
const NEEDED: &str = "a server such as \"redis://10.0.0.5:6379\"";
/// What a server can count.
const ALGORITHMS: &str =
    "\"gcra\", \"fixed-window\", \"fixed-window-aligned\", \"sliding-counter\" or \"sliding-log\"";

/// What `store` says: a URL, or a table with one.
pub(crate) fn read<'s>(reader: &mut Reader<'s>, value: &Value<'s>) -> Option<Store> {
    let none = DeTable::new();
    let (given, table) = match value.get_ref() {
        DeValue::Table(table) => {
            reader.only_keys(table, KEYS, &[("on_store_down", "write \"when_down\"")]);
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
    let words =
        [("local", WhenDown::Local), ("block", WhenDown::Block), ("admit", WhenDown::Admit)];
    let when_down = match table.get("when_down") {
        Some(value) => reader.one_of(value, &words),
        None => Some(WhenDown::default()),
    };
    let nodes = match table.get("nodes") {
        Some(value) => reader.number(value, 1, NODES_MAX),
        None => Some(1),
    };
    let is_asked_always = match table.get("ask") {
        Some(value) => reader.one_of(value, &[("ahead", false), ("always", true)]),
        None => Some(false),
    };
    Some(Store {
        url: url?,
        when_down: when_down?,
        nodes: nodes?,
        is_asked_always: is_asked_always?,
    })
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

/// Says what a rule with a store cannot have.
pub(crate) fn check<'s>(
    reader: &mut Reader<'s>,
    store: &Value<'s>,
    rule: &DeTable<'s>,
    limits: &[Limit],
) {
    for limit in limits {
        if matches!(limit.algorithm_name, "leaky-queue" | "sub-windows") {
            let by = limit.algorithm_name;
            reader.error(
                store.span(),
                format!("a store cannot count by \"{by}\": write {ALGORITHMS}"),
            );
        }
    }
    for (key, why) in [
        ("penalty", "bans are kept in this process: leave out the store, or the penalty"),
        ("on_full", "a store keeps as many keys as it has memory for: leave this out"),
    ] {
        if let Some(value) = rule.get(key) {
            reader.error(value.span(), why.to_owned());
        }
    }
}
