//! `match`: which requests a rule applies to.

use toml::de::DeValue;

use super::fields::{Reader, Value};
use crate::matcher::{HeaderTest, Matcher};
use crate::path::Spelling;
use crate::pattern::{Pattern, Wrong};

const KEYS: &[&str] = &["path", "method", "host", "header"];
const ALIASES: &[(&str, &str)] = &[
    ("url", "write \"path\", and \"host\" if it matters"),
    ("headers", "write \"header\", as in header = { x-plan = \"free\" }"),
];

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
    let of_path = |text: &str| Pattern::of_path(text, spelling);
    let paths = table.get("path").map(|value| patterns(reader, value, "a path", of_path));
    let hosts = table.get("host").map(|value| patterns(reader, value, "a host", Pattern::of_host));
    let methods = table.get("method").map(|value| methods(reader, value));
    let headers = table.get("header").map(|value| headers(reader, value));
    Some(Matcher {
        paths: paths.unwrap_or_else(|| Some(Vec::new()))?,
        spelling,
        methods: methods.unwrap_or_else(|| Some(Vec::new()))?,
        hosts: hosts.unwrap_or_else(|| Some(Vec::new()))?,
        headers: headers.unwrap_or_else(|| Some(Vec::new()))?,
    })
}

fn patterns<'s>(
    reader: &mut Reader<'s>,
    value: &Value<'s>,
    what: &str,
    parse: impl Fn(&str) -> Result<Pattern, Wrong>,
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

fn headers<'s>(reader: &mut Reader<'s>, value: &Value<'s>) -> Option<Vec<(String, HeaderTest)>> {
    const NEEDED: &str = "a table is needed, as in header = { x-plan = \"free\", x-debug = true }";
    let DeValue::Table(table) = value.get_ref() else {
        reader.wrong_type(value, NEEDED);
        return None;
    };
    let mut headers = Vec::new();
    for (key, value) in table {
        let name: &str = key.get_ref();
        if !is_token(name) {
            reader.error(key.span(), "not the name of a header: write one such as x-plan".into());
        }
        let test = match value.get_ref() {
            DeValue::String(is) => Some(HeaderTest::Is(is.trim().to_owned())),
            DeValue::Boolean(true) => Some(HeaderTest::Present),
            DeValue::Boolean(false) => Some(HeaderTest::Absent),
            _ => {
                let needed = "a string (its value), true (any value) or false (no such header) is \
                              needed";
                reader.wrong_type(value, needed);
                None
            }
        };
        headers.push(test.map(|test| (name.to_ascii_lowercase(), test)));
    }
    headers.into_iter().collect()
}

/// Whether a header or a cookie can have this name.
pub(super) fn is_token(name: &str) -> bool {
    let is_tchar = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    !name.is_empty() && name.chars().all(is_tchar)
}
