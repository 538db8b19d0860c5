//! Values of the expected type, or errors about them.

use std::ops::Range;

use tollgate::{Quota, QuotaError};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::spot::{spot, word_at};
use crate::error::Mistakes;

pub(super) type Value<'s> = Spanned<DeValue<'s>>;

/// The text and the errors found in it so far. A method that returns `None` has reported why.
#[derive(Debug)]
pub(super) struct Reader<'s> {
    pub(super) text: &'s str,
    pub(super) mistakes: Mistakes,
}

impl<'s> Reader<'s> {
    pub(super) fn new(text: &'s str) -> Self {
        Self { text, mistakes: Mistakes::default() }
    }

    pub(crate) fn error(&mut self, span: Range<usize>, message: String) {
        self.mistakes.add(span, &message);
    }

    /// An error about all of a string's content.
    pub(super) fn error_in(&mut self, value: &Value<'s>, message: String) {
        self.error_within(value, 0..usize::MAX, message);
    }

    /// An error about some bytes of a string's content.
    pub(super) fn error_within(
        &mut self,
        value: &Value<'s>,
        within: Range<usize>,
        message: String,
    ) {
        self.error(spot(self.text, value, within), message);
    }

    pub(super) fn wrong_type(&mut self, value: &Value<'s>, needed: &str) {
        let found = match value.get_ref() {
            DeValue::String(_) => "a string",
            DeValue::Integer(_) => "a whole number",
            DeValue::Float(_) => "a fraction",
            DeValue::Boolean(_) => "true or false",
            DeValue::Datetime(_) => "a time",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        self.error(value.span(), format!("{found}, where {needed}"));
    }

    pub(super) fn string<'v>(&mut self, value: &'v Value<'s>, what: &str) -> Option<&'v str> {
        let string = value.get_ref().as_str();
        if string.is_none() {
            self.wrong_type(value, &format!("{what} is needed"));
        }
        string
    }

    pub(super) fn boolean(&mut self, value: &Value<'s>) -> Option<bool> {
        let boolean = value.get_ref().as_bool();
        if boolean.is_none() {
            self.wrong_type(value, "true or false is needed");
        }
        boolean
    }

    /// A whole number from `min` to `max`.
    pub(super) fn number(&mut self, value: &Value<'s>, min: u64, max: u64) -> Option<u64> {
        let DeValue::Integer(integer) = value.get_ref() else {
            self.wrong_type(value, &format!("a whole number from {min} to {max} is needed"));
            return None;
        };
        let number = u64::from_str_radix(integer.as_str(), integer.radix()).ok();
        let number = number.filter(|number| (min..=max).contains(number));
        if number.is_none() {
            self.error(value.span(), format!("out of range: write a number from {min} to {max}"));
        }
        number
    }

    /// One of these words; returns what it means.
    pub(super) fn one_of<T: Copy>(&mut self, value: &Value<'s>, words: &[(&str, T)]) -> Option<T> {
        let names: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let needed = quoted_list(&names);
        let found = self.string(value, &needed)?;
        let meant = words.iter().find(|(word, _)| *word == found).map(|(_, meaning)| *meaning);
        if meant.is_none() {
            self.error_in(value, format!("unknown value \"{found}\": write {needed}"));
        }
        meant
    }

    /// One string, or a list of at least one. Each comes with its value, for error positions.
    pub(super) fn strings<'v>(
        &mut self,
        value: &'v Value<'s>,
        what: &str,
    ) -> Option<Vec<(&'v Value<'s>, &'v str)>> {
        let DeValue::Array(items) = value.get_ref() else {
            let needed = format!("{what}, or a list of them,");
            return self.string(value, &needed).map(|string| vec![(value, string)]);
        };
        if items.is_empty() {
            self.error(value.span(), format!("an empty list: write {what}, or leave the line out"));
            return None;
        }
        let strings: Vec<_> =
            items.iter().map(|item| Some((item, self.string(item, what)?))).collect();
        strings.into_iter().collect()
    }

