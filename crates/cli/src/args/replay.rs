//! The options of `tollgate replay`.

use std::path::Path;

use clap::{ArgAction, ArgGroup, ArgMatches, Args, ValueEnum, value_parser};
use tollgate::{OnFull, Quota};
use tollgate_replay::{
    ALGORITHMS, Algorithm, Cost, Format, Key, Percentage, ReplayOptions, Selection,
    parse_utc_offset,
};

/// Options of the limiters that `--rule` names. A rules file states these itself.
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
  The limiters run on the time of the log, not on the wall clock. A limiter's time never goes back: a
  line that is older than a line before it is decided at the latest time seen so far. The report says
  how many lines were older, and by how much at most.

Worst window:
  For each limiter the report shows the most cells that one key was admitted within one period of the
  rule, wherever that period begins. A request counts until exactly one period after it; a delayed
  request counts from the end of its delay. The report also shows the most that the algorithm can
  admit to a key that stays in the limiter's table.

Rules files:
  --rules decides each request as the proxy would, at the time of the log. Rules match method, path,
  host and headers as far as the log records them. The Combined Log Format has the headers referer
  and user-agent; JSON lines and CSV have those that their fields name (http_x_user, x_user, or a
  member of headers). If a rule needs something that the log does not record, the request is decided
  without that rule; the report counts it as \"not in log\". --key names the keys that are counted.
  As in the proxy, at most 128 requests of a key wait in a leaky-queue; how many wait of all keys
  (--max-waiting of the proxy) is not bounded.

Suggestions:
  For each key, the replay computes the exact burst that the key needs at a rate: the most that a
  token bucket would ever owe for it. The suggested burst is the smallest one that no more than
  --at-most of the well-behaved keys exceed. Of all rates, the replay suggests the one whose quota
  admits the least to a key within any minute. --suggest and the heat map of --html keep up to 8388608
  requests in memory. A longer log is thinned by key, and the report says so. The keys of a list
  (--well-behaved) stay.

