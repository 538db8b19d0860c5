//! `store`: the server that keeps the limits.

use std::net::Ipv6Addr;
use std::ops::Range;
use std::time::Duration;

use toml::de::{DeTable, DeValue};

use super::fields::{Reader, Value, optional, or_default, quoted_list};
use super::limits::span;
use crate::rule::{ALGORITHMS, Fallback, RuleLimit, Store};

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
const SINGLE: &str = "redis://";
const CLUSTER: &str = "redis+cluster://";
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
    let fallback = or_default(table, "fallback", |given| reader.one_of(given, &words));
    let nodes = match table.get("nodes") {
        Some(value) => reader.number(value, 1, NODES_MAX),
        None => Some(1),
    };
    let words = [("ahead", false), ("always", true)];
    let asks_always = or_default(table, "ask", |given| reader.one_of(given, &words));
    let deadline = optional(table, "deadline", |given| deadline(reader, given));
    let prefix = optional(table, "prefix", |given| prefix(reader, given));
    Some(Store {
        url: url?,
        fallback: fallback?,
        nodes: nodes?,
        asks_always: asks_always?,
        deadline: deadline?,
        prefix: prefix?,
    })
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
    let nodes = match (text.strip_prefix(SINGLE), text.strip_prefix(CLUSTER)) {
        (Some(node), _) => vec![node],
        (None, Some(nodes)) => nodes.split(',').collect(),
        (None, None) => Vec::new(),
    };
    let starts_with_host =
        nodes.first().is_some_and(|node| !node.is_empty() && !node.starts_with('/'));
    if !starts_with_host || text.chars().any(|c| c.is_control() || c.is_whitespace()) {
        reader.error_in(value, format!("expected {NEEDED}"));
        return None;
    }
    let mut at = text.len() - nodes.iter().map(|node| node.len() + 1).sum::<usize>() + 1;
    for node in nodes {
        if let Err((within, why)) = check_node(node) {
            reader.error_within(value, at + within.start..at + within.end, why.to_owned());
            return None;
        }
        at += node.len() + 1;
    }
    Some(text.to_owned())
}

/// Checks what follows the scheme: `user:password@host:port/database`. An error has the bytes that it is about.
fn check_node(node: &str) -> Result<(), (Range<usize>, &'static str)> {
    let (authority, rest) = node.split_at(node.find(['/', '?', '#']).unwrap_or(node.len()));
    let host_at = authority.rfind('@').map_or(0, |at| at + 1);
    let (host, port) = host_and_port(&authority[host_at..]);
    let port_at = host_at + host.len();
    if !is_host(host) {
        let why =
            "a host is needed here, as in \"redis://10.0.0.5:6379\" or \"redis://[2001:db8::5]\"";
        return Err((host_at..port_at, why));
    }
    if !is_port(port) {
        let why =
            "after the host, a port from 0 to 65535 is needed, as in \"redis://10.0.0.5:6379\"";
        return Err((port_at..authority.len(), why));
    }
    if !is_database(rest) {
        let why = "after the host, the number of a database is needed, as in \"redis://cache/2\"";
        return Err((authority.len()..node.len(), why));
    }
    Ok(())
}

/// The port with the colon before it.
fn host_and_port(address: &str) -> (&str, &str) {
    let host_ends = match address.starts_with('[') {
        true => address.find(']').map(|at| at + 1),
        false => address.find(':'),
    };
    address.split_at(host_ends.unwrap_or(address.len()))
}

/// A name, or an address other than the unspecified one. An IPv6 address is in brackets.
fn is_host(host: &str) -> bool {
    if let Some(rest) = host.strip_prefix('[') {
        let address = rest.strip_suffix(']').and_then(|address| address.parse().ok());
        return address.is_some_and(|address: Ipv6Addr| !address.is_unspecified());
    }
    !host.is_empty() && !host.contains(['<', '>', '[', ']', '\\', '^', '|']) && host != "0.0.0.0"
}

/// `:6379`; a server without a port has the usual one.
fn is_port(text: &str) -> bool {
    let Some(port) = text.strip_prefix(':') else { return text.is_empty() };
    port.bytes().all(|byte| byte.is_ascii_digit())
        && (port.is_empty() || port.parse::<u16>().is_ok())
}

/// `/2`, perhaps with a query.
fn is_database(text: &str) -> bool {
    let path = &text[..text.find(['?', '#']).unwrap_or(text.len())];
    let number = path.trim_matches('/');
    number.is_empty() || number.parse::<i64>().is_ok()
}

/// Reports the keys and limits that a rule with a store cannot have.
pub(super) fn check<'s>(
    reader: &mut Reader<'s>,
    store: &Value<'s>,
    rule: &DeTable<'s>,
    limits: &[RuleLimit],
) {
    for limit in limits {
        check_limit(reader, store, limit);
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

/// Reports an algorithm or a size that no store has.
fn check_limit<'s>(reader: &mut Reader<'s>, store: &Value<'s>, limit: &RuleLimit) {
    let by = limit.algorithm;
    let Some(stored) = by.in_stores else {
        let can = ALGORITHMS.iter().filter(|known| known.in_stores.is_some());
        let names: Vec<_> = can.map(|known| known.name).collect();
        let (by, names) = (by.name, quoted_list(&names));
        reader.error(store.span(), format!("a store cannot count by \"{by}\": write {names}"));
        return;
    };
    if let Some(max) = stored.max.filter(|max| limit.quota.limit() > max.cells) {
        reader.error(store.span(), max.message.to_owned());
    }
}
