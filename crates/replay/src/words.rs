//! Formats numbers and times for people.

use std::cmp::Ordering;
use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;

/// `1413` as `1,413`.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Whether a terminal or a page obeys the character instead of showing it: a control character, or one that changes the
/// direction of the text after it.
pub(crate) fn is_obeyed(letter: char) -> bool {
    letter.is_control() || matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// `part` of `whole`; 0 of nothing.
pub(crate) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// A share as `18.02 %`. A share above 0 never reads as 0, and one below 1 never as 100.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    let share = share(part, whole) * 100.0;
    if part > 0 && share < 0.005 {
        "<0.01 %".to_owned()
    } else if part < whole && share > 99.995 {
        ">99.99 %".to_owned()
    } else {
        format!("{share:.2} %")
    }
}

/// `part` as a multiple of `whole`, as `1.90x`. Only an exact 1 reads as `1.00x`.
pub(crate) fn times(part: u64, whole: u64) -> String {
    let text = format!("{:.2}x", share(part, whole));
    match part.cmp(&whole) {
        Ordering::Less if text == "1.00x" => "<1.00x".to_owned(),
        Ordering::Greater if text == "1.00x" => ">1.00x".to_owned(),
        _ => text,
    }
}

/// A number and its noun, singular or plural.
pub(crate) fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", thousands(number), if number == 1 { one } else { many })
}

/// A span in nanoseconds, saturated to a `u64`.
pub(crate) fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// A span in its two largest units: `12 h 52 min`, `1 s 500 ms`.
pub(crate) fn span(nanos: u64) -> String {
    const UNITS: [(u64, &str); 7] = [
        (86_400_000_000_000, "d"),
        (3_600_000_000_000, "h"),
        (60_000_000_000, "min"),
        (1_000_000_000, "s"),
        (1_000_000, "ms"),
        (1_000, "us"),
        (1, "ns"),
    ];
    let Some(largest) = UNITS.iter().position(|(length, _)| nanos >= *length) else {
        return "0 s".to_owned();
    };
    let (length, name) = UNITS[largest];
    let text = format!("{} {name}", thousands(nanos / length));
    match UNITS.get(largest + 1) {
        Some((smaller, name)) if nanos % length >= *smaller => {
            format!("{text} {} {name}", nanos % length / smaller)
        }
        _ => text,
    }
}

/// A Unix time in nanoseconds as RFC 3339, in UTC.
pub(crate) fn rfc3339(unix_nanos: u64) -> String {
    timestamp(unix_nanos).to_string()
}

/// The date and time `local_nanos` after 1970-01-01 00:00.
pub(crate) fn clock(local_nanos: u64) -> DateTime {
    Offset::UTC.to_datetime(timestamp(local_nanos))
}

/// A Unix time on a clock at that offset from UTC.
pub(crate) fn local(unix_nanos: u64, offset_secs: i32) -> DateTime {
    clock(unix_nanos.saturating_add_signed(i64::from(offset_secs) * 1_000_000_000))
}

/// An offset from UTC by its usual name.
pub(crate) fn zone(offset_secs: i32) -> String {
    if offset_secs == 0 {
        return "UTC".to_owned();
    }
    let sign = if offset_secs < 0 { '-' } else { '+' };
    let minutes = offset_secs.unsigned_abs() / 60;
    format!("UTC{sign}{:02}:{:02}", minutes / 60, minutes % 60)
}

fn timestamp(unix_nanos: u64) -> Timestamp {
    // A u64 of nanoseconds reaches the year 2554, well within the range of the type.
    Timestamp::from_nanosecond(i128::from(unix_nanos)).unwrap_or(Timestamp::MAX)
}

/// Shortens a text that is too long, and marks that with an ellipsis.
pub(crate) fn shortened(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// Breaks a text into lines between words. Each line has a line end; all but the first are indented.
pub(crate) fn wrapped(text: &str, width: usize) -> String {
    let mut lines = String::new();
    let mut room = width;
    for word in text.split(' ') {
        let length = word.chars().count();
        if lines.is_empty() {
            room = room.saturating_sub(length);
        } else if length < room {
            lines.push(' ');
            room -= length + 1;
        } else {
            lines.push_str("\n  ");
            room = width.saturating_sub(length + 2);
        }
        lines.push_str(word);
    }
    lines + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_separated_and_nouns_agree() {
        for (number, text) in
            [(0, "0"), (999, "999"), (1_413, "1,413"), (30_969, "30,969"), (1_000_000, "1,000,000")]
        {
            assert_eq!(thousands(number), text);
        }
        assert_eq!(counted(1, "key", "keys"), "1 key");
        assert_eq!(counted(2, "key", "keys"), "2 keys");
    }

    #[test]
    fn only_zero_reads_as_zero_and_only_all_as_100() {
        assert_eq!(percent(0, 0), "0.00 %");
        assert_eq!(percent(0, 10), "0.00 %");
        assert_eq!(percent(1, 1_000_000), "<0.01 %");
        assert_eq!(percent(999_999, 1_000_000), ">99.99 %");
        assert_eq!(percent(10, 10), "100.00 %");
        assert_eq!(percent(5_581, 30_969), "18.02 %");
    }

    #[test]
    fn only_an_exact_multiple_of_one_reads_as_one() {
        for (part, text) in
            [(0, "0.00x"), (190_000, "1.90x"), (100_000, "1.00x"), (100_001, ">1.00x")]
        {
            assert_eq!(times(part, 100_000), text);
        }
        assert_eq!(times(99_999, 100_000), "<1.00x");
    }

    #[test]
    fn spans_have_two_units() {
        assert_eq!(span(46_321_000_000_000), "12 h 52 min");
        assert_eq!(span(900_000_000_000), "15 min");
        assert_eq!(span(1_500_000_000), "1 s 500 ms");
        assert_eq!(span(0), "0 s");
        assert_eq!(span(1), "1 ns");
        assert_eq!(span(u64::MAX), "213,503 d 23 h");
    }

    #[test]
    fn times_and_offsets_are_formatted() {
        assert_eq!(rfc3339(807_256_800_000_000_000), "1995-08-01T06:00:00Z");
        assert_eq!(rfc3339(u64::MAX), "2554-07-21T23:34:33.709551615Z");
        assert_eq!(local(807_256_800_000_000_000, -3_600).to_string(), "1995-08-01T05:00:00");
        assert_eq!(zone(0), "UTC");
        assert_eq!(zone(-19_800), "UTC-05:30");
    }

    #[test]
    fn long_lines_are_broken_between_words() {
        assert_eq!(wrapped("one two three", 13), "one two three\n");
        assert_eq!(wrapped("one two three", 12), "one two\n  three\n");
        assert_eq!(wrapped("one two three four", 7), "one two\n  three\n  four\n");
        assert_eq!(wrapped("one two", 1), "one\n  two\n");
        assert_eq!(wrapped("", 9), "\n");
    }

    #[test]
    fn long_texts_are_shortened() {
        assert_eq!(shortened("abc", 3), "abc");
        assert_eq!(shortened("abcd", 3), "ab…");
    }
}
