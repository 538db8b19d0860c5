//! Numbers in plain words.

use std::time::Duration;

/// `1 second`, `15 minutes`, `1.5 seconds`.
pub(crate) fn span(span: Duration) -> String {
    const UNITS: [(u128, &str); 7] = [
        (86_400_000_000_000, "day"),
        (3_600_000_000_000, "hour"),
        (60_000_000_000, "minute"),
        (1_000_000_000, "second"),
        (1_000_000, "millisecond"),
        (1_000, "microsecond"),
        (1, "nanosecond"),
    ];
    let nanos = span.as_nanos();
    let whole = UNITS.iter().find(|(unit, _)| nanos >= *unit && nanos.is_multiple_of(*unit));
    match whole {
        Some((unit, name)) if nanos / unit == 1 => format!("1 {name}"),
        Some((unit, name)) if nanos / unit < 10_000 => format!("{} {name}s", nanos / unit),
        _ => format!("{span:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_written_in_its_largest_whole_unit() {
        for (nanos, text) in [
            (1_000_000_000, "1 second"),
            (900_000_000_000, "15 minutes"),
            (604_800_000_000_000, "7 days"),
            (1_500_000_000, "1500 milliseconds"),
            (1_234_567_891, "1.234567891s"),
            (9_999 * 86_400_000_000_000, "9999 days"),
            (10_000 * 86_400_000_000_000, "864000000s"),
            (0, "0ns"),
        ] {
            assert_eq!(span(Duration::from_nanos(nanos)), text);
        }
    }
}
