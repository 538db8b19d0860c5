//! Positions within a string of the file.

use std::ops::Range;

use toml::de::DeValue;

use super::fields::Value;

/// The place in the file of the bytes `within` a string's content. If the string has escapes, it is the
/// place of the whole string.
pub(super) fn spot(text: &str, value: &Value<'_>, within: Range<usize>) -> Range<usize> {
    let span = value.span();
    let DeValue::String(content) = value.get_ref() else { return span };
    let Some(raw) = text.get(span.clone()) else { return span };
    let quote = ["\"\"\"", "'''", "\"", "'"].into_iter().find(|quote| {
        raw.len() >= 2 * quote.len() && raw.starts_with(quote) && raw.ends_with(quote)
    });
    let Some(quote) = quote else { return span };
    if raw[quote.len()..raw.len() - quote.len()] != **content {
        return span;
    }
    let begin = span.start + quote.len();
    begin + within.start.min(content.len())..begin + within.end.min(content.len())
}

/// From the character in this column, counted from 1, to the end of its word.
pub(super) fn word_at(content: &str, column: usize) -> Range<usize> {
    let start = content.char_indices().nth(column - 1).map_or(content.len(), |(at, _)| at);
    let rest = &content[start..];
    start..start + rest.find(char::is_whitespace).unwrap_or(rest.len())
}

#[cfg(test)]
mod tests {
    use super::word_at;

    #[test]
    fn a_word_ends_at_a_space_or_at_the_end_of_the_text() {
        for (column, word) in [(1, 0..2), (4, 3..6), (5, 4..6), (8, 7..9), (9, 8..9), (30, 9..9)] {
            assert_eq!(word_at("10 per 2x", column), word, "{column}");
        }
    }
}
