//! Escapes text from logs and rules files: clients choose what a log contains.

use crate::words;

/// Escapes a text for the content and the quoted attributes of HTML and XML.
///
/// Replaces characters that XML forbids, and those that change the direction of the text after them.
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
            letter if words::is_obeyed(letter) || matches!(letter, '\u{fffe}' | '\u{ffff}') => {
                safe.push(char::REPLACEMENT_CHARACTER);
            }
            letter => safe.push(letter),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_and_control_characters_become_text() {
        let hostile = "</text><script>alert('1\"&')</script>";
        let safe = "&lt;/text&gt;&lt;script&gt;alert(&#39;1&quot;&amp;&#39;)&lt;/script&gt;";
        assert_eq!(escaped(hostile), safe);
        assert_eq!(
            escaped("a\u{0}\u{1b}\u{202e}\u{ffff}é\n"),
            "a\u{fffd}\u{fffd}\u{fffd}\u{fffd}é\n"
        );
    }
}
