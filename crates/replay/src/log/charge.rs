//! The key and the cost of a request: which bucket it charges, and how much.

use std::borrow::Cow;
use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::str::FromStr;

use crate::log::fields::{Field, Fields, Malformed, Stamp};
use crate::log::logged_request::{LoggedRequest, client_address};
use crate::words;

/// Separates the parts of a combined key; no log field contains it.
pub(crate) const JOINT: char = '\u{1f}';

/// A key of more characters is shortened to [`KEPT_CHARS`], and a hash of the whole key. Its requests are still counted
/// by themselves, and a log of long values does not fill the memory with them.
const KEY_CHARS_MAX: usize = 256;
const KEPT_CHARS: usize = 200;

/// One request of a log, as far as a limiter needs it. The reader overwrites it with each line.
#[derive(Debug)]
pub(crate) struct LogEntry {
    pub(crate) stamp: Stamp,
    pub(crate) key: String,
    pub(crate) cost: u64,
    /// The parts that rules match; empty without a rules file.
    pub(crate) logged: LoggedRequest,
    /// Whether the server read a request of HTTP; true without a rules file.
    pub(crate) is_http: bool,
}

impl Default for LogEntry {
    fn default() -> Self {
        let stamp = Stamp { unix_nanos: 0, offset_secs: 0 };
        let logged = LoggedRequest::default();
        Self { stamp, key: String::new(), cost: 0, logged, is_http: true }
    }
}

/// How to charge a line: `--key` and `--cost`.
#[derive(Clone, Debug)]
pub(crate) struct Charge {
    pub(crate) key: Key,
    pub(crate) cost: Cost,
    /// The headers that the rules need; `None` without a rules file.
    pub(crate) headers: Option<Vec<String>>,
}

impl Charge {
    /// Fills `request` from a line.
    pub(crate) fn fill(
        &self,
        fields: &impl Fields,
        request: &mut LogEntry,
    ) -> Result<(), Malformed> {
        request.stamp = fields.stamp()?;
        request.cost = self.cost.of(fields)?;
        if let Some(headers) = &self.headers {
            request.logged = LoggedRequest::of(fields, headers);
            request.is_http = fields.is_http();
        }
        self.key.write(fields, &mut request.key)
    }

    /// The fields that each line must have.
    pub(crate) fn fields(&self) -> impl Iterator<Item = &Field> {
        let cost = match &self.cost.0 {
            Amount::Same(_) => None,
            Amount::In(field) => Some(field),
        };
        self.key.parts.iter().chain(cost)
    }
}

fn required<'f>(fields: &'f impl Fields, field: &Field) -> Result<Cow<'f, str>, Malformed> {
    fields.text(field).ok_or_else(|| Malformed::new(format!("the line has no `{field}`")))
}

/// The fields whose values name the bucket; no field means one bucket for all requests: `--key`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    text: String,
    parts: Vec<Field>,
}

impl Key {
    /// The client's address.
    pub(crate) fn client_address() -> Self {
        Self { text: "ip".to_owned(), parts: vec![Field::Ip] }
    }

    /// The text that this was parsed from.
    pub(crate) fn as_given(&self) -> &str {
        &self.text
    }

    fn write(&self, fields: &impl Fields, key: &mut String) -> Result<(), Malformed> {
        key.clear();
        for (index, field) in self.parts.iter().enumerate() {
            if index > 0 {
                key.push(JOINT);
            }
            key.push_str(&part(field, required(fields, field)?));
        }
        shorten(key);
        Ok(())
    }

    /// Whether the client's address is part of the key.
    pub(crate) fn has_address(&self) -> bool {
        self.parts.contains(&Field::Ip)
    }

    /// A key as a list writes it, with spaces between its parts: its addresses are written as those of a log, and a
    /// long key is shortened as those are.
    pub(crate) fn as_listed(&self, line: &str) -> String {
        let mut key = line.to_owned();
        if self.has_address() {
            let words = line.split(' ').map(|word| part(&Field::Ip, Cow::Borrowed(word)));
            key = words.collect::<Vec<_>>().join(" ");
        }
        shorten(&mut key);
        key
    }
}

