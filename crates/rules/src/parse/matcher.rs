//! `match`: which requests a rule applies to.

use std::collections::HashSet;

use toml::de::{DeTable, DeValue};

use super::fields::{Reader, Value, or_default};
use crate::matcher::{
    Conditions, EXCEPTIONS_MAX, Matcher, Network, Networks, Pattern, PatternMistake,
    ValueCondition, ValueTest,
};
use crate::request::named::{self, Named};
use crate::request::path::Spelling;

const KEYS: &[&str] = &["path", "method", "host", "ip", "header", "query", "cookie", "not"];
const NOT_KEYS: &[&str] = &["path", "method", "host", "ip", "header", "query", "cookie"];
const ALIASES: &[(&str, &str)] = &[
    ("url", "write \"path\", and \"host\" if it matters"),
    ("headers", "write \"header\", as in header = { x-plan = \"free\" }"),
    ("cookies", "write \"cookie\", as in cookie = { session = true }"),
    ("params", "write \"query\", as in query = { page = true }"),
    ("cidr", "write \"ip\", as in ip = [\"10.0.0.0/8\"]"),
    ("client", "write \"ip\", as in ip = [\"10.0.0.0/8\"]"),
    ("except", "write \"not\", as in not = { path = \"/health\" }"),
    ("exclude", "write \"not\", as in not = { path = \"/health\" }"),
];
const NOT_ALIASES: &[(&str, &str)] =
    &[("not", "what is to hold belongs in match itself: leave this out")];

/// The tables of conditions on named values.
const NAMED: [NamedTable; 3] = [
    NamedTable {
        key: "header",
        needed: "a table is needed, as in header = { x-plan = \"free\", x-debug = true }",
        wrong_name: "not the name of a header: write one such as x-plan",
        is_name: named::is_token,
        named: |name| Named::Header(name.to_ascii_lowercase()),
    },
    NamedTable {
        key: "query",
        needed: "a table is needed, as in query = { page = true, format = \"json\" }",
        wrong_name: "not the name of a parameter: write one such as page, decoded",
        is_name: named::is_parameter,
        named: |name| Named::Query(name.to_owned()),
    },
    NamedTable {
        key: "cookie",
        needed: "a table is needed, as in cookie = { session = true, plan = \"free\" }",
        wrong_name: "not the name of a cookie: write one such as session",
        is_name: named::is_token,
        named: |name| Named::Cookie(name.to_owned()),
    },
];

/// A table of conditions on named values.
struct NamedTable {
    key: &'static str,
    needed: &'static str,
    wrong_name: &'static str,
    is_name: fn(&str) -> bool,
    named: fn(&str) -> Named,
}

pub(super) fn read<'s>(
    reader: &mut Reader<'s>,
    value: &Value<'s>,
    spelling: Spelling,
) -> Option<Matcher> {
    let DeValue::Table(table) = value.get_ref() else {
        let needed = "a table is needed, as in match = { path = \"/posts/**\", method = \"POST\" }";
        reader.wrong_type(value, needed);
        return None;
    };
    reader.only_keys(table, KEYS, ALIASES);
    let conditions = conditions(reader, table, spelling);
    let exceptions = or_default(table, "not", |given| exceptions(reader, given, spelling));
    Some(Matcher { conditions: conditions?, exceptions: exceptions?, spelling })
}

/// `not`: one table of conditions, or a list of them.
fn exceptions<'s>(
    reader: &mut Reader<'s>,
    value: &Value<'s>,
    spelling: Spelling,
) -> Option<Vec<Conditions>> {
    let items = match value.get_ref() {
        DeValue::Array(items) => items.iter().collect(),
        _ => vec![value],
    };
    if items.is_empty() || items.len() > EXCEPTIONS_MAX {
        let count = items.len();
        let message = format!("\"not\" has 1 to {EXCEPTIONS_MAX} tables; this one has {count}");
        reader.error(value.span(), message);
        return None;
    }
    let exceptions: Vec<_> =
        items.into_iter().map(|item| exception(reader, item, spelling)).collect();
    exceptions.into_iter().collect()
}

fn exception<'s>(
    reader: &mut Reader<'s>,
    value: &Value<'s>,
    spelling: Spelling,
) -> Option<Conditions> {
    let DeValue::Table(table) = value.get_ref() else {
        let needed = "a table is needed, as in not = { path = \"/health\" }, or a list of them";
        reader.wrong_type(value, needed);
        return None;
    };
    reader.only_keys(table, NOT_KEYS, NOT_ALIASES);
    if table.is_empty() {
        let message = "this excludes every request: write a condition, as in \
                       not = { path = \"/health\" }";
        reader.error(value.span(), message.to_owned());
        return None;
    }
    conditions(reader, table, spelling).filter(|its| !its.is_empty())
}

