//! The lines of a file, of a gzip file, or of standard input.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};

use anyhow::{Context, Result, bail};
use flate2::bufread::MultiGzDecoder;

use super::same_file::{is_same_file, is_stdin};

/// The longest line that is kept. A longer one is skipped, so that memory stays bounded.
pub(crate) const LINE_BYTES_MAX: usize = if cfg!(fuzzing) { 1 << 10 } else { 1 << 20 };
/// Lines that are examined to recognise a format; blank ones do not count.
const RECOGNISED_WITHIN_LINES: usize = 16;
/// Bytes that are examined to recognise a format, blank lines included. They are kept in memory.
const RECOGNISED_WITHIN_BYTES: usize = RECOGNISED_WITHIN_LINES * (LINE_BYTES_MAX + 1);
/// Small under fuzzing, so that lines often cross a buffer boundary.
const BUFFER_BYTES: usize = if cfg!(fuzzing) { 1 << 6 } else { 1 << 16 };
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// The source of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    /// Standard input.
    Stdin,
    /// A file of that name.
    File(String),
}

impl Input {
    /// `-` is standard input.
    pub(crate) fn named(name: String) -> Self {
        if name == "-" { Self::Stdin } else { Self::File(name) }
    }

    /// The name in reports.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Stdin => "standard input",
            Self::File(name) => name,
        }
    }

    /// The size in bytes; `None` if unknown. Fails if the file cannot be read, so that a misspelt name is
    /// found before an hour of work, not after it.
    pub(crate) fn bytes(&self) -> Result<Option<u64>> {
        let Self::File(name) = self else { return Ok(None) };
        let cannot_open = || format!("cannot open {name}");
        let metadata = std::fs::metadata(name).with_context(cannot_open)?;
        if metadata.is_dir() {
            bail!("cannot read {name}: it is a directory; name the log files in it");
        }
        if !metadata.is_file() {
            // A named pipe that is opened and closed has lost its writer.
            return Ok(None);
        }
        File::open(name).with_context(cannot_open)?;
        Ok(Some(metadata.len()))
    }

    /// Whether the log is the file of this name.
    pub(crate) fn is_file(&self, other: &str) -> bool {
        match self {
            Self::Stdin => is_stdin(other),
            Self::File(name) => is_same_file(name, other),
        }
    }

    /// Opens the log. `watch` wraps the bytes as they are on the disk, before they are unpacked.
    pub(crate) fn open(&self, watch: impl FnOnce(Box<dyn Read>) -> Box<dyn Read>) -> Result<Lines> {
        let raw: Box<dyn Read> = match self {
            Self::Stdin => Box::new(io::stdin()),
            Self::File(name) => {
                Box::new(File::open(name).with_context(|| format!("cannot open {name}"))?)
            }
        };
        Lines::new(watch(raw)).with_context(|| format!("cannot read {}", self.name()))
    }
}

/// One line, or a mark that it was too long to keep.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line<'l> {
    /// The line without its line end. Bytes that are not UTF-8 are replaced.
    Text(Cow<'l, str>),
    TooLong,
}

/// The lines of one input, unpacked if its first bytes are those of gzip.
pub(crate) struct Lines {
    reader: Box<dyn BufRead>,
    line: Vec<u8>,
    number: u64,
}

impl Lines {
    fn new(mut raw: Box<dyn Read>) -> io::Result<Self> {
        let mut start = Vec::with_capacity(GZIP_MAGIC.len());
        raw.by_ref().take(GZIP_MAGIC.len() as u64).read_to_end(&mut start)?;
        let is_gzip = start == GZIP_MAGIC;
        let whole = BufReader::with_capacity(BUFFER_BYTES, Cursor::new(start).chain(raw));
        let reader: Box<dyn BufRead> = if is_gzip {
            Box::new(BufReader::with_capacity(BUFFER_BYTES, MultiGzDecoder::new(whole)))
        } else {
            Box::new(whole)
        };
        Ok(Self { reader, line: Vec::new(), number: 0 })
    }

    /// The next line and its number, counted from 1; `None` at the end.
    pub(crate) fn next(&mut self) -> io::Result<Option<(u64, Line<'_>)>> {
        self.line.clear();
        let within = read_line(&mut self.reader, &mut self.line)?;
        if self.line.is_empty() {
            return Ok(None);
        }
        self.number += 1;
        if !within {
            return Ok(Some((self.number, Line::TooLong)));
        }
        Ok(Some((self.number, Line::Text(text(&self.line, self.number == 1)))))
    }

    /// Passes the first lines to `ask` until it returns `Some`, without consuming them.
    pub(crate) fn peek<T>(
        &mut self,
        ask: impl Fn(&str) -> Option<T>,
    ) -> io::Result<Result<T, Unrecognised>> {
        let mut seen = Vec::new();
        let mut outcome = Err(Unrecognised::Empty);
        let mut examined = 0;
        while examined < RECOGNISED_WITHIN_LINES {
            let from = seen.len();
            if from >= RECOGNISED_WITHIN_BYTES {
                outcome = Err(Unrecognised::Unknown);
                break;
            }
            let within = read_line(&mut self.reader, &mut seen)?;
            if seen.len() == from {
                break;
            }
            if !within {
                // The kept start of the line ends here, and is still too long when it is read again.
                seen.push(b'\n');
            }
            let line = text(&seen[from..], from == 0);
            if let Some(answer) = ask(&line) {
                outcome = Ok(answer);
                break;
            }
            if !within || !line.trim().is_empty() {
                examined += 1;
                outcome = Err(Unrecognised::Unknown);
            }
        }
        let rest = std::mem::replace(&mut self.reader, Box::new(io::empty()));
        self.reader = Box::new(Cursor::new(seen).chain(rest));
        Ok(outcome)
    }
}

