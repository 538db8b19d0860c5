//! The results of a bench, as saved in `DIR/<bench>.json`.

use std::path::Path;
use std::{fs, io};

use serde::{Deserialize, Serialize};

use crate::rounds::Figures;
use crate::target::Target;

/// One run of one bench.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Saved {
    /// The bench's name.
    pub bench: String,
    /// Processor, cores, compiler.
    pub machine: String,
    /// When the bench began, in UTC.
    pub date: String,
    /// The commit that was measured, with a plus if files differed from it.
    #[serde(default)]
    pub commit: String,
    /// How long the bench took.
    #[serde(default)]
    pub seconds: u64,
    /// Rounds of every comparison.
    pub rounds: usize,
    /// The text that selected the rows, if the run was restricted.
    pub only: Option<String>,
    /// The load of the machine by others.
    pub noise: Noise,
    /// A section for each heading.
    pub sections: Vec<Section>,
}

/// Disturbances of a run, as reported by the system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Noise {
    /// The load average of the minute before the bench began.
    pub load_average: f64,
    /// The share of processor time that other guests of the host took, in percent.
    pub stolen_percent: f64,
    /// How often the system preempted the bench's first thread.
    pub preemptions: u64,
}

/// The items under one heading, in the order of printing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Section {
    /// The heading.
    pub title: String,
    /// Tables, targets and ratios.
    pub items: Vec<Item>,
}

/// An item that a bench prints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Item {
    /// A comparison of rows that took turns.
    Timed {
        /// The title.
        title: String,
        /// In the order of their turns.
        rows: Vec<TimedRow>,
    },
    /// The duration of single calls.
    Calls {
        /// The title.
        title: String,
        /// A row for each kind of call.
        rows: Vec<CallsRow>,
    },
    /// Any other table.
    Text {
        /// The title; may be empty.
        title: String,
        /// The names of the columns.
        header: Vec<String>,
        /// Each row has as many cells as the header.
        rows: Vec<Vec<String>>,
    },
    /// A sentence about the table before it.
    Note {
        /// The sentence.
        text: String,
    },
    /// A figure with a bound.
    Target(Target),
    /// A ratio without a bound.
    Ratio {
        /// The name of the ratio.
        what: String,
        /// The median of the ratios of all rounds.
        figure: f64,
        /// Their quartiles.
        quartiles: [f64; 2],
        /// The rows that are compared.
        note: String,
    },
    /// One figure of ours and one of a peer's; less is better.
    Beside {
        /// The name of the figures.
        what: String,
        /// The unit of both.
        unit: String,
        /// Our figure.
        ours: f64,
        /// The name of the peer.
        peer: String,
        /// The peer's figure.
        theirs: f64,
    },
}

/// A row of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimedRow {
    /// The name of the row.
    pub name: String,
    /// Threads that decide at the same time.
    pub threads: usize,
    /// Wall nanoseconds times threads per decision: the median of all rounds.
    pub median_nanos: f64,
    /// Their quartiles.
    pub quartiles_nanos: [f64; 2],
    /// Decisions per second of all threads together, in millions.
    pub millions_per_second: f64,
    /// `None` for a floor, which decides nothing.
    pub admitted: Option<Admitted>,
}

/// How many of a row's decisions were admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Admitted {
    /// Those admitted.
    pub count: usize,
    /// All.
    pub of: usize,
}

/// Timed calls of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallsRow {
    /// The name. If it begins with "control", no call is measured.
    pub name: String,
    /// How many calls.
    pub calls: u64,
    /// Percentiles of the calls, in nanoseconds.
    pub percentiles: Vec<Percentile>,
    /// The slowest call.
    pub max_nanos: u64,
    /// Calls of more than 100 microseconds.
    pub slow: u64,
    /// How often the system preempted the threads meanwhile.
    pub preempted: u64,
}

/// One percentile of a distribution.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Percentile {
    /// The percentage of all calls.
    pub percent: f64,
    /// The time that they did not exceed.
    pub nanos: u64,
}

impl Saved {
    /// Reads one file.
    ///
    /// # Errors
    ///
    /// The file is missing or malformed.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(path).map_err(|error| format!("{path:?}: {error}"))?;
        serde_json::from_str(&text).map_err(|error| format!("{path:?}: {error}"))
    }

    /// Reads all files of a directory, in the order of their names.
    ///
    /// # Errors
    ///
    /// A file cannot be read, or there is none.
    pub fn read_all(dir: &Path) -> Result<Vec<Self>, String> {
        let entries = fs::read_dir(dir).map_err(|error| format!("{dir:?}: {error}"))?;
        let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
        paths.sort();
        match paths.is_empty() {
            true => Err(format!("{dir:?}: no results; run a bench with --save")),
            false => paths.iter().map(|path| Self::read(path)).collect(),
        }
    }

    /// Writes `dir/<bench>.json` atomically, by renaming a complete file.
    ///
    /// # Panics
    ///
    /// If the file cannot be written.
    pub fn write(&self, dir: &Path) {
        let path = dir.join(format!("{}.json", self.bench));
        let unfinished = path.with_extension("json.new");
        let mut text = Vec::new();
        let mut writer = serde_json::Serializer::with_formatter(&mut text, OnLines);
        self.serialize(&mut writer).expect("names and numbers");
        text.push(b'\n');
        fs::create_dir_all(dir).expect("--save names a directory that can be made");
        fs::write(&unfinished, text).expect("--save names a directory to write to");
        fs::rename(&unfinished, &path).expect("a file can be renamed in its directory");
    }

    /// All items of all sections.
    pub fn items(&self) -> impl Iterator<Item = &Item> {
        self.sections.iter().flat_map(|section| &section.items)
    }
}

