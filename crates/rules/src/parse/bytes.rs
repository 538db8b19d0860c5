//! `bytes`: how fast the bodies of responses pass.

use tollgate::{BuildError, OnFull, Quota, QuotaError};
use toml::de::DeTable;

use super::fields::{Reader, Value};
use super::spot::word_at;
use crate::bytes::Bandwidth;
use crate::error::LimiterError;
use crate::shared::Place;

const NEEDED: &str = "a rate such as \"10MB/s\" or \"10MB/s burst 1MB\"";
/// Less is not worth a chunk: see `tollgate-paced`.
const BURST_MIN: u64 = 1_000;

/// A rate in bytes: a quota whose numbers may have the unit B, kB, MB or GB.
pub(super) fn read<'s>(reader: &mut Reader<'s>, value: &Value<'s>) -> Option<Quota> {
    let text = reader.string(value, NEEDED)?;
    let rate = match without_units(text).parse::<Quota>() {
        Ok(rate) => rate,
        Err(QuotaError::Syntax { column, .. }) => {
            let at = word_at(text, column_in(text, column));
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
    let built = Bandwidth::build(rate, 1, OnFull::default(), &Place::on_trial());
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

/// Where the text has a unit of bytes, which a quota does not have: the places of each B that follows a number and
/// perhaps k, M or G, and of the spaces before it.
fn units(text: &str) -> Vec<usize> {
    let mut units = Vec::new();
    for (at, _) in text.match_indices('B') {
        let before = &text[..at];
        let number = before.strip_suffix(['k', 'K', 'M', 'G']).unwrap_or(before);
        let digits = number.trim_end();
        let ends = !text[at + 1..].starts_with(|next: char| next.is_alphanumeric());
        if ends && digits.ends_with(|last: char| last.is_ascii_digit()) {
            units.extend(digits.len()..number.len());
            units.push(at);
        }
    }
    units
}

/// The text without the units, as a quota is written.
fn without_units(text: &str) -> String {
    let units = units(text);
    text.char_indices().filter(|(at, _)| !units.contains(at)).map(|(_, c)| c).collect()
}

/// The column of the text for a column, counted from 1, of the text without units.
fn column_in(text: &str, column: usize) -> usize {
    let units = units(text);
    let kept = text.char_indices().enumerate().filter(|(_, (at, _))| !units.contains(at));
    let mut kept = kept.map(|(index, _)| index + 1);
    kept.nth(column - 1).unwrap_or_else(|| text.chars().count() + 1)
}

/// Reports what a rule with a bandwidth cannot have.
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

    #[test]
    fn units_of_bytes_are_left_out_of_the_quota() {
        for (text, quota) in [
            ("10MB/s", "10M/s"),
            ("10 MB/s burst 1MB", "10M/s burst 1M"),
            ("500B per second", "500 per second"),
            ("1GB/min burst 64 kB", "1G/min burst 64k"),
            ("1000/s", "1000/s"),
            ("B/s", "B/s"),
            ("5 Burst", "5 Burst"),
        ] {
            assert_eq!(without_units(text), quota, "{text}");
        }
        assert_eq!(column_in("10MB/parsec", 5), 6);
        assert_eq!(column_in("10MB", 9), 5);
    }
}
