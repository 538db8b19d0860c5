//! The text form of a quota: `100/s burst 20`, `10 per minute`, `5 per 2 days`.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use super::{Quota, QuotaError};

const A_LIMIT: &str = "a whole number of cells first, as in \"100/s\" (for half a cell a second \
                       write \"1 per 2 s\")";
const A_SMALLER_NUMBER: &str = "a number below 2^64";
const PER: &str = "\"/\" or \"per\" after the number of cells, as in \"100/s\"";
const A_UNIT: &str = "a unit of time (ns, us, ms, s, min, h, d, w, y), as in \"10 per minute\"";
const A_DAYS_COUNT: &str = "a unit of fixed length; a month has none: write \"30 days\"";
const A_SHORTER_PERIOD: &str = "a period of at most 100 years";
const BURST: &str = "\"burst\" and a number of cells, or the end of the text";
const A_BURST: &str = "a whole number of cells after \"burst\"";

const SECOND: u64 = 1_000_000_000;
/// Every unit: its length in nanoseconds and its names, the one displayed first.
const UNITS: [(u64, &[&str]); 9] = [
    (365 * 24 * 3_600 * SECOND, &["y", "yr", "year", "years"]),
    (7 * 24 * 3_600 * SECOND, &["w", "week", "weeks"]),
    (24 * 3_600 * SECOND, &["d", "day", "days"]),
    (3_600 * SECOND, &["h", "hr", "hrs", "hour", "hours"]),
    (60 * SECOND, &["min", "m", "mins", "minute", "minutes"]),
    (SECOND, &["s", "sec", "secs", "second", "seconds"]),
    (1_000_000, &["ms", "millisecond", "milliseconds"]),
    (1_000, &["us", "µs", "μs", "microsecond", "microseconds"]),
    (1, &["ns", "nanosecond", "nanoseconds"]),
];

impl FromStr for Quota {
    type Err = QuotaError;

    /// Parses the text form and checks the ranges.
    fn from_str(text: &str) -> Result<Self, QuotaError> {
        let mut rest = Cursor { text, at: 0 };
        rest.skip_space();
        let limit = rest.number()?.ok_or(rest.expected(A_LIMIT))?;
        rest.skip_space();
        if !(rest.take("/") || rest.take_word("per")) {
            return Err(rest.expected(PER));
        }
        rest.skip_space();
        let period = rest.period()?;
        rest.skip_space();
        let mut quota = Quota::new(limit, period);
        if rest.take_word("burst") {
            rest.skip_space();
            quota = quota.burst(rest.number()?.ok_or(rest.expected(A_BURST))?);
            rest.skip_space();
        }
        if !rest.rest().is_empty() {
            return Err(rest.expected(BURST));
        }
        quota.validate()?;
        Ok(quota)
    }
}

struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn expected(&self, expected: &'static str) -> QuotaError {
        let column = self.text[..self.at].chars().count() + 1;
        QuotaError::Syntax { column, expected }
    }

    fn skip_space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    fn take(&mut self, literal: &str) -> bool {
        let found = self.rest().starts_with(literal);
        if found {
            self.at += literal.len();
        }
        found
    }

    /// Letters up to the next other character, without taking them.
    fn word(&self) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c: char| !c.is_alphabetic()).unwrap_or(rest.len());
        &rest[..end]
    }

    fn take_word(&mut self, word: &str) -> bool {
        let found = self.word().eq_ignore_ascii_case(word);
        if found {
            self.at += word.len();
        }
        found
    }

    /// A whole number, digits perhaps grouped by `_`; `None` where no digit stands.
    fn number(&mut self) -> Result<Option<u64>, QuotaError> {
        let rest = self.rest();
        if !rest.starts_with(|c: char| c.is_ascii_digit()) {
            return Ok(None);
        }
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(rest.len());
        let mut value: u64 = 0;
        for digit in rest[..end].bytes().filter(u8::is_ascii_digit) {
            value = value
                .checked_mul(10)
                .and_then(|tens| tens.checked_add(u64::from(digit - b'0')))
                .ok_or(self.expected(A_SMALLER_NUMBER))?;
        }
        self.at += end;
        Ok(Some(value))
    }

    /// `s`, `minute`, `2 days`, `15m`.
    fn period(&mut self) -> Result<Duration, QuotaError> {
        let before = self.at;
        let count = self.number()?.unwrap_or(1);
        self.skip_space();
        let unit_nanos = self.unit()?;
        match count.checked_mul(unit_nanos) {
            Some(nanos) => Ok(Duration::from_nanos(nanos)),
            None => Err(Cursor { text: self.text, at: before }.expected(A_SHORTER_PERIOD)),
        }
    }

    fn unit(&mut self) -> Result<u64, QuotaError> {
        let word = self.word();
        for (nanos, names) in UNITS {
            if names.iter().any(|name| name.eq_ignore_ascii_case(word)) {
                self.at += word.len();
                return Ok(nanos);
            }
        }
        let a_month = ["mo", "month", "months"].iter().any(|m| m.eq_ignore_ascii_case(word));
        Err(self.expected(if a_month { A_DAYS_COUNT } else { A_UNIT }))
    }
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/", self.limit())?;
        let nanos = self.period_nanos();
        // A week is displayed in days, which more people read at a glance.
        let (unit_nanos, names) = UNITS
            .iter()
            .find(|(unit, names)| names[0] != "w" && nanos >= *unit && nanos.is_multiple_of(*unit))
            .unwrap_or(&UNITS[UNITS.len() - 1]);
        if nanos != *unit_nanos {
            write!(f, "{}", nanos / unit_nanos)?;
        }
        f.write_str(names[0])?;
        match self.burst_given() {
            Some(cells) => write!(f, " burst {cells}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parsed(text: &str) -> Quota {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn every_way_to_write_it() {
        let day = Duration::from_secs(86_400);
        for (text, quota) in [
            ("100/s", Quota::per_second(100)),
            ("100/s burst 20", Quota::per_second(100).burst(20)),
            ("  100 / sec  burst  20 ", Quota::per_second(100).burst(20)),
            ("10 per minute", Quota::per_minute(10)),
            ("10 PER Minute BURST 3", Quota::per_minute(10).burst(3)),
            ("5 per 2 days", Quota::new(5, day * 2)),
            ("100/15m", Quota::new(100, Duration::from_secs(900))),
            ("1_000_000/h", Quota::per_hour(1_000_000)),
            ("5 per week", Quota::new(5, day * 7)),
            ("1/year", Quota::new(1, day * 365)),
            ("3/250µs", Quota::new(3, Duration::from_micros(250))),
            ("100/100ns", Quota::new(100, Duration::from_nanos(100))),
        ] {
            assert_eq!(parsed(text), quota, "{text}");
        }
    }

    #[test]
    fn errors_name_the_place() {
        for (text, column, expected) in [
            ("", 1, A_LIMIT),
            ("fast", 1, A_LIMIT),
            ("-1/s", 1, A_LIMIT),
            ("0.5/s", 2, PER),
            ("100", 4, PER),
            ("100 s", 5, PER),
            ("100/", 5, A_UNIT),
            ("100/fortnight", 5, A_UNIT),
            ("100 per 2", 10, A_UNIT),
            ("10/month", 4, A_DAYS_COUNT),
            ("100/s 20", 7, BURST),
            ("100/s burst", 12, A_BURST),
            ("100/s burst many", 13, A_BURST),
            ("100/s burst 20 please", 16, BURST),
            ("99999999999999999999/s", 1, A_SMALLER_NUMBER),
            ("1/9999999999999 days", 3, A_SHORTER_PERIOD),
            ("7/µsz", 3, A_UNIT),
            ("7/µs ü", 6, BURST),
        ] {
            assert_eq!(
                text.parse::<Quota>(),
                Err(QuotaError::Syntax { column, expected }),
                "{text}"
            );
        }
        assert_eq!("0/s".parse::<Quota>(), Err(QuotaError::ZeroLimit));
        assert_eq!("1/s burst 0".parse::<Quota>(), Err(QuotaError::ZeroBurst));
    }

    proptest! {
        #[test]
        fn displayed_text_parses_back(
            limit in 1..1_u64 << 40,
            nanos in 1..100 * 365 * 86_400 * SECOND,
            unit in 0_usize..9,
            burst in proptest::option::of(1..1_u64 << 40),
        ) {
            // Whole units half of the time, so that every unit is displayed.
            let unit_nanos = UNITS[unit].0;
            let whole = (nanos / unit_nanos).max(1).saturating_mul(unit_nanos);
            for period in [nanos, whole] {
                let mut quota = Quota::new(limit, Duration::from_nanos(period));
                if let Some(cells) = burst {
                    quota = quota.burst(cells);
                }
                match quota.validate() {
                    Ok(()) => prop_assert_eq!(quota.to_string().parse::<Quota>(), Ok(quota)),
                    Err(error) => prop_assert_eq!(quota.to_string().parse::<Quota>(), Err(error)),
                }
            }
        }

        #[test]
        fn any_text_is_a_quota_or_an_error(text in "\\PC{0,24}") {
            let _ = text.parse::<Quota>();
        }

        #[test]
        fn nearly_a_quota_is_a_quota_or_an_error(text in "[0-9_]{0,3} ?(/|per)? ?[0-9]{0,2} ?[a-zµ]{0,3} ?(burst)? ?[0-9]{0,2}") {
            if let Ok(quota) = text.parse::<Quota>() {
                prop_assert_eq!(quota.to_string().parse::<Quota>(), Ok(quota));
            }
        }
    }
}
