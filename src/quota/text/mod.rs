//! The text form of a quota: `100/s burst 20`, `10 per minute`, `100 req/min`, `10rps`. The
//! documentation of [`Quota`] has a table of the forms.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use super::{Quota, QuotaError};

const A_LIMIT: &str = "a whole number of cells first, as in \"100/s\" (for half a cell a second \
                       write \"1 per 2 s\")";
const A_SMALLER_NUMBER: &str = "a number below 2^64";
const DIGITS: &str = "digits on both sides of each \"_\", as in \"1_000/s\"";
const A_NUMBER_WITHOUT_COMMAS: &str = "a number without commas, as in \"1000/s\" or \"1_000/s\"";
const A_WHOLE_NUMBER: &str = "a whole number (for 1.5 cells a second write \"3 per 2 s\", and for \
                              1.5 h write \"90 min\")";
const A_CELL_COUNT: &str = "a number of cells (for 10 Mbit/s, where a cell is a byte, write \
                            \"1_250_000/s\")";
const PER: &str = "\"/\" or \"per\" after the number of cells, as in \"100/s\"";
const A_UNIT: &str = "a unit of time (ns, us, ms, s, min, h, d, w, y), as in \"10 per minute\"";
const A_DAYS_COUNT: &str = "a unit of fixed length; a month has none: write \"30 days\"";
const A_SHORTER_PERIOD: &str = "a period of at most 100 years";
const BURST: &str = "\"burst\" and a number of cells, or the end of the text";
const THE_END: &str = "the end of the text after the burst";
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

/// Words for a cell, which may follow the limit.
const CELLS: [&str; 17] = [
    "cell", "cells", "r", "req", "reqs", "request", "requests", "call", "calls", "hit", "hits",
    "event", "events", "query", "queries", "byte", "bytes",
];
/// Words for a period in place of `/` and a unit.
const PER_PERIOD: [(&str, Duration); 5] = [
    ("rps", Duration::from_nanos(SECOND)),
    ("qps", Duration::from_nanos(SECOND)),
    ("rpm", Duration::from_nanos(60 * SECOND)),
    ("rph", Duration::from_nanos(3_600 * SECOND)),
    ("rpd", Duration::from_nanos(24 * 3_600 * SECOND)),
];
/// Words for bits and larger units of bytes, which are rejected with advice.
const DATA_UNITS: [&str; 18] = [
    "b", "kb", "mb", "gb", "tb", "kib", "mib", "gib", "tib", "bps", "kbps", "mbps", "gbps", "bit",
    "bits", "kbit", "mbit", "gbit",
];

impl FromStr for Quota {
    type Err = QuotaError;

    /// Parses the text form and checks the ranges.
    ///
    /// # Errors
    ///
    /// [`QuotaError::Syntax`] or [`QuotaError::Range`], both with the column.
    fn from_str(text: &str) -> Result<Self, QuotaError> {
        let mut rest = Cursor { text, at: 0 };
        rest.skip_space();
        let limit_column = rest.column();
        let limit = rest.cells()?.ok_or(rest.expected(A_LIMIT))?;
        let (period_column, period) = rest.per_period()?;
        let mut quota = Quota::new(limit, period);
        let (mut burst_column, mut more) = (limit_column, BURST);
        rest.skip_space();
        if rest.take_word("burst") {
            rest.skip_space();
            burst_column = rest.column();
            quota = quota.burst(rest.cells()?.ok_or(rest.expected(A_BURST))?);
            rest.skip_space();
            more = THE_END;
        }
        if !rest.rest().is_empty() {
            return Err(rest.expected(more));
        }
        let columns = Columns { limit: limit_column, period: period_column, burst: burst_column };
        quota.validate().map_err(|error| columns.locate(error))?;
        Ok(quota)
    }
}

/// The columns of the numbers of a quota.
struct Columns {
    limit: usize,
    period: usize,
    /// The column of the limit where no burst is given.
    burst: usize,
}