fn conditions<'s>(
    reader: &mut Reader<'s>,
    table: &DeTable<'s>,
    spelling: Spelling,
) -> Option<Conditions> {
    let of_path = |text: &str| Pattern::of_path(text, spelling);
    let paths = or_default(table, "path", |given| patterns(reader, given, "a path", of_path));
    let of_host = Pattern::of_host;
    let hosts = or_default(table, "host", |given| patterns(reader, given, "a host", of_host));
    let methods = or_default(table, "method", |given| methods(reader, given));
    let networks = or_default(table, "ip", |given| networks(reader, given));
    let values = NAMED.iter().filter_map(|kind| Some((kind, table.get(kind.key)?)));
    let values: Vec<_> = values.map(|(kind, value)| conditions_on(reader, value, kind)).collect();
    let values: Option<Vec<_>> = values.into_iter().collect();
    Some(Conditions {
        paths: paths?,
        methods: methods?,
        hosts: hosts?,
        networks: networks?,
        values: values?.concat(),
    })
}

fn patterns<'s>(
    reader: &mut Reader<'s>,
    value: &Value<'s>,
    what: &str,
    parse: impl Fn(&str) -> Result<Pattern, PatternMistake>,
) -> Option<Vec<Pattern>> {
    let mut patterns = Vec::new();
    for (value, text) in reader.strings(value, what)? {
        patterns.push(match parse(text) {
            Ok(pattern) => Some(pattern),
            Err((at, message)) => {
                reader.error_within(value, at..usize::MAX, message);
                None
            }
        });
    }
    patterns.into_iter().collect()
}

fn methods<'s>(reader: &mut Reader<'s>, value: &Value<'s>) -> Option<Vec<String>> {
    let mut methods = Vec::new();
    for (value, name) in reader.strings(value, "a method such as \"POST\"")? {
        let is_method =
            !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase() || c == '-');
        if !is_method {
            let upper = name.to_ascii_uppercase();
            let advice = match upper.chars().all(|c| c.is_ascii_uppercase()) && upper != name {
                true => format!("methods are in upper case: write \"{upper}\""),
                false => "not a method: write one such as \"GET\", or a list of them".to_owned(),
            };
            reader.error_in(value, advice);
        }
        methods.push(is_method.then(|| name.to_owned()));
    }
    methods.into_iter().collect()
}

fn networks<'s>(reader: &mut Reader<'s>, value: &Value<'s>) -> Option<Networks> {
    let mut networks = Vec::new();
    let mut seen = HashSet::new();
    for (value, text) in reader.strings(value, "a network such as \"10.0.0.0/8\"")? {
        let network = match Network::parse(text) {
            Ok(network) => Some(network),
            Err((at, message)) => {
                reader.error_within(value, at..usize::MAX, message);
                None
            }
        };
        if network.is_some_and(|network| !seen.insert(network)) {
            reader.error_in(value, "the list has this network already: leave it out".to_owned());
        }
        networks.push(network);
    }
    networks.into_iter().collect::<Option<_>>().map(Networks::new)
}

/// `header`, `query` or `cookie`: a condition for each name.
fn conditions_on<'s>(
    reader: &mut Reader<'s>,
    value: &Value<'s>,
    kind: &NamedTable,
) -> Option<Vec<ValueCondition>> {
    let DeValue::Table(table) = value.get_ref() else {
        reader.wrong_type(value, kind.needed);
        return None;
    };
    if table.is_empty() {
        let message = format!("an empty table: write a condition, or leave \"{}\" out", kind.key);
        reader.error(value.span(), message);
        return None;
    }
    let mut conditions = Vec::new();
    for (key, value) in table {
        let name: &str = key.get_ref();
        let is_name = (kind.is_name)(name);
        if !is_name {
            reader.error(key.span(), kind.wrong_name.to_owned());
        }
        let of = (kind.named)(name);
        let test = test(reader, value, &of);
        let condition = test.map(|test| ValueCondition { of, test });
        conditions.push(condition.filter(|_| is_name));
    }
    conditions.into_iter().collect()
}

fn test<'s>(reader: &mut Reader<'s>, value: &Value<'s>, of: &Named) -> Option<ValueTest> {
    match value.get_ref() {
        DeValue::String(is) if matches!(of, Named::Cookie(_)) => {
            if let Some(at) = is.find(';') {
                let message =
                    "a cookie ends at \";\", so none has this value: write the part before it";
                reader.error_within(value, at..usize::MAX, message.to_owned());
                return None;
            }
            Some(ValueTest::Is(named::cookie_value(is).to_owned()))
        }
        // Around the value of a header or a cookie, white space of ASCII means nothing.
        DeValue::String(is) if matches!(of, Named::Header(_)) => {
            Some(ValueTest::Is(is.trim_ascii().to_owned()))
        }
        DeValue::String(is) => Some(ValueTest::Is(is.clone().into_owned())),
        DeValue::Boolean(true) => Some(ValueTest::Present),
        DeValue::Boolean(false) => Some(ValueTest::Absent),
        _ => {
            let what = of.kind();
            let needed =
                format!("a string (its value), true (any value) or false (no such {what})");
            reader.wrong_type(value, &format!("{needed} is needed"));
            None
        }
    }
}
