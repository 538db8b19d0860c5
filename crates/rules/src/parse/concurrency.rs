//! `concurrency`: how many requests of a key may be in flight.

use toml::de::{DeTable, DeValue};

use super::fields::{Reader, Value};
use super::limits::span;
use crate::rule::Concurrency;

/// The most that the library can count: see `tollgate::concurrency`.
const LIMIT_MAX: u64 = 4_194_303;
const LIMIT_MAX_WITH_HOLD: u64 = 65_535;
const HOLD_MIN_SECS: u64 = 1;
const KEYS: &[&str] = &["limit", "max_hold"];
const ALIASES: &[(&str, &str)] = &[
    ("max", "write \"limit\""),
    ("timeout", "write \"max_hold\""),
    ("hold", "write \"max_hold\""),
];
const NEEDED: &str =
    "a whole number such as 10, or a table such as { limit = 10, max_hold = \"10 min\" },";

/// A number, or a table with one.
pub(super) fn read<'s>(reader: &mut Reader<'s>, value: &Value<'s>) -> Option<Concurrency> {
    match value.get_ref() {
        DeValue::Integer(_) => {
            Some(Concurrency { limit: reader.number(value, 1, LIMIT_MAX)?, max_hold: None })
        }
        DeValue::Table(table) => read_table(reader, value, table),
        _ => {
            reader.wrong_type(value, &format!("{NEEDED} is needed"));
            None
        }
    }
}

fn read_table<'s>(
    reader: &mut Reader<'s>,
    value: &Value<'s>,
    table: &DeTable<'s>,
) -> Option<Concurrency> {
    reader.only_keys(table, KEYS, ALIASES);
    let max_hold = match table.get("max_hold") {
        Some(given) => span(reader, given).map(|hold| (hold, given)).map(Some),
        None => Some(None),
    };
    if let Some(Some((hold, given))) = max_hold
        && hold.as_secs() < HOLD_MIN_SECS
    {
        let message = "shorter than 1 s: write a time that no request takes, such as \"10 min\"";
        reader.error_in(given, message.to_owned());
    }
    let Some(given) = table.get("limit") else {
        let message = "the number of requests is missing: write, for example, { limit = 10 }";
        reader.error(value.span(), message.to_owned());
        return None;
    };
    let most = match table.contains_key("max_hold") {
        true => LIMIT_MAX_WITH_HOLD,
        false => LIMIT_MAX,
    };
    let limit = reader.number(given, 1, most);
    Some(Concurrency { limit: limit?, max_hold: max_hold?.map(|(hold, _)| hold) })
}
