//! Lists of structured fields (RFC 9651) whose items have parameters. Members that are inner lists are not read.

/// An item of a list by its parameters.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Item<'a> {
    parameters: Vec<(&'a str, Value<'a>)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value<'a> {
    Integer(i64),
    /// A string with its escapes, or a token.
    Text(&'a str),
    /// Of a type that no parameter of ours has: bytes, a boolean, a decimal, a date or a display string.
    Other,
}

impl Item<'_> {
    /// A parameter that is an integer and not negative. The last of a name counts.
    pub(crate) fn integer(&self, name: &str) -> Option<u64> {
        match self.last(name)? {
            Value::Integer(integer) => u64::try_from(integer).ok(),
            Value::Text(_) | Value::Other => None,
        }
    }

    /// A parameter that is a string or a token.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        match self.last(name)? {
            Value::Text(text) => Some(text),
            Value::Integer(_) | Value::Other => None,
        }
    }

    fn last(&self, name: &str) -> Option<Value<'_>> {
        let named = self.parameters.iter().rev().find(|(its, _)| *its == name);
        named.map(|(_, value)| *value)
    }
}

/// All items of a field, or `None` if it is malformed anywhere: the RFC has it ignored then.
pub(crate) fn list(field: &str) -> Option<Vec<Item<'_>>> {
    let mut rest = field.trim_matches(' ');
    let mut items = Vec::new();
    while !rest.is_empty() {
        let (item, after) = item(rest)?;
        items.push(item);
        rest = after.trim_start_matches([' ', '\t']);
        if let Some(next) = rest.strip_prefix(',') {
            rest = next.trim_start_matches([' ', '\t']);
            // A comma at the end is malformed.
            if rest.is_empty() {
                return None;
            }
        } else if !rest.is_empty() {
            return None;
        }
    }
    Some(items)
}

fn item(field: &str) -> Option<(Item<'_>, &str)> {
    let (_, mut rest) = value(field)?;
    let mut item = Item::default();
    while let Some(after) = rest.strip_prefix(';') {
        let after = after.trim_start_matches(' ');
        let end = after.find(|c: char| !is_key(c)).unwrap_or(after.len());
        let (key, after) = after.split_at(end);
        if !key.starts_with(|first: char| first.is_ascii_lowercase() || first == '*') {
            return None;
        }
        let (value, after) = match after.strip_prefix('=') {
            Some(after) => value(after)?,
            // It is true.
            None => (Value::Other, after),
        };
        item.parameters.push((key, value));
        rest = after;
    }
    Some((item, rest))
}

fn is_key(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-' | '.' | '*')
}

fn value(field: &str) -> Option<(Value<'_>, &str)> {
    match field.bytes().next()? {
        b'"' => string(&field[1..]),
        b'-' | b'0'..=b'9' => number(field),
        b':' => {
            let end = 1 + field[1..].find(':')?;
            field[1..end].bytes().all(is_base64).then(|| (Value::Other, &field[end + 1..]))
        }
        b'?' => field[1..].strip_prefix(['0', '1']).map(|rest| (Value::Other, rest)),
        b'@' => match number(&field[1..])? {
            (Value::Integer(_), rest) => Some((Value::Other, rest)),
            _ => None,
        },
        b'%' => display_string(field.strip_prefix("%\"")?),
        first if first.is_ascii_alphabetic() || first == b'*' => {
            let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~:/".contains(c);
            let end = field.find(|c| !is_token(c)).unwrap_or(field.len());
            Some((Value::Text(&field[..end]), &field[end..]))
        }
        _ => None,
    }
}

/// The rest of a string, after its first quote.
fn string(field: &str) -> Option<(Value<'_>, &str)> {
    let mut bytes = field.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'"' => return Some((Value::Text(&field[..at]), &field[at + 1..])),
            b'\\' => match bytes.next()?.1 {
                b'"' | b'\\' => {}
                _ => return None,
            },
            b' '..=b'~' => {}
            _ => return None,
        }
    }
    None
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')
}

/// The rest of a display string, after its first quote.
fn display_string(field: &str) -> Option<(Value<'_>, &str)> {
    let mut bytes = field.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'"' => return Some((Value::Other, &field[at + 1..])),
            b'%' => {
                for _ in 0..2 {
                    let is_hex = matches!(bytes.next()?.1, b'0'..=b'9' | b'a'..=b'f');
                    is_hex.then_some(())?;
                }
            }
            b' '..=b'~' => {}
            _ => return None,
        }
    }
    None
}

/// An integer of at most 15 digits, or a decimal of at most 12 and 3.
fn number(field: &str) -> Option<(Value<'_>, &str)> {
    let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let unsigned = field.strip_prefix('-').unwrap_or(field);
    let length = digits(unsigned);
    let (text, rest) = field.split_at(field.len() - unsigned.len() + length);
    match rest.strip_prefix('.') {
        Some(rest) => {
            let places = digits(rest);
            let fits = (1..=12).contains(&length) && (1..=3).contains(&places);
            fits.then(|| (Value::Other, &rest[places..]))
        }
        None if (1..=15).contains(&length) => Some((Value::Integer(text.parse().ok()?), rest)),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_of_other_types_are_passed_over() {
        for other in
            [":cHsdsRa894==:", "::", "?1", "-1.5", "123456789012.125", "@-5", r#"%"caf%c3%a9""#]
        {
            let field = format!(r#""a";q=1;x={other};w=60, "b";q={other}"#);
            let items = list(&field).expect(other);
            assert_eq!((items[0].integer("w"), items[1].integer("q")), (Some(60), None), "{other}");
            assert_eq!(items[0].text("x"), None, "{other}");
        }
    }

    #[test]
    fn lists_are_read_and_malformed_ones_are_not() {
        let items = list(r#" "a";q=1;w=60 ,	"b \"\\";qu="x";r=-5, c;t=3;bare"#).expect("right");
        assert_eq!(items.len(), 3);
        assert_eq!((items[0].integer("q"), items[0].integer("w")), (Some(1), Some(60)));
        assert_eq!((items[1].text("qu"), items[1].integer("r")), (Some("x"), None));
        assert_eq!((items[2].integer("t"), items[2].integer("bare")), (Some(3), None));
        assert_eq!(list(""), Some(vec![]));
        assert!(list("\"a\";q=1;q=2").is_some_and(|items| items[0].integer("q") == Some(2)));
        assert!(list("\"a\";q=999999999999999").is_some());
        for wrong in [
            "\"a\";q=1000000000000000",
            "\"a\";q=",
            "\"a\";q=1.",
            "\"a\";q=1.2345",
            "\"a\";q=1234567890123.5",
            "\"a\";pk=:YQ",
            "\"a\";pk=:Y Q:",
            "\"a\";x=?2",
            "\"a\";x=@1.5",
            "\"a\";x=%\"%C3\"",
            "\"a\";x=%\"a",
            "(\"a\");q=1",
            "\"a\";Q=1",
            "\"a\",",
            "\"a\" \"b\"",
            "\"a",
            "\"a\\b\"",
            "\"\u{7f}\"",
            "\"é\"",
            "=1",
        ] {
            assert_eq!(list(wrong), None, "{wrong}");
        }
    }
}
