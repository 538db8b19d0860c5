//! From text to rules: [`Rules::parse`]. The parser reports all mistakes at once.

mod bytes;
mod concurrency;
mod cost;
mod fields;
mod key;
mod limits;
mod matcher;
mod plan;
mod reach;
mod rule;
mod shared;
mod spot;
mod store;

use std::collections::HashMap;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::{RuleWarning, RulesError};
use crate::request::path::{Separator, Spelling};
use crate::rule::{Action, Apply, RULES_MAX, Rule, Rules};
use fields::{Reader, Value, optional, or_default};
use reach::Unreached;

/// More warnings are left out.
const WARNINGS_MAX: usize = 100;

const KEYS: &[&str] =
    &["apply", "encoded_slash", "backslash", "path_params", "path_case", "shared", "rule"];
const ALIASES: &[(&str, &str)] = &[
    ("rules", "write each rule under a heading [[rule]]"),
    ("name", "begin each rule with a line [[rule]]"),
    ("limits", "begin each rule with a line [[rule]]"),
    ("match", "begin each rule with a line [[rule]]"),
    ("mode", "write \"apply\""),
    ("share", "write \"shared\""),
];

impl Rules {
    /// Parses `text`. Messages name `file` as its origin.
    ///
    /// # Errors
    ///
    /// All mistakes in the text, each with its line, its column and what to write instead.
    ///
    /// ```
    /// use tollgate_rules::Rules;
    ///
    /// let errors = Rules::parse("rules.toml", "[[rule]]\nname = \"a\"\nlimits = \"5/fortnight\"")
    ///     .unwrap_err();
    /// assert_eq!(errors.to_string(), "\
    ///     rules.toml:3:13: expected a unit of time (ns, us, ms, s, min, h, d, w, y), \
    ///     as in \"10 per minute\"");
    /// ```
    pub fn parse(file: &str, text: &str) -> Result<Self, RulesError> {
        let mut reader = Reader::new(text);
        let (root, wrong) = DeTable::parse_recoverable(text);
        if !wrong.is_empty() {
            // The recovered part may be incomplete, so it is not checked.
            for error in wrong {
                let span = error.span().unwrap_or(0..0);
                reader.error(span, format!("not TOML: {}", error.message()));
            }
            return Err(RulesError::new(file, text, reader.mistakes));
        }
        match read(&mut reader, &root) {
            Some(rules) if reader.mistakes.is_empty() => Ok(rules),
            _ => Err(RulesError::new(file, text, reader.mistakes)),
        }
    }
}

fn read<'s>(reader: &mut Reader<'s>, root: &Spanned<DeTable<'s>>) -> Option<Rules> {
    let table = root.get_ref();
    reader.only_keys(table, KEYS, ALIASES);
    let words = [("all", Apply::All), ("first", Apply::First)];
    let apply = or_default(table, "apply", |given| reader.one_of(given, &words));
    // The rules are checked even if this is wrong.
    let spelling = spelling(reader, table);
    let shared = optional(table, "shared", |given| shared::name(reader, given));
    let Some(value) = table.get("rule") else {
        let none = "the file has no rules: begin each with a line [[rule]]";
        reader.error(0..0, none.to_owned());
        return None;
    };
    let rules = all_rules(reader, value, spelling);
    if let (true, Some((rules, places))) = (table.contains_key("shared"), &rules) {
        shared::check(reader, rules, places);
    }
    let (apply, shared, (rules, places)) = (apply?, shared?, rules?);
    let warnings = warnings(reader.text, apply, &rules, &places);
    Some(Rules { apply, shared, rules, warnings })
}

/// How the upstream reads paths.
fn spelling<'s>(reader: &mut Reader<'s>, table: &DeTable<'s>) -> Spelling {
    let mut one_of = |key: &str, words: &[(&str, Separator)]| {
        table.get(key).and_then(|value| reader.one_of(value, words)).unwrap_or_default()
    };
    let [deny, keep] = [("deny", Separator::Unclear), ("keep", Separator::Never)];
    let encoded_slash = one_of("encoded_slash", &[deny, ("decode", Separator::Always), keep]);
    let backslash = one_of("backslash", &[deny, ("slash", Separator::Always), keep]);
    let mut keeps = |key: &str| {
        let words = [("ignore", false), ("keep", true)];
        table.get(key).and_then(|value| reader.one_of(value, &words)).unwrap_or_default()
    };
    let (keeps_params, keeps_case) = (keeps("path_params"), keeps("path_case"));
    Spelling { encoded_slash, backslash, keeps_params, keeps_case }
}

fn all_rules<'s>(
    reader: &mut Reader<'s>,
    value: &Value<'s>,
    spelling: Spelling,
) -> Option<(Vec<Rule>, Vec<Range<usize>>)> {
    let DeValue::Array(items) = value.get_ref() else {
        reader.wrong_type(value, "a list of rules is needed: begin each with a line [[rule]]");
        return None;
    };
    if items.is_empty() || items.len() > RULES_MAX {
        let message = format!("a file has 1 to {RULES_MAX} rules; this one has {}", items.len());
        reader.error(value.span(), message);
    }
    let mut names = HashMap::new();
    let mut rules = Vec::new();
    for item in items.iter().take(RULES_MAX) {
        rules.push(rule::read(reader, item, spelling, &mut names));
    }
    let mut rules: Vec<Rule> = rules.into_iter().collect::<Option<_>>()?;
    rules.iter_mut().zip(1..).for_each(|(rule, number)| rule.number = number);
    let places = rules.iter().map(|rule| names[&rule.name].clone()).collect();
    Some((rules, places))
}

/// Warnings about rules that no request reaches. `places` are those of the rules' names.
fn warnings(text: &str, apply: Apply, rules: &[Rule], places: &[Range<usize>]) -> Vec<RuleWarning> {
    let unreached = reach::unreached(apply, rules).into_iter().take(WARNINGS_MAX);
    let warning = |(index, why): (usize, Unreached)| {
        let name = &rules[index].name;
        let message = match why {
            Unreached::Excluded { by_path } => {
                let readings = by_every_reading(by_path, false);
                format!(
                    "rule \"{name}\" is never reached, since its \"not\" excludes all that it matches{readings}: \
                     leave it out"
                )
            }
            Unreached::Covered(by) => {
                let (first, line) = (&rules[by], line_of(text, &places[by]));
                let does = match first.action {
                    Action::Limit => "goes first for",
                    Action::Exempt => "exempts",
                    Action::Deny => "denies",
                };
                let matcher = &first.matcher;
                // A rule denies by any reading.
                let readings = match first.action {
                    Action::Deny => "",
                    Action::Limit | Action::Exempt => {
                        by_every_reading(matcher.uses_path(), matcher.uses_method())
                    }
                };
                format!(
                    "rule \"{name}\" is never reached, since \"{}\" on line {line} {does} all that it \
                     matches{readings}: put it before, or leave it out",
                    first.name
                )
            }
        };
        RuleWarning::at(text, places[index].clone(), name, &message)
    };
    unreached.map(warning).collect()
}

/// The part of a warning that limits it to requests of which every reading matches.
fn by_every_reading(of_path: bool, of_method: bool) -> &'static str {
    match (of_path, of_method) {
        (false, false) => "",
        (true, false) => ", by every reading of the path",
        (false, true) => ", by every reading of the method",
        (true, true) => ", by every reading of the path and the method",
    }
}

/// The line of a place, counted from 1.
fn line_of(text: &str, place: &Range<usize>) -> usize {
    text[..place.start].matches('\n').count() + 1
}
