//! `cost`: how many cells a request costs.

use toml::de::{DeTable, DeValue};

use super::fields::{Reader, Value, quoted_list};
use crate::request::named;
use crate::rule::{ALGORITHMS, Estimate, RuleCost, RuleLimit, SettleBy};

const CELLS_MAX: u64 = 1_000_000_000;
const KEYS: &[&str] = &["header", "response_header", "bytes", "estimate", "max", "default"];
const ESTIMATE_KEYS: &[&str] = &["header", "max", "default"];
const ALIASES: &[(&str, &str)] = &[
    ("cells", "write cost = 5"),
    ("response", "write response_header = \"x-tokens\", or bytes = \"response\""),
    ("request", "write header = \"x-cost\", or bytes = \"request\""),
];
const NEEDED: &str =
    "a whole number such as 5, or a table such as { header = \"x-cost\", max = 100 },";
const NEEDED_ESTIMATE: &str = "a whole number such as 500, or a table such as { header = \"x-max-tokens\", max = \
                               4096, default = 500 },";

/// The part of the request or of its response that the cost comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CostSource {
    Header,
    ResponseHeader,
    RequestBytes,
    ResponseBytes,
}

pub(super) fn read<'s>(reader: &mut Reader<'s>, value: &Value<'s>) -> Option<RuleCost> {
    let table = match value.get_ref() {
        DeValue::Integer(_) => {
            let estimate = Estimate::Fixed(reader.number(value, 1, CELLS_MAX)?);
            return Some(RuleCost { estimate, settle: None });
        }
        DeValue::Table(table) => table,
        _ => {
            reader.wrong_type(value, &format!("{NEEDED} is needed"));
            return None;
        }
    };
    reader.only_keys(table, KEYS, ALIASES);
    let source = source(reader, value, table)?;
    let is_response = matches!(source, CostSource::ResponseHeader | CostSource::ResponseBytes);
    for (key, belongs) in [("default", !is_response), ("estimate", is_response)] {
        if let (Some(value), false) = (table.get(key), belongs) {
            let message = match is_response {
                true => "a response without a number leaves the estimate: leave this out",
                false => "only what a response settles is estimated: leave this out",
            };
            reader.error(value.span(), message.to_owned());
        }
    }
    if !is_response {
        let estimate = match source {
            CostSource::Header => header_estimate(reader, value, table)?,
            _ => {
                let (max, default) = bounds(reader, value, table, None)?;
                Estimate::Length { max, default }
            }
        };
        return Some(RuleCost { estimate, settle: None });
    }
    let max = match table.get("max") {
        Some(value) => reader.number(value, 1, CELLS_MAX),
        None => Some(CELLS_MAX),
    };
    let by = match (source, table.get("response_header")) {
        (CostSource::ResponseHeader, Some(value)) => {
            let name = header_name(reader, value);
            name.zip(max).map(|(name, max)| SettleBy::Header { name, max })
        }
        _ => max.map(|max| SettleBy::Bytes { max }),
    };
    let estimate = estimate(reader, value, table);
    if let (Some(Estimate::Fixed(cells)), Some(max)) = (&estimate, max)
        && *cells > max
        && let Some(given) = table.get("estimate")
    {
        let message = "more than \"max\", which bounds what the response can settle it for: lower this, or raise \
                       \"max\"";
        reader.error(given.span(), message.to_owned());
    }
    Some(RuleCost { estimate: estimate?, settle: Some(by?) })
}

/// The one source that the table names.
fn source<'s>(
    reader: &mut Reader<'s>,
    value: &Value<'s>,
    table: &DeTable<'s>,
) -> Option<CostSource> {
    let given: Vec<_> = ["header", "response_header", "bytes"]
        .into_iter()
        .filter_map(|key| table.get(key).map(|value| (key, value)))
        .collect();
    match given[..] {
        [("header", _)] => Some(CostSource::Header),
        [("response_header", _)] => Some(CostSource::ResponseHeader),
        [("bytes", value)] => {
            let words =
                [("request", CostSource::RequestBytes), ("response", CostSource::ResponseBytes)];
            reader.one_of(value, &words)
        }
        _ => {
            let message = "a cost has one source: write header = \"x-cost\", response_header = \"x-tokens\", bytes = \
                           \"request\" or bytes = \"response\"";
            reader.error(value.span(), message.to_owned());
            None
        }
    }
}

