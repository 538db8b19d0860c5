//! Comma-separated values: a header line, then one record per line.
//!
//! A record is one line, although RFC 4180 lets a quoted field contain line breaks. So a stray quote
//! makes one line malformed, not the rest of the file.

use std::borrow::Cow;

use super::{TIME_NAMES, time};
use crate::log::fields::{
    Field, Fields, Header, Malformed, QUERY_NAMES, Stamp, header_names, path_of, query_of,
};

/// The columns of one file.
#[derive(Debug)]
pub(crate) struct Columns {
    names: Vec<String>,
    time: usize,
}

impl Columns {
    /// Reads the header line and finds the time column.
    pub(crate) fn parse(line: &str, time_field: Option<&str>) -> Result<Self, Malformed> {
        let names: Vec<String> =
            split(line)?.into_iter().map(|column| column.trim().to_owned()).collect();
        let time = match time_field {
            Some(name) => position(&names, name).ok_or_else(|| {
                Malformed::new(format!(
                    "the header has no column {name:?} for the time; it has {}",
                    names.join(", ")
                ))
            })?,
            None => first_of(&names, TIME_NAMES).ok_or_else(|| {
                Malformed::new(format!(
                    "no column has a usual name for the time: give --time-field, one of {}",
                    names.join(", ")
                ))
            })?,
        };
        Ok(Self { names, time })
    }

    /// Checks that the file has a column for the field. The error lists the columns.
    pub(super) fn require(&self, field: &Field) -> Result<(), Malformed> {
        match self.column(field) {
            Some(_) => Ok(()),
            None => Err(Malformed::new(format!(
                "no column has the field `{field}`; the header has {}: write field:NAME, \
                 or --key none for one bucket",
                self.names.join(", ")
            ))),
        }
    }

    /// Splits a line into one value per column.
    pub(crate) fn row<'a>(&'a self, line: &'a str) -> Result<Row<'a>, Malformed> {
        let values = split(line)?;
        if values.len() != self.names.len() {
            return Err(Malformed::new(format!(
                "{} values where the header has {} columns",
                values.len(),
                self.names.len()
            )));
        }
        Ok(Row { columns: self, values })
    }

    fn column(&self, field: &Field) -> Option<usize> {
        match field {
            Field::Named(name) => position(&self.names, name),
            _ => first_of(&self.names, field.usual_names()),
        }
    }
}

/// The column of that name. An exact match goes before one that differs in case.
fn position(columns: &[String], name: &str) -> Option<usize> {
    columns
        .iter()
        .position(|column| column == name)
        .or_else(|| columns.iter().position(|column| column.eq_ignore_ascii_case(name)))
}

fn first_of(columns: &[String], names: &[&str]) -> Option<usize> {
    names.iter().find_map(|name| position(columns, name))
}

/// One record.
#[derive(Debug)]
pub(crate) struct Row<'a> {
    columns: &'a Columns,
    values: Vec<Cow<'a, str>>,
}

impl Fields for Row<'_> {
    fn stamp(&self) -> Result<Stamp, Malformed> {
        time::parse(&self.values[self.columns.time])
    }

    fn target(&self) -> Option<Cow<'_, str>> {
        Some(Cow::Borrowed(self.values[self.columns.column(&Field::Path)?].as_ref()))
    }

    fn text(&self, field: &Field) -> Option<Cow<'_, str>> {
        match field {
            Field::Path => self.target().map(path_of),
            _ => Some(Cow::Borrowed(self.values[self.columns.column(field)?].as_ref())),
        }
    }

    fn header(&self, name: &str) -> Header<'_> {
        let names = header_names(name);
        match names.iter().find_map(|name| position(&self.columns.names, name)) {
            Some(column) => Header::written(Cow::Borrowed(self.values[column].as_ref())),
            None => Header::NotInLog,
        }
    }

    fn query(&self) -> Header<'_> {
        let value = |column: usize| Cow::Borrowed(self.values[column].as_ref());
        if let Some(column) = first_of(&self.columns.names, QUERY_NAMES) {
            return Header::written(value(column));
        }
        match self.columns.column(&Field::Path) {
            Some(column) => query_of(&self.columns.names[column], value(column)),
            None => Header::NotInLog,
        }
    }
}

/// Blanks around a value, which the parser leaves out. RFC 4180 counts them as a part of the value. Then ` 10.0.0.1`
/// would be no address, and ` /a` another path than `/a`.
const BLANKS: [char; 2] = [' ', '\t'];

