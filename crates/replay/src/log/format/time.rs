//! Parses the times of logs into nanoseconds since the Unix epoch.

use jiff::civil::DateTime;
use jiff::fmt::temporal::Pieces;
use jiff::tz::{Offset, TimeZone};

use crate::log::fields::{Malformed, Stamp};

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Parses any of these forms. The shape of the text selects the form.
///
/// - digits with an optional fraction: a Unix time, see [`unix`];
/// - `01/Aug/1995:06:00:00 +0000`: the Common Log Format, see [`clf`];
/// - other texts: RFC 3339 and ISO 8601; a time without an offset is in UTC.
pub(crate) fn parse(text: &str) -> Result<Stamp, Malformed> {
    let text = text.trim();
    if text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') && !text.is_empty() {
        return unix(text);
    }
    if text.contains('/') && text.contains(':') && !text.contains('[') {
        return clf(text);
    }
    iso(text)
}

/// `01/Aug/1995:06:00:00 +0000`.
pub(crate) fn clf(text: &str) -> Result<Stamp, Malformed> {
    clf_parts(text).ok_or_else(|| {
        Malformed::new(format!("time {text:?} is not like 01/Aug/1995:06:00:00 +0000"))
    })?
}

/// `None` if the shape is wrong; an error if the time is out of range.
fn clf_parts(text: &str) -> Option<Result<Stamp, Malformed>> {
    let (day, rest) = text.split_once('/')?;
    let (month, rest) = rest.split_once('/')?;
    let (year, rest) = rest.split_once(':')?;
    let (clock, offset) = rest.split_once(' ')?;
    let mut hms = clock.splitn(3, ':');
    let month = MONTHS.iter().position(|name| name.eq_ignore_ascii_case(month))? + 1;
    let date_time = DateTime::new(
        digits(year, 4)?,
        i8::try_from(month).ok()?,
        i8::try_from(digits(day, 2)?).ok()?,
        i8::try_from(digits(hms.next()?, 2)?).ok()?,
        i8::try_from(digits(hms.next()?, 2)?).ok()?,
        // A leap second counts as the last second of its minute.
        i8::try_from(digits(hms.next()?, 2)?)
            .ok()
            .map(|second| if second == 60 { 59 } else { second })?,
        0,
    )
    .ok()?;
    Some(at_offset(date_time, offset_secs(offset)?))
}

/// `+0130` in seconds.
pub(crate) fn offset_secs(text: &str) -> Option<i32> {
    let (sign, rest) = match text.split_at_checked(1)? {
        ("+", rest) => (1, rest),
        ("-", rest) => (-1, rest),
        _ => return None,
    };
    let number = i32::from(digits(rest, 4)?);
    let (hours, minutes) = (number / 100, number % 100);
    (hours < 24 && minutes < 60).then_some(sign * (hours * 3_600 + minutes * 60))
}

/// A number of exactly `count` digits.
fn digits(text: &str, count: usize) -> Option<i16> {
    (text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit()))
        .then(|| text.parse().ok())?
}

/// `2023-11-16T18:15:46.68Z`, `2023-11-16 18:15:46.6805900`, `…+01:00`.
fn iso(text: &str) -> Result<Stamp, Malformed> {
    let wrong = || Malformed::new(format!("time {text:?} is neither RFC 3339 nor a Unix time"));
    let pieces = Pieces::parse(text).map_err(|_| wrong())?;
    let time = pieces.time().ok_or_else(wrong)?;
    let offset = match pieces.to_numeric_offset() {
        Some(offset) => offset.seconds(),
        None if pieces.time_zone_annotation().is_none() => 0,
        None => return Err(Malformed::new(format!("time {text:?} names a zone but no offset"))),
    };
    at_offset(pieces.date().to_datetime(time), offset)
}