impl Columns {
    /// Adds to a range error the column of the number to change.
    fn locate(&self, error: QuotaError) -> QuotaError {
        use QuotaError as E;
        let (column, error) = match error {
            E::ZeroLimit => (self.limit, &E::ZeroLimit),
            E::TooFast => (self.limit, &E::TooFast),
            E::TooSlow => (self.limit, &E::TooSlow),
            E::LimitTooLarge => (self.limit, &E::LimitTooLarge),
            E::ZeroPeriod => (self.period, &E::ZeroPeriod),
            E::PeriodTooLong => (self.period, &E::PeriodTooLong),
            E::ZeroBurst => (self.burst, &E::ZeroBurst),
            E::BurstTooLarge => (self.burst, &E::BurstTooLarge),
            E::RefillTooLong => (self.burst, &E::RefillTooLong),
            other => return other,
        };
        E::Range { column, error }
    }
}

#[derive(Clone, Copy)]
struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Counted in characters from 1.
    fn column(&self) -> usize {
        self.text[..self.at].chars().count() + 1
    }

    fn expected(&self, expected: &'static str) -> QuotaError {
        QuotaError::Syntax { column: self.column(), expected }
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

    /// The letters up to the next other character; they are not consumed.
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

    /// A whole number, whose digits may be grouped by single `_`; `None` if there is no digit.
    fn number(&mut self) -> Result<Option<u64>, QuotaError> {
        if !self.is_at_digit() {
            return Ok(None);
        }
        let begin = *self;
        let mut value: u64 = 0;
        while let Some(digit) = self.digit() {
            value = value
                .checked_mul(10)
                .and_then(|tens| tens.checked_add(digit))
                .ok_or(begin.expected(A_SMALLER_NUMBER))?;
            let separator = *self;
            if self.take("_") && !self.is_at_digit() {
                return Err(separator.expected(DIGITS));
            }
        }
        let after = *self;
        for (separator, expected) in [(".", A_WHOLE_NUMBER), (",", A_NUMBER_WITHOUT_COMMAS)] {
            if self.take(separator) && self.is_at_digit() {
                return Err(after.expected(expected));
            }
            self.at = after.at;
        }
        Ok(Some(value))
    }

    fn is_at_digit(&self) -> bool {
        self.rest().starts_with(|c: char| c.is_ascii_digit())
    }

    fn digit(&mut self) -> Option<u64> {
        let digit = self.rest().chars().next()?.to_digit(10)?;
        self.at += 1;
        Some(digit.into())
    }

    /// `100`, `1_000`, `1k`, `2M`; `None` if there is no digit.
    fn cells(&mut self) -> Result<Option<u64>, QuotaError> {
        let begin = *self;
        let Some(number) = self.number()? else { return Ok(None) };
        let factor = match self.word() {
            "k" | "K" => 1_000,
            "M" => 1_000_000,
            _ => return Ok(Some(number)),
        };
        self.at += 1;
        let cells = number.checked_mul(factor).ok_or(begin.expected(A_SMALLER_NUMBER))?;
        Ok(Some(cells))
    }

    /// Parses the text after the limit: `/s`, `req/min`, `requests per 2 days`, `rps`. The second value is
    /// the column of the period.
    fn per_period(&mut self) -> Result<(usize, Duration), QuotaError> {
        self.skip_space();
        let (column, word) = (self.column(), self.word());
        let is = |known: &str| known.eq_ignore_ascii_case(word);
        if let Some((_, period)) = PER_PERIOD.iter().find(|(known, _)| is(known)) {
            self.at += word.len();
            return Ok((column, *period));
        }
        if DATA_UNITS.into_iter().any(is) {
            return Err(self.expected(A_CELL_COUNT));
        }
        if CELLS.into_iter().any(is) {
            self.at += word.len();
            self.skip_space();
        }
        if !(self.take("/") || self.take_word("per")) {
            return Err(self.expected(PER));
        }
        self.skip_space();
        Ok((self.column(), self.period()?))
    }

    /// `s`, `minute`, `2 days`, `15m`.
    fn period(&mut self) -> Result<Duration, QuotaError> {
        let begin = *self;
        let count = self.number()?.unwrap_or(1);
        self.skip_space();
        let unit_nanos = self.unit()?;
        match count.checked_mul(unit_nanos) {
            Some(nanos) => Ok(Duration::from_nanos(nanos)),
            None => Err(begin.expected(A_SHORTER_PERIOD)),
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
        // A week is displayed in days, which more readers recognise.
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
mod tests;
