//! The options of `tollgate replay`.

use std::path::Path;

use clap::{ArgAction, ArgGroup, ArgMatches, Args, ValueEnum, value_parser};
use tollgate::{OnFull, Quota};
use tollgate_replay::{
    ALGORITHMS, Algorithm, Cost, Format, Key, ReplayOptions, Selection, Share, parse_utc_offset,
};

/// What is said of limiters that `--rule` names, and that a rules file says by itself.
const OF_LIMITERS: [&str; 10] = [
    "rules",
    "algorithm",
    "compare",
    "sub_windows",
    "immediate",
    "utc_offset",
    "capacity",
    "on_full",
    "decisions",
    "verify",
];

pub(super) const HELP: &str = "\
Time:
  The log's own time drives the limiter; the clock on the wall plays no part. A limiter's time
  never goes back: a line older than one before it is judged at the latest time seen so far. The
  report says how many lines there were of that kind, and by how much at most.

Worst window:
  For every limiter the report tells the most that one key was admitted within one period of the
  rule, wherever that begins: a request counts until exactly one period after it, and one that is
  told to wait counts from when its wait is over. Beside it stands the most that the algorithm can
  admit to a key that keeps its place in the limiter.

Rules files:
  --rules decides every request as the proxy would, by the log's time: rules match by method, path,
  host and header as far as the log has them. The Combined Log Format has the headers referer and
  user-agent; JSON lines and CSV have what they are named by (http_x_user, x_user, or a member of
  headers). A request about which a rule asks for what is not in the log is decided without that
  rule, counted, and reported as not in this log. --key names the clients that are counted.

Suggestions:
  For every key the burst that it needs at a rate is found exactly: the most that a token bucket
  would ever owe for it. The smallest burst of which no more than --at-most of the well-behaved
  keys need more is the suggestion for that rate. Of all rates, the one is named whose quota lets
  a key have the least within any minute. Up to 8388608 requests are kept for this, and for the
  heat map of --html; a longer log is thinned by keys, and the report says so.

Input:
  Formats are recognised by content, for each file by itself, and gzip by its first bytes. Files
  are replayed in the order given, so name the oldest first. A line that cannot be read is
  counted, shown (the first five), and skipped. If a file breaks off (a truncated gzip, say),
  what was read before is reported, marked as incomplete, and the exit code is 2.
  The path of a request is taken without its query string.

Exit code:
  0  the report is complete
  1  --verify found a difference
  2  an option was wrong, or an input could not be read to its end

Examples:
  tollgate replay --rule \"10/s burst 20\" --key ip access.log.1.gz access.log
  tollgate replay --rule \"1/s burst 1\" --rule \"1/s burst 5\" --rule \"1/s burst 20\" access.log
  tollgate replay --rules rules/example.toml --html report.html access.log
  tollgate replay --suggest --rate 1/s --rate 10/min --at-most 1% access.log
  tollgate replay --rule \"60/min\" --compare --key ip+path access.log
  zcat trace.csv.gz | tollgate replay --rule \"1000000/min\" --key none --cost field:ContextTokens";

/// `tollgate replay`.
#[derive(Args, Debug)]
#[command(group(
    ArgGroup::new("limits").args(["rules", "rules_file", "suggest"]).required(true).multiple(true)
))]
pub(crate) struct ReplayArgs {
    /// The logs, oldest first; `-` or none is standard input
    #[arg(value_name = "FILE")]
    files: Vec<String>,

    /// A limit such as "10/s burst 20", "5 per 2 days" or "100 req/min"; several are reported side by
    /// side
    #[arg(long = "rule", short, value_name = "RULE", action = ArgAction::Append)]
    rules: Vec<Quota>,

    /// A rules file, as the proxy enforces it, in place of --rule
    #[arg(long = "rules", value_name = "FILE", conflicts_with_all = OF_LIMITERS)]
    rules_file: Option<String>,

    /// Suggests the smallest burst at a rate such that few well-behaved keys would ever be denied
    #[arg(long)]
    suggest: bool,

    /// A rate to suggest a burst for, such as 1/s; several may be given [default: eight round ones
    /// that suit the log]
    #[arg(long = "rate", value_name = "RATE", action = ArgAction::Append, requires = "suggest")]
    rates: Vec<Quota>,

    /// The share of well-behaved keys that may ever be denied
    #[arg(long, value_name = "SHARE", default_value = "1%", requires = "suggest")]
    at_most: Share,

    /// The well-behaved keys, one a line [default: all but the 1 in 100 with the busiest minute,
    /// and the 1 in 100 with the most requests]
    #[arg(long, value_name = "FILE", requires = "suggest")]
    well_behaved: Option<String>,

    /// Writes the report with charts to FILE, one page that needs nothing else
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<String>,