fn header_name<'s>(reader: &mut Reader<'s>, value: &Value<'s>) -> Option<String> {
    let name = reader.string(value, "the name of a header, such as \"x-cost\",")?;
    if !named::is_token(name) {
        reader.error_in(value, "not the name of a header: write one such as \"x-cost\"".to_owned());
        return None;
    }
    Some(name.to_ascii_lowercase())
}

fn header_estimate<'s>(
    reader: &mut Reader<'s>,
    value: &Value<'s>,
    table: &DeTable<'s>,
) -> Option<Estimate> {
    let name = match table.get("header") {
        Some(value) => header_name(reader, value),
        None => {
            let message = "the header is missing: write, for example, header = \"x-max-tokens\"";
            reader.error(value.span(), message.to_owned());
            None
        }
    };
    let bounds = bounds(reader, value, table, Some(1));
    let (name, (max, default)) = (name?, bounds?);
    Some(Estimate::Header { name, max, default })
}

/// `max` and `default`. A number that a client writes must have a `max`. Without `default`, it is `usual`, or else `max`.
fn bounds<'s>(
    reader: &mut Reader<'s>,
    value: &Value<'s>,
    table: &DeTable<'s>,
    usual: Option<u64>,
) -> Option<(u64, u64)> {
    let Some(given) = table.get("max") else {
        let message = "a client may write any number: bound it, for example by max = 100";
        reader.error(value.span(), message.to_owned());
        return None;
    };
    let max = reader.number(given, 1, CELLS_MAX);
    let default = match (table.get("default"), max) {
        (Some(value), max) => reader.number(value, 1, max.unwrap_or(CELLS_MAX)),
        (None, max) => usual.or(max),
    };
    max.zip(default)
}

/// `estimate`: the charge of a request until its response settles the cost.
fn estimate<'s>(
    reader: &mut Reader<'s>,
    value: &Value<'s>,
    table: &DeTable<'s>,
) -> Option<Estimate> {
    let Some(given) = table.get("estimate") else {
        let message =
            "a request is charged before its response: write, for example, estimate = 500";
        reader.error(value.span(), message.to_owned());
        return None;
    };
    match given.get_ref() {
        DeValue::Integer(_) => reader.number(given, 1, CELLS_MAX).map(Estimate::Fixed),
        DeValue::Table(table) => {
            reader.only_keys(table, ESTIMATE_KEYS, &[]);
            header_estimate(reader, given, table)
        }
        _ => {
            reader.wrong_type(given, &format!("{NEEDED_ESTIMATE} is needed"));
            None
        }
    }
}

/// The mistake in an estimate that is more than a limit ever admits at once. Each request that does not say its cost
/// would be denied for ever. The length of a body has none: its `default` is how a rule denies bodies of unknown length.
fn never_admitted(estimate: &Estimate, at_once: u64) -> Option<String> {
    let more = format!("more than the {at_once} cells that a limit admits at once");
    let raise = "or raise the limit or its burst";
    match estimate {
        Estimate::Fixed(cells) if *cells > at_once => {
            Some(format!("{more}, so no request could pass: lower this, {raise}"))
        }
        Estimate::Header { default, .. } if *default > at_once => Some(format!(
            "a request without a number costs {default}, {more}, so none could pass: lower \"default\", {raise}"
        )),
        Estimate::Fixed(_) | Estimate::Header { .. } | Estimate::Length { .. } => None,
    }
}

/// Reports the keys and limits that a rule with `cost` cannot have.
pub(super) fn check<'s>(
    reader: &mut Reader<'s>,
    value: &Value<'s>,
    cost: &RuleCost,
    rule: &DeTable<'s>,
    limits: &[RuleLimit],
) {
    if limits.is_empty() {
        let message = "the rule has no quota that this could be charged to: add \"limits\", or leave this out";
        reader.error(value.span(), message.to_owned());
    }
    let at_once = RuleLimit::most_at_once(limits, rule.contains_key("plan"));
    if let Some(message) = at_once.and_then(|at_once| never_admitted(&cost.estimate, at_once)) {
        reader.error(value.span(), message);
    }
    if cost.settle.is_none() {
        return;
    }
    if rule.contains_key("store") {
        let message =
            "a store settles nothing: take the cost from the request, or leave out the store";
        reader.error(value.span(), message.to_owned());
    }
    if let Some(limit) = limits.iter().find(|limit| !limit.algorithm.can_settle()) {
        let can: Vec<_> =
            ALGORITHMS.iter().filter(|its| its.can_settle()).map(|known| known.name).collect();
        let (name, can) = (limit.algorithm.name, quoted_list(&can));
        let message = format!("\"{name}\" cannot settle a cost by the response: write {can}");
        reader.error(value.span(), message);
    }
}