/// A Unix time. Its size selects the unit: below 10^11 it is in seconds (until the year 5138), and
/// each finer unit (ms, us, ns) has three more digits.
fn unix(text: &str) -> Result<Stamp, Malformed> {
    let wrong = || Malformed::new(format!("{text:?} is not a Unix time"));
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let whole: u64 = whole.parse().map_err(|_| wrong())?;
    let unit_nanos: u64 = match whole {
        0..100_000_000_000 => 1_000_000_000,
        100_000_000_000..100_000_000_000_000 => 1_000_000,
        100_000_000_000_000..100_000_000_000_000_000 => 1_000,
        _ => 1,
    };
    let mut nanos = whole.checked_mul(unit_nanos).ok_or_else(wrong)?;
    let mut place = unit_nanos / 10;
    for byte in fraction.bytes() {
        if !byte.is_ascii_digit() {
            return Err(wrong());
        }
        nanos = nanos.checked_add(u64::from(byte - b'0') * place).ok_or_else(wrong)?;
        place /= 10;
    }
    Ok(Stamp { unix_nanos: nanos, offset_secs: 0 })
}

fn at_offset(date_time: DateTime, offset_secs: i32) -> Result<Stamp, Malformed> {
    let out_of_range = || Malformed::new(format!("time {date_time} is outside 1970 to 2554"));
    let offset = Offset::from_seconds(offset_secs).map_err(|_| out_of_range())?;
    let instant = TimeZone::fixed(offset).to_timestamp(date_time).map_err(|_| out_of_range())?;
    let unix_nanos = u64::try_from(instant.as_nanosecond()).map_err(|_| out_of_range())?;
    Ok(Stamp { unix_nanos, offset_secs })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const AUGUST: u64 = 807_256_800_000_000_000;

    fn nanos(text: &str) -> u64 {
        parse(text).unwrap_or_else(|why| panic!("{text}: {why}")).unix_nanos
    }

    #[test]
    fn all_forms_of_one_instant_agree() {
        for text in [
            "01/Aug/1995:06:00:00 +0000",
            "01/Aug/1995:08:30:00 +0230",
            "31/Jul/1995:23:00:00 -0700",
            "1995-08-01T06:00:00Z",
            "1995-08-01 06:00:00",
            "1995-08-01T08:00:00.000+02:00",
            "1995-08-01T06:00:00,000Z",
            "807256800",
            "807256800.0",
            "807256800000",
            "807256800000000",
            "807256800000000000",
        ] {
            assert_eq!(nanos(text), AUGUST, "{text}");
        }
    }

    #[test]
    fn fractions_are_exact() {
        assert_eq!(nanos("2023-11-16 18:15:46.6805900"), 1_700_158_546_680_590_000);
        assert_eq!(nanos("1700158546.680590001"), 1_700_158_546_680_590_001);
        assert_eq!(nanos("1700158546680.5"), 1_700_158_546_680_500_000);
    }

    #[test]
    fn the_offset_of_the_log_is_kept() {
        assert_eq!(parse("25/Oct/2015:04:11:25 +0100").unwrap().offset_secs, 3_600);
        assert_eq!(parse("2015-10-25T04:11:25-08:00").unwrap().offset_secs, -28_800);
        assert_eq!(parse("2015-10-25T04:11:25").unwrap().offset_secs, 0);
    }

    #[test]
    fn a_leap_second_is_accepted() {
        assert_eq!(nanos("31/Dec/2016:23:59:60 +0000"), nanos("31/Dec/2016:23:59:59 +0000"));
    }

    #[test]
    fn a_text_that_is_not_a_time_is_an_error() {
        for text in [
            "",
            "-",
            ".",
            "yesterday",
            "1995-08-01",
            "32/Aug/1995:06:00:00 +0000",
            "01/Aug/1995:06:00:00",
            "01/Aug/1995:06:00:00 +00:00",
            "01/Aug/1995:25:00:00 +0000",
            "01/Aug/1965:06:00:00 +0000",
            "1969-12-31T23:59:59Z",
            "9999-01-01T00:00:00Z",
            "1.2.3",
            "99999999999999999999999",
            "1995-08-01T06:00[Europe/Paris]",
        ] {
            assert!(parse(text).is_err(), "{text} was accepted as a time");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,40}") {
            let _ = parse(&text);
            let _ = clf(&text);
        }

        #[test]
        fn no_nearly_correct_time_panics(text in "[0-9TZ:./+\\-Aug \\[\\]]{0,40}") {
            let _ = parse(&text);
            let _ = clf(&text);
        }
    }
}
