//! Properties of reading any bytes as a log. The tests here and a fuzz target in `fuzz/` run them.
//!
//! The first byte selects a format and whether the log is packed, the second byte selects key and
//! cost, and the rest is the log.

mod mistake;
mod printed;
#[cfg(test)]
mod tests;

use std::io::{Cursor, Write};

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::log::charge::{Charge, LogEntry};
use crate::log::format::{self, Format, Reader};
use crate::log::lines::{Input, LINE_BYTES_MAX, Line};
use mistake::{Mistake, planted};
use printed::Seen;

/// The headers that are read.
const HEADERS: [&str; 3] = ["user-agent", "referer", "x-user"];
const CHARGES: [(&str, &str); 5] = [
    ("ip", "1"),
    ("none", "bytes"),
    ("ip+path", "field:bytes"),
    ("user+method", "1"),
    ("field:a.b+field:request", "field:status"),
];

/// The number of lines that were printed and read again, by format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Printed {
    pub(crate) clf: usize,
    pub(crate) json: usize,
    pub(crate) csv: usize,
}

/// Checks three things: reading these bytes does not panic; the lines equal those of a naive reader, packed or
/// not; and a request that is printed, in each format that can express it, reads back the same.
pub(crate) fn log_lines(data: &[u8]) -> Printed {
    let (kind, charge, log) = match data {
        [kind, charge, log @ ..] => (*kind, *charge, log),
        _ => return Printed::default(),
    };
    let time_field = (kind & 4 > 0).then_some("at");
    let mut log = log.to_vec();
    if charge >= 0xfc {
        // A length just below, at or above that of the longest kept line.
        let length = LINE_BYTES_MAX - 2 + usize::from(charge - 0xfc);
        let long = [vec![b'x'; length], b"\n".to_vec()].concat();
        log.splice(0..0, long);
    }
    let expected = read_naively(&log);
    if log.starts_with(&[0x1f, 0x8b]) {
        // It unpacks to anything, or fails. It must not panic.
        let _ = lines_of(&log);
    } else {
        let lines = lines_of(&log).expect("plain bytes have no error");
        assert_eq!(less_one_if(planted(Mistake::LineLost), lines), expected);
    }
    if kind & 8 > 0 {
        let lines = lines_of(&gzip(&log)).expect("the gzip is complete");
        assert_eq!(less_one_if(planted(Mistake::PackedLineLost), lines), expected);
    }
    let (key, cost) = CHARGES[usize::from(charge) % CHARGES.len()];
    let format = [Format::Auto, Format::Clf, Format::Jsonl, Format::Csv][usize::from(kind % 4)];
    let recognised =
        || texts(&expected).take(16).find_map(|line| Reader::recognise(line, time_field));
    if let Some(reader) = Reader::new(format, time_field).or_else(recognised) {
        requests(reader, texts(&expected), &charged(key, cost));
    }
    let mut printed = Printed::default();
    for format in [Format::Clf, Format::Jsonl, Format::Csv] {
        let lines: Vec<&str> = texts(&expected).take(64).collect();
        for seen in seen(&lines, format, time_field) {
            seen.check_round_trips(&mut printed);
        }
    }
    printed
}

/// The lines as a replay reads them, after it has examined the first ones for the format; `None` for
/// a line that is too long.
fn lines_of(log: &[u8]) -> std::io::Result<Vec<Option<String>>> {
    let log = Cursor::new(log.to_vec());
    let mut lines = Input::Stdin.open(|_| Box::new(log)).map_err(std::io::Error::other)?;
    let _ = lines.peek(|line| Reader::recognise(line, None).map(|_| ()))?;
    let mut texts = Vec::new();
    while let Some((number, line)) = lines.next()? {
        assert_eq!(number, texts.len() as u64 + 1);
        texts.push(match line {
            Line::Text(text) => Some(text.into_owned()),
            Line::TooLong => None,
        });
    }
    Ok(texts)
}

fn less_one_if(is_lost: bool, mut lines: Vec<Option<String>>) -> Vec<Option<String>> {
    lines.truncate(lines.len().saturating_sub(is_lost.into()));
    lines
}

/// The naive reader: splits at line ends, and strips them and the byte order mark.
fn read_naively(log: &[u8]) -> Vec<Option<String>> {
    let mut lines: Vec<&[u8]> = log.split(|byte| *byte == b'\n').collect();
    lines.pop_if(|last| last.is_empty());
    let text = |(index, line): (usize, &&[u8])| {
        let kept = line.strip_suffix(b"\r").unwrap_or(line);
        let mark: &[u8] = if index == 0 { b"\xef\xbb\xbf" } else { b"" };
        let kept = kept.strip_prefix(mark).unwrap_or(kept);
        (line.len() < LINE_BYTES_MAX).then(|| String::from_utf8_lossy(kept).into_owned())
    };
    lines.iter().enumerate().map(text).collect()
}

fn texts(lines: &[Option<String>]) -> impl Iterator<Item = &str> {
    lines.iter().flatten().map(String::as_str)
}

fn gzip(log: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(log).expect("memory can be written to");
    encoder.finish().expect("memory can be written to")
}

fn charged(key: &str, cost: &str) -> Charge {
    let headers = Some(HEADERS.map(str::to_owned).to_vec());
    Charge { key: key.parse().expect("a key"), cost: cost.parse().expect("a cost"), headers }
}

/// The request of each line by one charge; `None` after an error that ends the file.
fn requests<'l>(
    mut reader: Reader<'_>,
    lines: impl Iterator<Item = &'l str>,
    charge: &Charge,
) -> Vec<Option<LogEntry>> {
    let mut all = Vec::new();
    let mut is_fatal = reader.accepts(charge).is_err();
    for line in lines {
        let mut request = LogEntry::default();
        let read = (!is_fatal).then(|| reader.read(line, charge, &mut request));
        is_fatal |= matches!(read, Some(Err(_)));
        let is_request = matches!(read, Some(Ok(Ok(format::LineKind::Request))));
        all.push(is_request.then_some(request));
    }
    all
}

/// Every field of each request of a log. Each field is read by its own charge.
fn seen(lines: &[&str], format: Format, time_field: Option<&str>) -> Vec<Seen> {
    let by = |key: &str, cost: &str| {
        let reader = Reader::new(format, time_field).expect("a format that is known");
        requests(reader, lines.iter().copied(), &charged(key, cost)).into_iter()
    };
    let key = |request: Option<LogEntry>| request.map(|request| request.key);
    let names = ["ip", "user", "path", "method"].map(|name| by(name, "1").map(key));
    let [mut ips, mut users, mut paths, mut methods] = names;
    let mut sizes = by("none", "bytes");
    let mut all = Vec::new();
    for request in by("none", "1") {
        let mut next = || Some([ips.next()?, users.next()?, paths.next()?, methods.next()?]);
        let [ip, user, path, method] = next().expect("as many as there are lines");
        let bytes = sizes.next().flatten().map(|request| request.cost);
        if let Some(LogEntry { stamp, logged, .. }) = request {
            all.push(Seen { stamp, ip, user, path, method, bytes, logged });
        }
    }
    all
}

/// Reads one line in a format, after the header line if there is one.
fn read_again(format: Format, header: Option<&str>, line: &str) -> Option<Seen> {
    let lines: Vec<&str> = header.into_iter().chain([line]).collect();
    let mut seen = seen(&lines, format, None).pop()?;
    if planted(Mistake::Misread(format)) {
        seen.path = Some("/another".to_owned());
    }
    Some(seen)
}