/// Shortens a key of more than 256 characters. It counts and hashes characters as a report shows them, so that a key of
/// the log and the same key of a list are shortened alike.
pub(crate) fn shorten(key: &mut String) {
    // A character has at least a byte.
    if key.len() <= KEY_CHARS_MAX || key.chars().nth(KEY_CHARS_MAX).is_none() {
        return;
    }
    let mut hasher = DefaultHasher::new();
    readable(key).hash(&mut hasher);
    let kept = key.char_indices().nth(KEPT_CHARS).map_or(key.len(), |(at, _)| at);
    key.truncate(kept);
    write!(key, "~{:016x}", hasher.finish()).expect("a string takes everything");
}

/// The part of a key for this field. All spellings of an address are one part, as in a rule.
fn part<'t>(field: &Field, text: Cow<'t, str>) -> Cow<'t, str> {
    match field {
        Field::Ip => match client_address(&text) {
            Some(address) => Cow::Owned(address.to_canonical().to_string()),
            None => text,
        },
        _ => text,
    }
}

/// A key for a terminal: its parts separated by spaces, without characters that the terminal obeys.
pub(crate) fn readable(key: &str) -> String {
    if key.is_empty() {
        return "(all)".to_owned();
    }
    key.chars()
        .map(|letter| match letter {
            JOINT => ' ',
            letter if words::is_obeyed(letter) => char::REPLACEMENT_CHARACTER,
            letter => letter,
        })
        .collect()
}

impl FromStr for Key {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = match text {
            "none" => Vec::new(),
            _ => text.split('+').map(key_part).collect::<Result<_, _>>()?,
        };
        Ok(Self { text: text.to_owned(), parts })
    }
}

fn key_part(text: &str) -> Result<Field, String> {
    match text {
        "ip" => Ok(Field::Ip),
        "user" => Ok(Field::User),
        "path" => Ok(Field::Path),
        "method" => Ok(Field::Method),
        _ => match text.strip_prefix("field:") {
            Some(name) if !name.is_empty() => Ok(Field::Named(name.to_owned())),
            _ => Err(format!(
                "`{text}` is not a key: use ip, user, path, method, field:NAME or none, \
                 or several joined with +, as in ip+path"
            )),
        },
    }
}

/// How many cells a request costs: `--cost`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cost(Amount);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Amount {
    /// The same for every request.
    Same(u64),
    /// The number in this field.
    In(Field),
}

impl Cost {
    /// Every request costs one cell.
    pub(crate) const ONE: Self = Self(Amount::Same(1));

    /// The line of a rules file with this cost, a comment where the file needs what a log does not tell. `None`: it is
    /// the cost of a rule without such a line.
    pub(crate) fn of_rule(&self) -> Option<String> {
        Some(match &self.0 {
            Amount::Same(1) => return None,
            Amount::Same(cells) => format!("cost = {cells}"),
            Amount::In(Field::Bytes) => {
                "# cost = { bytes = \"response\", estimate = … }".to_owned()
            }
            Amount::In(field) => format!("# cost = … : the number that the log has as {field}"),
        })
    }

    fn of(&self, fields: &impl Fields) -> Result<u64, Malformed> {
        match &self.0 {
            Amount::Same(cost) => Ok(*cost),
            Amount::In(field) => {
                let text = required(fields, field)?;
                text.trim().parse().map_err(|_| {
                    Malformed::new(format!("`{field}` is {text:?}, a cost is a whole number"))
                })
            }
        }
    }
}

impl FromStr for Cost {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let amount = if text == "bytes" {
            Amount::In(Field::Bytes)
        } else if let Some(name) = text.strip_prefix("field:").filter(|name| !name.is_empty()) {
            Amount::In(Field::Named(name.to_owned()))
        } else {
            match text.parse() {
                Ok(0) => return Err("a cost of 0 is never denied: use at least 1".to_owned()),
                Ok(cost) => Amount::Same(cost),
                Err(_) => {
                    return Err(format!(
                        "`{text}` is not a cost: use a whole number, bytes or field:NAME"
                    ));
                }
            }
        };
        Ok(Self(amount))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::fields::Header;

    struct Line;

    impl Fields for Line {
        fn stamp(&self) -> Result<Stamp, Malformed> {
            Ok(Stamp { unix_nanos: 7, offset_secs: 0 })
        }

        fn target(&self) -> Option<Cow<'_, str>> {
            Some("/a".into())
        }

