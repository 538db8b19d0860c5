//! The log formats, and how a format is recognised.

mod clf;
mod csv;
mod json;
mod time;

use anyhow::{Error, Result, bail};

use crate::log::charge::{Charge, LogEntry};
use crate::log::fields::Malformed;

/// The usual names of the time in JSON and CSV logs, the likeliest first.
const TIME_NAMES: &[&str] = &[
    "time",
    "timestamp",
    "ts",
    "@timestamp",
    "TIMESTAMP",
    "time_iso8601",
    "time_local",
    "datetime",
    "date",
];

/// The format of the lines of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Recognised from the first lines of each file.
    Auto,
    /// Common or Combined Log Format (Apache, nginx).
    Clf,
    /// JSON lines: one object per line.
    Jsonl,
    /// Comma-separated values with a header line.
    Csv,
}

/// An offset from UTC, such as `+02:00`, in seconds.
///
/// # Errors
///
/// The text is not an offset. The message shows how to write one.
pub fn parse_utc_offset(text: &str) -> Result<i32, String> {
    time::offset_secs(&text.replacen(':', "", 1))
        .ok_or_else(|| "write an offset from UTC like +02:00 or -05:30".to_owned())
}

/// Reads the lines of one file.
#[derive(Debug)]
pub(crate) enum Reader<'p> {
    Clf,
    Json {
        time_field: Option<&'p str>,
    },
    /// The header line has not been read yet.
    CsvHeader {
        time_field: Option<&'p str>,
    },
    Csv(csv::Columns),
}

/// The kind of a line that was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LineKind {
    /// A request, which is now in the [`LogEntry`].
    Request,
    /// A blank line or a header.
    Nothing,
}

impl<'p> Reader<'p> {
    /// The reader for a given format; `None` for [`Format::Auto`].
    pub(crate) fn new(format: Format, time_field: Option<&'p str>) -> Option<Self> {
        match format {
            Format::Auto => None,
            Format::Clf => Some(Self::Clf),
            Format::Jsonl => Some(Self::Json { time_field }),
            Format::Csv => Some(Self::CsvHeader { time_field }),
        }
    }

    /// The reader for the format of this line, if it has a known one.
    pub(crate) fn recognise(line: &str, time_field: Option<&'p str>) -> Option<Self> {
        if line.trim_start().starts_with('{') {
            Some(Self::Json { time_field })
        } else if clf::parse(line).is_ok() {
            Some(Self::Clf)
        } else if [time_field, None].iter().any(|time| csv::Columns::parse(line, *time).is_ok()) {
            Some(Self::CsvHeader { time_field })
        } else {
            None
        }
    }

    /// Reads one line into `request`. The outer error ends the file, the inner one skips the line.
    pub(crate) fn read(
        &mut self,
        line: &str,
        charge: &Charge,
        request: &mut LogEntry,
    ) -> Result<Result<LineKind, Malformed>> {
        if line.trim().is_empty() {
            return Ok(Ok(LineKind::Nothing));
        }
        let outcome = match self {
            Self::Clf => clf::parse(line).and_then(|fields| charge.fill(&fields, request)),
            Self::Json { time_field } => {
                json::parse(line, *time_field).and_then(|fields| charge.fill(&fields, request))
            }
            Self::Csv(columns) => {
                columns.row(line).and_then(|fields| charge.fill(&fields, request))
            }
            Self::CsvHeader { time_field } => {
                let columns = csv::Columns::parse(line, *time_field).map_err(Error::msg)?;
                charge.fields().try_for_each(|field| columns.require(field)).map_err(Error::msg)?;
                *self = Self::Csv(columns);
                return Ok(Ok(LineKind::Nothing));
            }
        };
        Ok(outcome.map(|()| LineKind::Request))
    }

    /// Checks that lines of this format can have the fields that `charge` needs. JSON lines differ
    /// from each other, and the columns of a CSV file are known only with its header.
    pub(crate) fn accepts(&self, charge: &Charge) -> Result<()> {
        if let Self::Clf = self
            && let Some(field) = charge.fields().find(|field| !clf::knows(field))
        {
            bail!("the Common Log Format has no `{field}`; field:NAME may be {}", clf::NAMES);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_line_shows_the_format() {
        let kind = |line: &str| match Reader::recognise(line, None) {
            Some(Reader::Clf) => "clf",
            Some(Reader::Json { .. }) => "jsonl",
            Some(Reader::CsvHeader { .. } | Reader::Csv(_)) => "csv",
            None => "?",
        };
        assert_eq!(kind("h - - [01/Aug/1995:06:00:00 +0000] \"GET /\" 200 1"), "clf");
        assert_eq!(kind(" {\"time\": 1}"), "jsonl");
        assert_eq!(kind("TIMESTAMP,ContextTokens"), "csv");
        assert_eq!(kind("hello, world"), "?");
        assert_eq!(kind(""), "?");
    }

    proptest! {
        #[test]
        fn no_line_panics(
            lines in prop::collection::vec(
                prop_oneof![".{0,80}", "[{}\"a-c:,0-9]{0,40}", "time,[ip,\"]{0,9}"], 1..5),
        ) {
            let (key, cost) = ("ip+path".parse().unwrap(), "bytes".parse().unwrap());
            let headers = Some(vec!["x-user".to_owned(), "referer".to_owned()]);
            let charge = Charge { key, cost, headers };
            let mut request = LogEntry::default();
            let formats = [Format::Clf, Format::Jsonl, Format::Csv];
            let readers = formats.iter().filter_map(|format| Reader::new(*format, None));
            for mut reader in readers.chain(Reader::recognise(&lines[0], Some("ip"))) {
                for line in &lines {
                    let _ = reader.read(line, &charge, &mut request);
                }
            }
        }
    }
}