Input:
  Each file's format is recognised by its content, and gzip by its first bytes. Files are replayed in
  the order given, so name the oldest first. A line that cannot be read is counted and skipped; the
  report shows the first five. If a file ends early (a truncated gzip, for example), the report covers
  the part that was read and is marked as incomplete, and the exit code is 2. The path of a request
  excludes its query string, and the scheme and host of a target such as http://a/login. That host
  takes precedence over another one that the log records. In the key ip, an address has one spelling,
  and no port: 203.0.113.7:51712 is 203.0.113.7. Each IPv6 address counts by itself; a rule with the
  key \"ip\" counts a /64 unless it has ipv6_prefix, and a suggested rule has it where it matters. A
  key of more than 256 characters is counted and shown as its first 200, ~, and a hash of it.

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
    /// The logs, oldest first; `-` or no file is standard input
    #[arg(value_name = "FILE")]
    files: Vec<String>,

    /// A limit such as "10/s burst 20", "5 per 2 days" or "100 req/min"; may be given several times
    #[arg(long = "rule", short, value_name = "RULE", action = ArgAction::Append)]
    rules: Vec<Quota>,

    /// A rules file to enforce as the proxy does, instead of --rule
    #[arg(long = "rules", value_name = "FILE", conflicts_with_all = OF_LIMITERS)]
    rules_file: Option<String>,

    /// Suggests a rate, and the smallest burst at which few well-behaved keys are ever denied
    #[arg(long)]
    suggest: bool,

    /// A rate to suggest a burst for, such as 1/s; may be given several times [default: eight round
    /// rates that suit the log]
    #[arg(long = "rate", value_name = "RATE", action = ArgAction::Append, requires = "suggest")]
    rates: Vec<Quota>,

    /// The share of well-behaved keys that the suggestion may deny
    #[arg(long, value_name = "SHARE", default_value = "1%", requires = "suggest")]
    at_most: Percentage,

    /// A file of well-behaved keys, one per line [default: all but the 1 in 100 with the busiest minute,
    /// and the 1 in 100 with the most requests]
    #[arg(long, value_name = "FILE", requires = "suggest")]
    well_behaved: Option<String>,

    /// Writes the report with charts to FILE, one self-contained page
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<String>,

    /// The fields whose values name the bucket: ip, user, path, method, field:NAME, none (one bucket for
    /// everything), or several joined as in ip+path
    #[arg(long, short, default_value = "ip")]
    key: Key,

    /// The cost of a request in cells: a number, bytes (of the response), or field:NAME
    #[arg(long, default_value = "1", allow_hyphen_values = true)]
    cost: Cost,

    /// How requests are counted
    #[arg(long, short, value_name = "NAME", default_value = "gcra", conflicts_with = "compare")]
    #[arg(help = algorithms_help())]
    algorithm: Algorithm,

    /// Compares several algorithms: a list such as gcra,fixed-window, or all [default if LIST is
    /// left out: all that can keep the rule]
    #[arg(long, value_name = "LIST", num_args = 0..=1, default_missing_value = "all")]
    compare: Option<String>,

    /// The format of the lines
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = LogFormat::Auto)]
    format: LogFormat,

    /// The field or column of the time in JSON and CSV [default: time, timestamp, ts, …]
    #[arg(long, value_name = "NAME")]
    time_field: Option<String>,

    /// Sub-windows in a period, 2 to 256, for the algorithm sub-windows [default: 6]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(2..=256))]
    sub_windows: Option<u32>,

    /// Cells that are admitted without delay, at least 1, for the algorithm leaky-queue [default: 1]
    #[arg(long, value_name = "K", value_parser = value_parser!(u64).range(1..))]
    immediate: Option<u64>,

    /// The offset from UTC at which the days of aligned windows begin, such as +02:00
    #[arg(long, value_name = "OFFSET", default_value = "+00:00", value_parser = parse_utc_offset)]
    #[arg(allow_hyphen_values = true)]
    utc_offset: i32,

    /// How many of the keys denied most are listed [default: 10, or 5 for each of several
    /// limiters]
    #[arg(long, value_name = "N")]
    top: Option<usize>,

    /// Keys that each limiter has room for; a key takes about 29 bytes, and with sliding-log 15 more
    /// for each cell of the limit [default: as many as fit in 1 GiB, at most 1000000]
    #[arg(long, value_name = "KEYS")]
    capacity: Option<u64>,

    /// The treatment of a new key when the limiter is full
    #[arg(long, value_name = "ACTION", value_enum, default_value_t = WhenFull::Evict)]
    on_full: WhenFull,

    /// Prints one JSON object instead of the text report
    #[arg(long)]
    pub(crate) json: bool,

    /// Writes every decision to FILE, one JSON object per line
    #[arg(long, value_name = "FILE")]
    decisions: Option<String>,

    /// Runs an exact reference model beside each limiter and counts differences
    #[arg(long)]
    verify: bool,
}

/// `--format`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum LogFormat {
    /// Recognised from the first lines of each file
    Auto,
    /// Common or Combined Log Format (Apache, nginx)
    Clf,
    /// JSON lines: one object per line
    Jsonl,
    /// Comma-separated values with a header line
    Csv,
}

/// `--on-full`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum WhenFull {
    /// Forget the key with the least debt
    Evict,
    /// Deny the new key
    Deny,
    /// Admit the new key without remembering it
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
    use tollgate_replay::ReplayPlan;

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
            let error = options(words).and_then(ReplayPlan::new).unwrap_err();
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
        let mut options = options(&["--rule", "1/s"]).unwrap();
        let rules = options.rules.clone();
        let library = ReplayOptions { rules, ..ReplayOptions::default() };
        assert_eq!(options.algorithms, library.algorithms);
        // The Debug text of an algorithm has the address of a function, which may differ.
        options.algorithms = library.algorithms.clone();
        assert_eq!(format!("{options:?}"), format!("{library:?}"));
    }
}