/// Formats one object a line, so that the file is short and a diff shows what changed between runs.
struct OnLines;

impl serde_json::ser::Formatter for OnLines {
    fn begin_object<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b"\n{")
    }
}

/// Rounds to a thousandth. No figure here is more exact.
#[must_use]
pub fn rounded(figure: f64) -> f64 {
    (figure * 1_000.0).round() / 1_000.0
}

impl From<&Figures> for TimedRow {
    fn from(row: &Figures) -> Self {
        let [low, median, high] = crate::report::quartiles(&row.nanos);
        let threads = u32::try_from(row.threads).map_or(0.0, f64::from);
        Self {
            name: row.name.clone(),
            threads: row.threads,
            median_nanos: rounded(median),
            quartiles_nanos: [rounded(low), rounded(high)],
            millions_per_second: rounded(1_000.0 * threads / median),
            admitted: row.admitted,
        }
    }
}

/// The percentiles that a table shows; a plot shows more.
pub const SHOWN: [f64; 4] = [50.0, 99.0, 99.9, 99.99];

impl CallsRow {
    /// The percentile, if it is known.
    #[must_use]
    pub fn nanos(&self, percent: f64) -> Option<u64> {
        let is_it = |point: &&Percentile| (point.percent - percent).abs() < 1e-6;
        self.percentiles.iter().find(is_it).map(|point| point.nanos)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::target::Bound;

    pub(crate) fn sample() -> Saved {
        let row = TimedRow {
            name: "tollgate, own clock".to_owned(),
            threads: 2,
            median_nanos: 22.345,
            quartiles_nanos: [20.0, 25.1],
            millions_per_second: 89.5,
            admitted: Some(Admitted { count: 7, of: 7 }),
        };
        let calls = CallsRow {
            name: "control".to_owned(),
            calls: 9,
            percentiles: SHOWN.map(|percent| Percentile { percent, nanos: 40 }).to_vec(),
            max_nanos: 50,
            slow: 1,
            preempted: 2,
        };
        let items = vec![
            Item::Timed { title: "Admissions".to_owned(), rows: vec![row] },
            Item::Calls { title: "Calls".to_owned(), rows: vec![calls] },
            Item::Text {
                title: String::new(),
                header: vec!["key".to_owned(), "bytes".to_owned()],
                rows: vec![vec!["a".to_owned(), "29.1".to_owned()]],
            },
            Item::Target(Target::new("a", 2.0, Some([1.5, 2.5]), Bound::AtLeast(4.0), "b")),
            Item::Ratio {
                what: "any".to_owned(),
                figure: 1.18,
                quartiles: [1.1, 1.2],
                note: "x over y".to_owned(),
            },
            Item::Beside {
                what: "resident".to_owned(),
                unit: "bytes a key".to_owned(),
                ours: 29.1,
                peer: "governor".to_owned(),
                theirs: 19.9,
            },
        ];
        Saved {
            bench: "sample".to_owned(),
            machine: "a machine".to_owned(),
            date: "2026-01-02 03:04".to_owned(),
            commit: "abc".to_owned(),
            seconds: 60,
            rounds: 3,
            only: None,
            noise: Noise { load_average: 0.25, stolen_percent: 0.5, preemptions: 4 },
            sections: vec![Section { title: "sample: one".to_owned(), items }],
        }
    }

    #[test]
    fn a_written_result_is_read_back() {
        let dir = std::env::temp_dir().join(format!("tollgate-saved-{}", std::process::id()));
        let saved = sample();
        saved.write(&dir);
        let read = Saved::read_all(&dir);
        fs::remove_dir_all(&dir).expect("it was made above");
        assert_eq!(read, Ok(vec![saved]));
    }

    #[test]
    fn reading_a_directory_without_results_is_an_error() {
        let dir = std::env::temp_dir().join(format!("tollgate-empty-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a temporary directory");
        let read = Saved::read_all(&dir);
        fs::remove_dir_all(&dir).expect("it was made above");
        assert!(read.is_err_and(|error| error.contains("no results")));
    }
}