    pub(super) fn quota(&mut self, value: &Value<'s>) -> Option<Quota> {
        let text = self.string(value, "a quota such as \"100/s burst 20\"")?;
        match text.parse() {
            Ok(quota) => Some(quota),
            Err(QuotaError::Syntax { column, expected }) => {
                let message = format!("expected {expected}");
                self.error_within(value, word_at(text, column), message);
                None
            }
            Err(QuotaError::Range { column, error }) => {
                self.error_within(value, word_at(text, column), error.to_string());
                None
            }
            Err(error) => {
                self.error_in(value, error.to_string());
                None
            }
        }
    }

    /// Reports every key that is not one of `known`, with what to write instead.
    pub(super) fn only_keys(
        &mut self,
        table: &DeTable<'s>,
        known: &[&str],
        aliases: &[(&str, &str)],
    ) {
        for key in table.keys() {
            let name: &str = key.get_ref();
            if known.contains(&name) {
                continue;
            }
            let advice = match aliases.iter().find(|(alias, _)| *alias == name) {
                Some((_, advice)) => (*advice).to_owned(),
                None => match nearest(name, known) {
                    Some(meant) => format!("write \"{meant}\""),
                    None => format!("the keys here are {}", known.join(", ")),
                },
            };
            self.error(key.span(), format!("unknown key \"{name}\": {advice}"));
        }
    }
}

/// The value of a key, or the default if the key is left out. `None`: the value is wrong, which `read` has reported.
pub(super) fn or_default<'s, T: Default>(
    table: &DeTable<'s>,
    key: &str,
    read: impl FnOnce(&Value<'s>) -> Option<T>,
) -> Option<T> {
    table.get(key).map_or_else(|| Some(T::default()), read)
}

/// The value of a key; `Some(None)` if the key is left out. `None`: the value is wrong, which `read` has reported.
#[allow(clippy::option_option, reason = "left out, or wrong")]
pub(super) fn optional<'s, T>(
    table: &DeTable<'s>,
    key: &str,
    read: impl FnOnce(&Value<'s>) -> Option<T>,
) -> Option<Option<T>> {
    or_default(table, key, |value| read(value).map(Some))
}

/// `"a", "b" or "c"`.
pub(super) fn quoted_list(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
    match quoted.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        _ => quoted.concat(),
    }
}

/// The word that was probably meant: at most two edits away, and fewer than its length.
fn nearest<'k>(name: &str, known: &[&'k str]) -> Option<&'k str> {
    let distances = known.iter().map(|word| (distance(name, word), *word));
    let (edits, word) = distances.min_by_key(|(distance, _)| *distance)?;
    (edits <= 2 && edits < word.len().min(name.len())).then_some(word)
}

/// Levenshtein distance: how many letters must be inserted, removed or changed.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, a) in a.chars().take(64).enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in b.iter().enumerate() {
            let changed = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_listed_with_an_or_between_the_last_two() {
        assert_eq!(quoted_list(&["a"]), "\"a\"");
        assert_eq!(quoted_list(&["a", "b"]), "\"a\" or \"b\"");
        assert_eq!(quoted_list(&["a", "b", "c"]), "\"a\", \"b\" or \"c\"");
    }

    #[test]
    fn the_nearest_word_is_suggested_if_at_most_two_letters_differ() {
        let known = ["name", "match", "limits", "key"];
        for (name, meant) in [
            ("limit", Some("limits")),
            ("matches", Some("match")),
            ("nmae", Some("name")),
            ("kez", Some("key")),
            ("ek", None),
            ("lim", None),
            ("limpet", None),
            ("xxxkey", None),
            ("ab", None),
            ("burst", None),
        ] {
            assert_eq!(nearest(name, &known), meant, "{name}");
        }
    }
}