    /// What gets a bucket of its own: ip, user, path, method, field:NAME, none (one bucket for
    /// everything), or several joined as in ip+path
    #[arg(long, short, default_value = "ip")]
    key: Key,

    /// What a request costs: a number, bytes (of the response), or field:NAME
    #[arg(long, default_value = "1", allow_hyphen_values = true)]
    cost: Cost,

    /// How requests are counted
    #[arg(long, short, value_name = "NAME", default_value = "gcra", conflicts_with = "compare")]
    #[arg(help = algorithms_help())]
    algorithm: Algorithm,

    /// Several algorithms side by side: a list such as gcra,fixed-window, or all that can keep
    /// the rule (also if left out)
    #[arg(long, value_name = "LIST", num_args = 0..=1, default_missing_value = "all")]
    compare: Option<String>,

    /// How the lines are written
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = LogFormat::Auto)]
    format: LogFormat,

    /// The field or column of the time in JSON and CSV [default: time, timestamp, ts, …]
    #[arg(long, value_name = "NAME")]
    time_field: Option<String>,

    /// Sub-windows in a period, 2 to 256, for the algorithm sub-windows [default: 6]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(2..=256))]
    sub_windows: Option<u32>,

    /// Cells that pass without delay, at least 1, for the algorithm leaky-queue [default: 1]
    #[arg(long, value_name = "K", value_parser = value_parser!(u64).range(1..))]
    immediate: Option<u64>,

    /// The offset from UTC at which the days of aligned windows begin, such as +02:00
    #[arg(long, value_name = "OFFSET", default_value = "+00:00", value_parser = parse_utc_offset)]
    #[arg(allow_hyphen_values = true)]
    utc_offset: i32,

    /// So many of the keys denied most are listed [default: 10, or 5 for each of several
    /// limiters]
    #[arg(long, value_name = "N")]
    top: Option<usize>,

    /// So many keys each limiter has room for: about 29 bytes a key, and with sliding-log 15 more
    /// for each cell of the limit [default: as many as fit in 1 GiB, at most 1000000]
    #[arg(long, value_name = "KEYS")]
    capacity: Option<u64>,

    /// What happens to a new key when the limiter is full
    #[arg(long, value_name = "ACTION", value_enum, default_value_t = WhenFull::Evict)]
    on_full: WhenFull,

    /// One JSON object instead of the report for people
    #[arg(long)]
    pub(crate) json: bool,

    /// Writes every decision to FILE, one JSON object a line
    #[arg(long, value_name = "FILE")]
    decisions: Option<String>,

    /// Runs the exact reference model beside every limiter and counts differences
    #[arg(long)]
    verify: bool,
}

/// `--format`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum LogFormat {
    /// Recognised from the first lines of each file.
    Auto,
    /// Common or Combined Log Format (Apache, nginx).
    Clf,
    /// JSON lines: one object a line.
    Jsonl,
    /// Comma separated values with a header line.
    Csv,
}

/// `--on-full`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum WhenFull {
    /// The key with the least debt is forgotten
    Evict,
    /// The new key is denied
    Deny,
    /// The new key is admitted and not remembered
    Admit,
}

impl ReplayArgs {
    /// The options for the library. `matches` has the positions of the options on the command
    /// line.
    pub(crate) fn options(self, matches: &ArgMatches) -> Result<ReplayOptions, String> {
        let (algorithms, files) = self.algorithms_and_files(matches)?;
        Ok(ReplayOptions {
            files,
            rules: self.rules,
            rules_file: self.rules_file,
            suggest: self.suggest,
            rates: self.rates,
            at_most: self.at_most,
            well_behaved: self.well_behaved,
            html: self.html,
            key: self.key,
            cost: self.cost,
            algorithms,
            format: match self.format {
                LogFormat::Auto => Format::Auto,
                LogFormat::Clf => Format::Clf,
                LogFormat::Jsonl => Format::Jsonl,
                LogFormat::Csv => Format::Csv,
            },
            time_field: self.time_field,
            sub_windows: self.sub_windows,
            immediate_cells: self.immediate,
            utc_offset_secs: self.utc_offset,
            top: self.top,
            capacity: self.capacity,
            on_full: match self.on_full {
                WhenFull::Evict => OnFull::EvictNearestIdle,
                WhenFull::Deny => OnFull::Deny,
                WhenFull::Admit => OnFull::Admit,
            },
            decisions: self.decisions,
            verify: self.verify,
        })
    }

    /// `--compare access.log` means `--compare all access.log`: a value that names no algorithm
    /// but an existing file is that file, at its position among the files.
    fn algorithms_and_files(
        &self,
        matches: &ArgMatches,
    ) -> Result<(Selection, Vec<String>), String> {
        let mut files = self.files.clone();
        let Some(compare) = &self.compare else {
            return Ok((Selection::Named(vec![self.algorithm]), files));
        };
        match compare.parse() {
            Ok(selection) => Ok((selection, files)),
            Err(_) if compare == "-" || Path::new(compare).exists() => {
                let position = matches.index_of("compare").unwrap_or(0);
                let before = matches
                    .indices_of("files")
                    .map_or(0, |indices| indices.filter(|index| *index < position).count());
                files.insert(before, compare.clone());
                Ok((Selection::All, files))
            }
            Err(why) => Err(format!("--compare {compare}: {why}, or all (no file has that name)")),
        }
    }
}