/// Why [`Lines::peek`] has no answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unrecognised {
    /// The input has only blank lines.
    Empty,
    /// No line that was examined gave an answer.
    Unknown,
}

/// Appends a line with its line end. Returns false for a line that is too long, of which only the
/// start is kept.
fn read_line(reader: &mut dyn BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    let from = line.len();
    reader.take(LINE_BYTES_MAX as u64).read_until(b'\n', line)?;
    if line.len() - from < LINE_BYTES_MAX || line.ends_with(b"\n") {
        return Ok(true);
    }
    reader.skip_until(b'\n')?;
    Ok(false)
}

/// A line without its line end, and without the byte order mark that a first line may have.
fn text(line: &[u8], is_first: bool) -> Cow<'_, str> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let line = if is_first { line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line) } else { line };
    String::from_utf8_lossy(line)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn lines(bytes: &[u8]) -> Lines {
        Lines::new(Box::new(Cursor::new(bytes.to_vec()))).unwrap()
    }

    fn all(mut lines: Lines) -> Vec<String> {
        let mut texts = Vec::new();
        while let Some((number, line)) = lines.next().unwrap() {
            assert_eq!(number, texts.len() as u64 + 1);
            texts.push(match line {
                Line::Text(text) => text.into_owned(),
                Line::TooLong => "too long".to_owned(),
            });
        }
        texts
    }

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn line_ends_and_byte_order_marks_are_dropped() {
        assert_eq!(all(lines(b"\xef\xbb\xbfa\r\n\nb\n\xffc")), ["a", "", "b", "\u{fffd}c"]);
        assert!(all(lines(b"")).is_empty());
    }

    #[test]
    fn gzip_members_are_unpacked_one_after_another() {
        let packed = [gzip(b"a\nb\n"), gzip(b"c\n")].concat();
        assert_eq!(all(lines(&packed)), ["a", "b", "c"]);
    }

    #[test]
    fn a_truncated_gzip_gives_its_lines_and_then_an_error() {
        let packed = gzip(b"a\nb\n");
        let mut lines = lines(&packed[..packed.len() - 4]);
        assert!(lines.next().unwrap().is_some());
        assert!(lines.next().unwrap().is_some());
        assert_eq!(lines.next().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_line_that_is_too_long_is_skipped_alone() {
        let long = [vec![b'x'; 3 * LINE_BYTES_MAX], b"\nb\n".to_vec()].concat();
        assert_eq!(all(lines(&long)), ["too long", "b"]);
        let fits = [vec![b'x'; LINE_BYTES_MAX - 1], b"\nb".to_vec()].concat();
        assert_eq!(all(lines(&fits)).len(), 2);
    }

    #[test]
    fn peeking_consumes_no_line() {
        let mut both = lines(b"a\nb\nc\n");
        assert_eq!(both.peek(|line| (line == "b").then_some(7)).unwrap(), Ok(7));
        assert_eq!(all(both), ["a", "b", "c"]);
        let long = [vec![b'x'; LINE_BYTES_MAX + 1], b"\nb\nc".to_vec()].concat();
        let mut both = lines(&long);
        assert_eq!(both.peek(|line| (line == "b").then_some(7)).unwrap(), Ok(7));
        assert_eq!(all(both), ["too long", "b", "c"], "the next line is not lost with it");
        let ask = |_: &str| None::<()>;
        assert_eq!(lines(b"a").peek(ask).unwrap(), Err(Unrecognised::Unknown));
        assert_eq!(lines(b"\n\n").peek(ask).unwrap(), Err(Unrecognised::Empty));
    }

    #[test]
    fn blank_lines_do_not_count_among_those_that_are_examined() {
        let found = |log: &[u8]| lines(log).peek(|line| (line == "b").then_some(())).unwrap();
        let blank = [vec![b'\n'; 99], b"b\n".to_vec()].concat();
        assert_eq!(found(&blank), Ok(()));
        let between = [b"a\n \r\n".repeat(RECOGNISED_WITHIN_LINES - 1), b"b".to_vec()].concat();
        assert_eq!(found(&between), Ok(()));
        let late = [b"a\n".repeat(RECOGNISED_WITHIN_LINES), b"b".to_vec()].concat();
        assert_eq!(found(&late), Err(Unrecognised::Unknown));
    }

    #[test]
    fn more_blank_lines_than_fit_in_memory_are_no_empty_log() {
        let blank_line = [vec![b' '; LINE_BYTES_MAX / 2], b"\n".to_vec()].concat();
        let log = [blank_line.repeat(2 * RECOGNISED_WITHIN_LINES + 1), b"b".to_vec()].concat();
        let ask = |line: &str| (line == "b").then_some(());
        assert_eq!(lines(&log).peek(ask).unwrap(), Err(Unrecognised::Unknown));
    }

    #[test]
    fn an_unreadable_file_is_named() {
        let error = Input::named("/no/such.log".to_owned()).bytes().unwrap_err();
        assert!(format!("{error:#}").contains("/no/such.log"));
        let folder = std::env::temp_dir().to_str().expect("a path in UTF-8").to_owned();
        let error = Input::named(folder).bytes().unwrap_err();
        assert!(error.to_string().contains("directory"));
        assert_eq!(Input::named("-".to_owned()), Input::Stdin);
    }
}
