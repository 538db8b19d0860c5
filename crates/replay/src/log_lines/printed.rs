//! A request that was read from a line, and its printed form in each format.

use crate::log::fields::Stamp;
use crate::log::format::Format;
use crate::log::logged_request::{LoggedRequest, LoggedRequestView};

use super::mistake::{Mistake, planted};
use super::{HEADERS, Printed, read_again};

/// All fields of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) stamp: Stamp,
    pub(super) ip: Option<String>,
    pub(super) user: Option<String>,
    pub(super) path: Option<String>,
    pub(super) method: Option<String>,
    pub(super) bytes: Option<u64>,
    pub(super) logged: LoggedRequest,
}

/// A header that the log records, and its values; none if the request did not have it.
type PrintedHeader = (&'static str, Vec<String>);

impl Seen {
    /// Prints the request in each format, and checks that it reads back the same.
    pub(super) fn check_round_trips(&self, printed: &mut Printed) {
        let line = self.json(&iso(self.stamp));
        assert_eq!(read_again(Format::Jsonl, None, &line).as_ref(), Some(self), "{line}");
        printed.json += 1;
        if let Some((header, row)) = self.csv(&iso(self.stamp)) {
            assert_eq!(read_again(Format::Csv, Some(&header), &row).as_ref(), Some(self), "{row}");
            printed.csv += 1;
        }
        if let Some((header, row)) = self.csv(&unix(self.stamp)) {
            // A Unix time has no offset.
            let mut utc = Stamp { offset_secs: 0, ..self.stamp };
            let again = read_again(Format::Csv, Some(&header), &row);
            utc.unix_nanos = utc.unix_nanos.wrapping_sub(planted(Mistake::UnixOff).into());
            assert_eq!(again.map(|seen| seen.stamp), Some(utc), "{row}");
        }
        if let Some(line) = self.clf() {
            assert_eq!(read_again(Format::Clf, None, &line).as_ref(), Some(self), "{line}");
            printed.clf += 1;
        }
    }

    fn json(&self, time: &str) -> String {
        let quoted = |values: Vec<String>| match &values[..] {
            [value] => quoted_json(value),
            values => {
                let values: Vec<String> = values.iter().map(|its| quoted_json(its)).collect();
                format!("[{}]", values.join(","))
            }
        };
        let members: Vec<String> = self
            .named(time)
            .map(|(name, values)| format!("{}:{}", quoted_json(name), quoted(values)))
            .collect();
        format!("{{{}}}", members.join(","))
    }

    /// The header line and the record; `None` if a header has several values.
    fn csv(&self, time: &str) -> Option<(String, String)> {
        let quoted = |value: &String| format!("\"{}\"", value.replace('"', "\"\""));
        let record = self.named(time).map(|(name, values)| match &values[..] {
            [value] => Some((name, quoted(value))),
            _ => None,
        });
        let (names, values): (Vec<_>, Vec<_>) = record.collect::<Option<_>>()?;
        Some((names.join(","), values.join(",")))
    }

    /// All fields by their usual names, each with its values.
    fn named(&self, time: &str) -> impl Iterator<Item = PrintedHeader> {
        let fields = [
            ("time", Some(time.to_owned())),
            ("ip", self.ip.clone()),
            ("user", self.user.clone()),
            ("path", self.path.clone()),
            ("method", self.method.clone()),
            ("bytes", self.bytes.map(|bytes| bytes.to_string())),
        ];
        let fields = fields.into_iter().filter_map(|(name, value)| Some((name, vec![value?])));
        let or_none = |values: Vec<String>| match values.is_empty() {
            true => vec!["-".to_owned()],
            false => values,
        };
        let headers = self.headers().into_iter().map(move |(name, values)| {
            let name = match name {
                "user-agent" => "http_user_agent",
                "referer" => "http_referer",
                "x-user" => "http_x_user",
                _ => "http_host",
            };
            (name, or_none(values))
        });
        let query = self.query().map(|query| ("query", or_none(query.into_iter().collect())));
        fields.chain(query).chain(headers)
    }

    /// The query, if the request had one; `None` if the log does not record it.
    fn query(&self) -> Option<Option<String>> {
        use tollgate_rules::RequestView;

        let asked = LoggedRequestView::new(&self.logged, &[]);
        let query = asked.query().map(str::to_owned);
        asked.take_missing().is_empty().then_some(query)
    }

    /// The headers that the log records.
    fn headers(&self) -> Vec<PrintedHeader> {
        use tollgate_rules::RequestView;

        let names = HEADERS.map(str::to_owned);
        let asked = LoggedRequestView::new(&self.logged, &names);
        let mut kept = Vec::new();
        for name in HEADERS {
            let values = asked.header_values(name);
            let values = values.map(|value| String::from_utf8_lossy(value).into_owned());
            let values = values.collect();
            if asked.take_missing().is_empty() {
                kept.push((name, values));
            }
        }
        let host = asked.host().map(str::to_owned).into_iter().collect();
        if asked.take_missing().is_empty() {
            kept.push(("host", host));
        }
        kept
    }

    /// The Combined or Common Log Format; `None` if neither can express the request.
    fn clf(&self) -> Option<String> {
        let says = |text: &Option<String>, but: &[char]| {
            text.clone().filter(|text| !text.contains(but) && !text.contains('"'))
        };
        let ip = says(&self.ip, &[' ']).filter(|ip| !ip.is_empty())?;
        let user = says(&self.user, &[])?;
        let (method, path) = (says(&self.method, &[' '])?, escaped_clf(self.path.as_ref()?));
        let query = self.query()?.map(|query| escaped_clf(&format!("?{query}")));
        let query = query.unwrap_or_default();
        let time = clf_time(self.stamp)?;
        let common = format!(
            "{ip} - {user} [{time}] \"{method} {path}{query} HTTP/1.1\" 200 {}",
            self.bytes?
        );
        let text = |values: &[String]| match values {
            [] => Some("-".to_owned()),
            [text] => Some(escaped_clf(text)),
            _ => None,
        };
        match self.headers().as_slice() {
            [] => Some(common),
            [("user-agent", agent), ("referer", referer)] => {
                Some(format!("{common} \"{}\" \"{}\"", text(referer)?, text(agent)?))
            }
            _ => None,
        }
    }
}

/// The text as nginx writes it.
fn escaped_clf(text: &str) -> String {
    let mut escaped = String::new();
    for letter in text.chars() {
        match letter {
            '"' | '\\' | '\0'..' ' => escaped.push_str(&format!("\\x{:02X}", u32::from(letter))),
            letter => escaped.push(letter),
        }
    }
    escaped
}

fn quoted_json(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            '\0'..' ' => quoted.push_str(&format!("\\u{:04x}", u32::from(letter))),
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

/// `1995-08-01T08:00:00.000000000+02:00`; an offset with seconds includes them.
fn iso(stamp: Stamp) -> String {
    let Civil { year, month, day, hour, minute, second } = Civil::of(stamp);
    let nanos = stamp.unix_nanos % 1_000_000_000;
    let sign = if stamp.offset_secs < 0 { '-' } else { '+' };
    let offset = stamp.offset_secs.unsigned_abs();
    let (hours, minutes, seconds) = (offset / 3_600, offset / 60 % 60, offset % 60);
    let rest = if seconds == 0 { String::new() } else { format!(":{seconds:02}") };
    format!(
        "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{nanos:09}\
         {sign}{hours:02}:{minutes:02}{rest}"
    )
}

fn unix(stamp: Stamp) -> String {
    format!("{}.{:09}", stamp.unix_nanos / 1_000_000_000, stamp.unix_nanos % 1_000_000_000)
}

/// `01/Aug/1995:08:00:00 +0200`; `None` for a fraction of a second or an offset with seconds.
fn clf_time(stamp: Stamp) -> Option<String> {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let Civil { year, month, day, hour, minute, second } = Civil::of(stamp);
    let offset = stamp.offset_secs.unsigned_abs();
    let is_whole = stamp.unix_nanos.is_multiple_of(1_000_000_000) && offset.is_multiple_of(60);
    if !is_whole || offset >= 86_400 {
        return None;
    }
    let sign = if stamp.offset_secs < 0 { '-' } else { '+' };
    let name = &MONTHS[3 * (month - 1)..3 * month];
    let (hours, minutes) = (offset / 3_600, offset / 60 % 60);
    Some(format!(
        "{day:02}/{name}/{year:04}:{hour:02}:{minute:02}:{second:02} {sign}{hours:02}{minutes:02}"
    ))
}

/// A date and a time of day at the offset of the log.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Civil {
    pub(super) year: i64,
    pub(super) month: usize,
    pub(super) day: i64,
    pub(super) hour: i64,
    pub(super) minute: i64,
    pub(super) second: i64,
}

impl Civil {
    /// Counts years and months from 1969, because an offset can lead there.
    pub(super) fn of(stamp: Stamp) -> Self {
        const YEAR_1969_SECS: i64 = -365 * 86_400;
        let unix_secs = i64::try_from(stamp.unix_nanos / 1_000_000_000).expect("until 2554");
        let secs = unix_secs + i64::from(stamp.offset_secs) - YEAR_1969_SECS;
        let (mut days, of_day) = (secs.div_euclid(86_400), secs.rem_euclid(86_400));
        let is_leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let mut year = 1969;
        while days >= 365 + i64::from(is_leap(year)) {
            days -= 365 + i64::from(is_leap(year));
            year += 1;
        }
        let february = 28 + i64::from(is_leap(year));
        let mut month = 1;
        for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
            if days < length {
                break;
            }
            days -= length;
            month += 1;
        }
        let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
        Self { year, month, day: days + 1, hour, minute, second }
    }
}