/// The values of one line; `"a ""b"" c"` is the value `a "b" c`.
fn split(line: &str) -> Result<Vec<Cow<'_, str>>, Malformed> {
    let mut values = Vec::new();
    let mut rest = line;
    loop {
        let (value, after) = match rest.trim_start_matches(BLANKS).strip_prefix('"') {
            Some(inside) => {
                let (value, after) = quoted(inside)?;
                (value, after.trim_start_matches(BLANKS))
            }
            None => {
                let (value, after) = rest.split_at(rest.find(',').unwrap_or(rest.len()));
                (Cow::Borrowed(value.trim_matches(BLANKS)), after)
            }
        };
        values.push(value);
        if after.is_empty() {
            return Ok(values);
        }
        rest = after
            .strip_prefix(',')
            .ok_or_else(|| Malformed::new("text follows the closing quote of a value"))?;
    }
}

/// A value up to its closing quote, and the rest of the line.
fn quoted(inside: &str) -> Result<(Cow<'_, str>, &str), Malformed> {
    let mut from = 0;
    let mut doubled = false;
    while let Some(at) = inside[from..].find('"').map(|at| from + at) {
        if !inside[at + 1..].starts_with('"') {
            let value = &inside[..at];
            let value = if doubled {
                Cow::Owned(value.replace("\"\"", "\""))
            } else {
                Cow::Borrowed(value)
            };
            return Ok((value, &inside[at + 1..]));
        }
        doubled = true;
        from = at + 2;
    }
    Err(Malformed::new("a value's closing quote is missing"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn named(name: &str) -> Field {
        Field::Named(name.to_owned())
    }

    #[test]
    fn the_azure_trace_is_read() {
        let columns = Columns::parse("TIMESTAMP,ContextTokens,GeneratedTokens", None).unwrap();
        let row = columns.row("2023-11-16 18:15:46.6805900,374,44").unwrap();
        assert_eq!(row.stamp().unwrap().unix_nanos, 1_700_158_546_680_590_000);
        assert_eq!(row.text(&named("ContextTokens")).unwrap(), "374");
        assert_eq!(row.text(&named("generatedtokens")).unwrap(), "44");
        assert!(columns.require(&named("GeneratedTokens")).is_ok());
        let missing = columns.require(&Field::Ip).unwrap_err().to_string();
        assert!(missing.contains("`ip`") && missing.contains("ContextTokens"), "{missing}");
    }

    #[test]
    fn quoted_values_may_contain_commas_and_quotes() {
        assert_eq!(split("a,\"b,\"\"c\"\"\",,d").unwrap(), ["a", "b,\"c\"", "", "d"]);
        assert_eq!(split("").unwrap(), [""]);
        assert_eq!(split("\"\"").unwrap(), [""]);
        assert_eq!(split("a,").unwrap(), ["a", ""]);
        assert_eq!(split("it's 5\" wide,b").unwrap(), ["it's 5\" wide", "b"]);
    }

    #[test]
    fn blanks_around_values_are_left_out() {
        assert_eq!(split("a, b ,\tc d\t, ").unwrap(), ["a", "b", "c d", ""]);
        assert_eq!(split("\"a\" , \" b \",  \"\"").unwrap(), ["a", " b ", ""]);
        assert!(split("\"a\" x,b").is_err() && split("a, \"b").is_err());
    }

    #[test]
    fn a_malformed_line_says_what_is_wrong() {
        for (line, why) in [
            ("\"a,b,c", "closing quote is missing"),
            ("\"a\"x,b,c", "follows"),
            ("1,2", "2 values where the header has 3 columns"),
        ] {
            let columns = Columns::parse("time,ip,path", None).unwrap();
            let error = columns.row(line).unwrap_err().to_string();
            assert!(error.contains(why), "{line}: {error}");
        }
        assert!(Columns::parse("a,b", None).unwrap_err().to_string().contains("--time-field"));
        assert!(Columns::parse("a,b", Some("c")).unwrap_err().to_string().contains("a, b"));
        assert!(Columns::parse("a,b", Some("b")).is_ok());
    }

    proptest! {
        #[test]
        fn no_text_panics(line in "[\",a-c0-9é ]{0,60}") {
            let _ = split(&line);
            let columns = Columns::parse("time,ip", None).unwrap();
            if let Ok(row) = columns.row(&line) {
                let _ = row.stamp();
            }
        }

        #[test]
        fn splitting_undoes_quoting(values in prop::collection::vec("[\",a-c ]{0,6}", 1..5)) {
            let quoted: Vec<String> =
                values.iter().map(|value| format!("\"{}\"", value.replace('"', "\"\""))).collect();
            let line = quoted.join(",");
            prop_assert_eq!(split(&line).unwrap(), values);
        }
    }
}