/// The algorithms by name, and what each of them is.
fn algorithms_help() -> String {
    let each = |algorithm: &Algorithm| format!("{} ({})", algorithm.name(), algorithm.summary());
    let all: Vec<String> = ALGORITHMS.iter().map(each).collect();
    format!("How requests are counted: {}", all.join(", "))
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, FromArgMatches};
    use tollgate_replay::Plan;

    use super::super::{Cli, Command};
    use super::*;

    fn options(words: &[&str]) -> Result<ReplayOptions, String> {
        let words = ["tollgate", "replay"].iter().chain(words);
        let matches = Cli::command().try_get_matches_from(words).map_err(|e| e.to_string())?;
        let Command::Replay(args) = Cli::from_arg_matches(&matches).unwrap().command else {
            panic!("the command is replay");
        };
        args.options(matches.subcommand().unwrap().1)
    }

    #[test]
    fn compare_alone_means_all_even_before_a_file() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        for (words, files) in [
            (&["--compare"][..], &[][..]),
            (&["--compare", "all"], &[]),
            (&["a", "--compare", file, "b"], &["a", file, "b"]),
            (&["--compare", "-"], &["-"]),
            (&["--compare", file], &[file]),
        ] {
            let words = [&["--rule", "1/s"], words].concat();
            let options = options(&words).unwrap();
            assert_eq!(options.algorithms, Selection::All, "{words:?}");
            assert_eq!(options.files, files, "{words:?}");
        }
        let error = options(&["--rule", "1/s", "--compare", "no-such"]).unwrap_err();
        assert!(error.contains("`no-such` is not an algorithm"), "{error}");
    }

    #[test]
    fn sub_windows_are_two_to_256() {
        let count = |words: &[&str]| {
            let words = [&["-r", "1/s", "-a", "sub-windows"], words].concat();
            options(&words).map(|options| options.sub_windows)
        };
        assert_eq!(count(&[]), Ok(None));
        assert_eq!(count(&["--sub-windows", "256"]), Ok(Some(256)));
        for wrong in ["1", "257", "-6", "many"] {
            assert!(count(&["--sub-windows", wrong]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn immediate_cells_are_at_least_one() {
        let cells = |words: &[&str]| {
            let words = [&["-r", "1/s", "-a", "leaky-queue"], words].concat();
            options(&words).map(|options| options.immediate_cells)
        };
        assert_eq!(cells(&[]), Ok(None));
        assert_eq!(cells(&["--immediate", "18446744073709551615"]), Ok(Some(u64::MAX)));
        for wrong in ["0", "-1", "18446744073709551616", "all"] {
            assert!(cells(&["--immediate", wrong]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn wrong_options_say_what_to_write() {
        for (words, why) in [
            (&["f"][..], "--rule"),
            (&["--rule", "10 per fortnight", "f"], "unit of time"),
            (&["--rule", "0/s", "f"], "at least 1"),
            (&["--rule", "1/s", "--key", "colour"], "field:NAME"),
            (&["--rule", "1/s", "--cost", "-3"], "whole number"),
            (&["--rule", "1/s", "--algorithm", "magic"], "gcra, fixed-window"),
            (&["--rule", "1/s", "--utc-offset", "2"], "+02:00"),
            (&["--rule", "1/s", "--utc-offset", "-25:00"], "+02:00"),
            (&["--rule", "1/s", "--format", "xml"], "jsonl"),
            (&["--rule", "1/s", "--on-full", "panic"], "evict"),
            (&["--rule", "1/s", "--capacity", "0"], "at least 1"),
            (&["--rule", "1/s", "-", "-"], "only once"),
        ] {
            let error = options(words).and_then(Plan::new).unwrap_err();
            assert!(error.contains(why), "{words:?}: {error}");
        }
    }

    #[test]
    fn utc_offsets_are_read_in_seconds() {
        let offset =
            |text| options(&["--rule", "1/s", "--utc-offset", text]).unwrap().utc_offset_secs;
        assert_eq!((offset("+02:00"), offset("-05:30"), offset("+00:00")), (7_200, -19_800, 0));
    }

    #[test]
    fn the_defaults_are_those_of_the_library() {
        let options = options(&["--rule", "1/s"]).unwrap();
        let rules = options.rules.clone();
        let library = ReplayOptions { rules, ..ReplayOptions::default() };
        assert_eq!(format!("{options:?}"), format!("{library:?}"));
    }
}
