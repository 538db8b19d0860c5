//! A parser for the lists of structured fields (RFC 9651) that the `RateLimit` fields use: strings with
//! parameters, whose values are integers or strings. It follows the RFC and uses no code of the crate.

/// An item of a list: its string, and its parameters in their order.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) text: String,
    pub(crate) parameters: Vec<(String, Value)>,
}

/// A parameter's value.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Integer(i64),
    Text(String),
}

impl Item {
    /// The last of that name counts.
    pub(crate) fn parameter(&self, name: &str) -> Option<&Value> {
        let mut named = self.parameters.iter().filter(|(its, _)| its == name);
        named.next_back().map(|(_, value)| value)
    }

    pub(crate) fn integer(&self, name: &str) -> Option<i64> {
        match self.parameter(name)? {
            Value::Integer(integer) => Some(*integer),
            Value::Text(_) => None,
        }
    }
}

/// All items, or the position of the first mistake.
pub(crate) fn list(field: &[u8]) -> Result<Vec<Item>, usize> {
    list_of(field, string)
}

/// As [`list`], of integers in place of strings. The text of an item is its number.
pub(crate) fn numbers(field: &[u8]) -> Result<Vec<Item>, usize> {
    list_of(field, |input| Ok(integer(input)?.to_string()))
}

type Bare = fn(&mut Input<'_>) -> Result<String, usize>;

fn list_of(field: &[u8], bare: Bare) -> Result<Vec<Item>, usize> {
    let mut input = Input { bytes: field, at: 0 };
    let mut items = Vec::new();
    input.skip(b" ");
    while !input.is_empty() {
        items.push(item(&mut input, bare)?);
        input.skip(b" \t");
        if input.is_empty() {
            return Ok(items);
        }
        input.expect(b',')?;
        input.skip(b" \t");
        if input.is_empty() {
            return Err(input.at); // a comma at the end
        }
    }
    Ok(items)
}

struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Input<'_> {
    fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn next(&mut self) -> Result<u8, usize> {
        let byte = self.peek().ok_or(self.at)?;
        self.at += 1;
        Ok(byte)
    }

    fn expect(&mut self, byte: u8) -> Result<(), usize> {
        let at = self.at;
        if self.next()? == byte { Ok(()) } else { Err(at) }
    }

    fn skip(&mut self, any: &[u8]) {
        while self.peek().is_some_and(|byte| any.contains(&byte)) {
            self.at += 1;
        }
    }
}

fn item(input: &mut Input<'_>, bare: Bare) -> Result<Item, usize> {
    let text = bare(input)?;
    let mut parameters = Vec::new();
    while input.peek() == Some(b';') {
        input.at += 1;
        input.skip(b" ");
        let name = key(input)?;
        input.expect(b'=')?; // a bare one is `true`, which none of these is
        let value = match input.peek() {
            Some(b'"') => Value::Text(string(input)?),
            _ => Value::Integer(integer(input)?),
        };
        parameters.push((name, value));
    }
    Ok(Item { text, parameters })
}

fn string(input: &mut Input<'_>) -> Result<String, usize> {
    input.expect(b'"')?;
    let mut text = String::new();
    loop {
        let at = input.at;
        match input.next()? {
            b'"' => return Ok(text),
            b'\\' => match input.next()? {
                byte @ (b'"' | b'\\') => text.push(byte.into()),
                _ => return Err(at),
            },
            byte @ b' '..=b'~' => text.push(byte.into()),
            _ => return Err(at),
        }
    }
}

fn key(input: &mut Input<'_>) -> Result<String, usize> {
    let at = input.at;
    let mut name = String::new();
    while let Some(byte @ (b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'.' | b'*')) = input.peek() {
        name.push(byte.into());
        input.at += 1;
    }
    if name.starts_with(|first: char| first.is_ascii_lowercase() || first == '*') {
        Ok(name)
    } else {
        Err(at)
    }
}

/// At most 15 digits. A decimal fails at its point, because no item continues with one.
fn integer(input: &mut Input<'_>) -> Result<i64, usize> {
    let at = input.at;
    let is_negative = input.peek() == Some(b'-');
    input.at += usize::from(is_negative);
    let (mut digits, mut sum) = (0, 0_i64);
    while let Some(digit @ b'0'..=b'9') = input.peek() {
        (digits, sum) = (digits + 1, sum * 10 + i64::from(digit - b'0'));
        input.at += 1;
        if digits > 15 {
            return Err(at);
        }
    }
    if digits == 0 {
        return Err(at);
    }
    Ok(if is_negative { -sum } else { sum })
}
