//! Text of others, made harmless: a log is written by whoever sends requests.

/// The text as it may stand between tags and in quoted attributes, of HTML and of XML.
///
/// Characters that XML forbids, and those that turn the direction of what follows, are replaced.
pub(super) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\n' => safe.push('\n'),
            letter if letter.is_control() || is_disturbing(letter) => {
                safe.push(char::REPLACEMENT_CHARACTER);
            }
            letter => safe.push(letter),
        }
    }
    safe
}

fn is_disturbing(letter: char) -> bool {
    matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{fffe}' | '\u{ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_becomes_text() {
        let hostile = "</text><script>alert('1\"&')</script>";
        let safe = "&lt;/text&gt;&lt;script&gt;alert(&#39;1&quot;&amp;&#39;)&lt;/script&gt;";
        assert_eq!(escaped(hostile), safe);
        assert_eq!(
            escaped("a\u{0}\u{1b}\u{202e}\u{ffff}é\n"),
            "a\u{fffd}\u{fffd}\u{fffd}\u{fffd}é\n"
        );
    }
}