        fn text(&self, field: &Field) -> Option<Cow<'_, str>> {
            match field {
                Field::Ip => Some("1.2.3.4".into()),
                Field::Path => Some("/a".into()),
                Field::Bytes => Some("17".into()),
                Field::Named(name) if name == "half" => Some("0.5".into()),
                _ => None,
            }
        }

        fn header(&self, _: &str) -> Header<'_> {
            Header::NotInLog
        }

        fn query(&self) -> Header<'_> {
            Header::NotInLog
        }
    }

    fn filled(key: &str, cost: &str) -> Result<LogEntry, Malformed> {
        let (key, cost) = (key.parse().unwrap(), cost.parse().unwrap());
        let charge = Charge { key, cost, headers: None };
        let mut request = LogEntry::default();
        charge.fill(&Line, &mut request).map(|()| request)
    }

    #[test]
    fn a_key_joins_its_parts() {
        assert_eq!(filled("ip", "1").unwrap().key, "1.2.3.4");
        assert_eq!(filled("none", "1").unwrap().key, "");
        assert_eq!(readable(&filled("ip+path", "1").unwrap().key), "1.2.3.4 /a");
        assert_eq!(filled("user", "1").unwrap_err().to_string(), "the line has no `user`");
    }

    #[test]
    fn an_address_has_one_spelling_and_other_fields_stay_as_they_are() {
        let ip = |text| part(&Field::Ip, Cow::Borrowed(text));
        for text in ["203.0.113.7", "203.0.113.7:80", "::ffff:203.0.113.7"] {
            assert_eq!(ip(text), "203.0.113.7");
        }
        assert_eq!(
            (ip("[2001:DB8::1]:80"), ip("fe80::1%lo")),
            ("2001:db8::1".into(), "fe80::1".into())
        );
        assert_eq!((ip("a.example:80"), ip("-")), ("a.example:80".into(), "-".into()));
        assert_eq!(part(&Field::User, Cow::Borrowed("1.2.3.4:80")), "1.2.3.4:80");
        let listed = |key: &str| key.parse::<Key>().unwrap().as_listed("[::1]:80 /a");
        assert_eq!(
            (listed("ip+path"), listed("user+path")),
            ("::1 /a".into(), "[::1]:80 /a".into())
        );
    }

    #[test]
    fn a_long_key_is_shortened_alike_in_a_log_and_in_a_list() {
        let shortened = |key: &str| {
            let mut key = key.to_owned();
            shorten(&mut key);
            key
        };
        let (long, longer) = ("é".repeat(256), "é".repeat(1 << 20));
        assert_eq!(shortened(&long), long);
        let short = shortened(&longer);
        assert_eq!(short.chars().count(), 217);
        assert!(short.starts_with(&format!("{}~", "é".repeat(200))), "{short}");
        assert_ne!(short, shortened(&format!("{longer}e")));
        let of_log = |tail: &str| shortened(&format!("1.2.3.4{JOINT}/\t{}{tail}", "a".repeat(246)));
        let listed = |tail: &str| {
            let key: Key = "ip+path".parse().unwrap();
            key.as_listed(&format!("1.2.3.4 /\u{fffd}{}{tail}", "a".repeat(246)))
        };
        for tail in ["", "b", "bc"] {
            assert_eq!(readable(&of_log(tail)), listed(tail), "{tail}");
            assert_eq!(of_log(tail).contains('~'), !tail.is_empty(), "{tail}");
        }
        assert_ne!(listed("b"), listed("c"));
    }

    #[test]
    fn a_cost_is_a_whole_number() {
        assert_eq!(filled("ip", "3").unwrap().cost, 3);
        assert_eq!(filled("ip", "bytes").unwrap().cost, 17);
        let error = filled("ip", "field:half").unwrap_err().to_string();
        assert_eq!(error, "`field:half` is \"0.5\", a cost is a whole number");
    }

    #[test]
    fn wrong_options_say_what_to_write() {
        for text in ["", "+", "ip+", "colour", "field:"] {
            assert!(text.parse::<Key>().unwrap_err().contains("field:NAME"), "{text}");
        }
        for text in ["", "-1", "1.5", "field:", "many"] {
            assert!(text.parse::<Cost>().unwrap_err().contains("whole number"), "{text}");
        }
        assert!("0".parse::<Cost>().unwrap_err().contains("at least 1"));
    }

    #[test]
    fn characters_in_a_key_that_a_terminal_obeys_are_replaced() {
        assert_eq!(readable("a\u{1b}[31m\n"), "a\u{fffd}[31m\u{fffd}");
        assert_eq!(readable("a\u{202e}b\u{2066}é"), "a\u{fffd}b\u{fffd}é");
        assert_eq!(readable(""), "(all)");
    }
}
