//! `bytes`: how fast the bodies of responses pass.

use tollgate::{BuildError, OnFull, Quota, QuotaError};
use toml::de::DeTable;

use super::fields::{Reader, Value};
use super::spot::word_at;
use crate::active_rule::Bandwidth;
use crate::error::LimiterError;
use crate::shared::Place;

const NEEDED: &str = "a rate such as \"10MB/s\" or \"10MB/s burst 1MB\"";
/// A smaller burst would send chunks that are too small to be worth it: see `tollgate-paced`.
const BURST_MIN: u64 = 1_000;

/// A rate in bytes: a quota whose numbers may have the unit B, kB, MB or GB.
pub(super) fn read<'s>(reader: &mut Reader<'s>, value: &Value<'s>) -> Option<Quota> {
    let text = reader.string(value, NEEDED)?;
    let (quota, columns) = as_quota(text);
    let rate = match quota.parse::<Quota>() {
        Ok(rate) => rate,
        Err(QuotaError::Syntax { column, .. }) => {
            let at = word_at(text, column_in(text, &columns, column));
            reader.error_within(value, at, format!("expected {NEEDED}"));
            return None;
        }
        Err(QuotaError::Range { error, .. }) => {
            reader.error_in(value, error.to_string());
            return None;
        }
        Err(error) => {
            reader.error_in(value, error.to_string());
            return None;
        }
    };
    if rate.burst_cells() < BURST_MIN {
        let burst = rate.burst_cells();
        let message = format!(
            "a burst of {burst} B is too small to pace by: write 1kB or more, as in \"500B/s burst 1kB\""
        );
        reader.error_in(value, message);
        return None;
    }
    let built = Bandwidth::build(rate, 1, OnFull::default(), &Place::to_validate());
    match built.map_err(LimiterError::unshared) {
        Ok(_) => Some(rate),
        Err(BuildError::Quota(error)) => {
            reader.error_in(value, error.to_string());
            None
        }
        Err(error) => {
            reader.error_in(value, error.to_string());
            None
        }
    }
}

/// The text as a quota is written, without units, and for each of its characters the column in `text` that it comes
/// from. A unit is a `B` that follows a number and perhaps k, M or G; the spaces before it are left out. A quota
/// knows no G, so `1GB` becomes `1000M`.
fn as_quota(text: &str) -> (String, Vec<usize>) {
    let (mut quota, mut columns) = (String::new(), Vec::new());
    let mut chars = text.char_indices().enumerate().peekable();
    while let Some((index, (at, c))) = chars.next() {
        let unit = if quota.ends_with(|last: char| last.is_ascii_digit()) {
            unit_at(&text[at..])
        } else {
            None
        };
        let Some(Unit { spaces, length, factor }) = unit else {
            quota.push(c);
            columns.push(index + 1);
            continue;
        };
        quota.push_str(factor);
        columns.extend(std::iter::repeat_n(index + spaces + 1, factor.len()));
        while chars.next_if(|(_, (next, _))| *next < at + length).is_some() {}
    }
    (quota, columns)
}

/// A unit of bytes and the spaces before it.
struct Unit {
    /// How many characters of space it has before it.
    spaces: usize,
    /// Bytes, with the spaces.
    length: usize,
    /// The factor as a quota writes it after a number.
    factor: &'static str,
}

/// The unit that the text begins with.
fn unit_at(text: &str) -> Option<Unit> {
    let rest = text.trim_start();
    let known = [("B", ""), ("kB", "k"), ("KB", "K"), ("MB", "M"), ("GB", "000M")];
    let (unit, factor) = known.into_iter().find(|(unit, _)| rest.starts_with(unit))?;
    let ends = !rest[unit.len()..].starts_with(char::is_alphanumeric);
    let before = &text[..text.len() - rest.len()];
    let (spaces, length) = (before.chars().count(), before.len() + unit.len());
    ends.then_some(Unit { spaces, length, factor })
}

/// The column of the text for a column, counted from 1, of its quota.
fn column_in(text: &str, columns: &[usize], column: usize) -> usize {
    columns.get(column - 1).copied().unwrap_or_else(|| text.chars().count() + 1)
}

/// Reports the keys that a rule with `bytes` cannot have.
pub(super) fn check<'s>(reader: &mut Reader<'s>, value: &Value<'s>, rule: &DeTable<'s>) {
    if rule.get("shadow").and_then(|shadow| shadow.get_ref().as_bool()) == Some(true) {
        let message =
            "a rule in shadow delays no bytes: leave this out, or write a rule of its own";
        reader.error(value.span(), message.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::Rules;

    #[test]
    fn units_of_bytes_are_left_out_of_the_quota() {
        for (text, quota) in [
            ("10MB/s", "10M/s"),
            ("10 MB/s burst 1MB", "10M/s burst 1M"),
            ("500B per second", "500 per second"),
            ("1GB/min burst 64 kB", "1000M/min burst 64k"),
            ("1000/s", "1000/s"),
            ("B/s", "B/s"),
            ("5 Burst", "5 Burst"),
            ("5 GBit/s", "5 GBit/s"),
            ("5\u{a0}MB/s", "5M/s"),
        ] {
            assert_eq!(as_quota(text).0, quota, "{text}");
        }
        let column = |text, column| column_in(text, &as_quota(text).1, column);
        assert_eq!(column("10MB/parsec", 5), 6);
        assert_eq!(column("10MB", 9), 5);
        assert_eq!((column("1 GB/parsec", 4), column("1 GB/parsec", 6)), (3, 5));
        assert_eq!(column("1GB/parsec", 7), 5);
    }

    #[test]
    fn a_rate_may_be_given_in_gigabytes() {
        let parsed = |bytes: &str| {
            let text = format!("rule = [{{ name = \"a\", bytes = \"{bytes}\" }}]");
            Rules::parse("r.toml", &text)
        };
        for (bytes, limit, burst) in [
            ("1GB/s", 1_000_000_000, 1_000_000_000),
            ("100MB/s burst 1GB", 100_000_000, 1_000_000_000),
            ("1 GB/min", 1_000_000_000, 1_000_000_000),
        ] {
            let rules = parsed(bytes).unwrap_or_else(|error| panic!("{error}"));
            let rate = rules.rules()[0].bytes.expect("a rate");
            assert_eq!((rate.limit(), rate.burst_cells()), (limit, burst), "{bytes}");
        }
        for (bytes, column) in [("1GB/parsec", 36), ("2 GB/s burst 1GB/parsec", 48)] {
            let error = parsed(bytes).expect_err(bytes);
            assert_eq!(error.errors()[0].column(), column, "{error}");
        }
    }
}
