//! The command line.

use std::path::Path;

use clap::{ArgAction, ArgMatches, Args, Parser, Subcommand, ValueEnum};
use tollgate::{OnFull, Quota};

use crate::algorithm::{self, ALGORITHMS, Algorithm};
use crate::charge::{Charge, Cost, Key};
use crate::format::{self, Format};
use crate::source::Input;

/// Rate limits, tried on real traffic before real users.
#[derive(Debug, Parser)]
#[command(name = "tollgate", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Replays access logs through candidate rules, and tells who would have been refused
    #[command(after_long_help = REPLAY_HELP)]
    Replay(Box<ReplayArgs>),
}

const REPLAY_HELP: &str = "\
Time:
  The log's own time drives the limiter; the clock on the wall plays no part. A limiter's time
  never goes back: a line older than one before it is judged at the latest time seen so far. The
  report says how many lines there were of that kind, and by how much at most.

Worst window:
  For every limiter the report tells the most that one key was admitted within one period of the
  rule, wherever that begins: a request counts until exactly one period after it. Beside it stands
  the most that the algorithm can admit to a key that keeps its place in the limiter.

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
  tollgate replay --rule \"60/min\" --compare --key ip+path access.log
  zcat trace.csv.gz | tollgate replay --rule \"1000000/min\" --key none --cost field:ContextTokens";

/// `tollgate replay`.
#[derive(Args, Debug)]
pub(crate) struct ReplayArgs {
    /// The logs, oldest first; `-` or none is standard input
    #[arg(value_name = "FILE")]
    files: Vec<String>,

    /// A limit such as "10/s burst 20" or "5 per 2 days"; several are reported side by side
    #[arg(long = "rule", short, value_name = "RULE", required = true, action = ArgAction::Append)]
    rules: Vec<Quota>,

    /// What gets a bucket of its own: ip, user, path, method, field:NAME, none (one bucket for
    /// everything), or several joined as in ip+path
    #[arg(long, short, default_value = "ip")]
    key: Key,

    /// What a request costs: a number, bytes (of the response), or field:NAME
    #[arg(long, default_value = "1", allow_hyphen_values = true)]
    cost: Cost,

    /// How requests are counted
    #[arg(long, short, value_name = "NAME", default_value = "gcra", conflicts_with = "compare")]
    #[arg(help = algorithm::help())]
    algorithm: Algorithm,

    /// Several algorithms side by side: a list such as gcra,fixed-window, or all (also if left
    /// out)
    #[arg(long, value_name = "LIST", num_args = 0..=1, default_missing_value = "all")]
    compare: Option<String>,

    /// How the lines are written
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = Format::Auto)]
    format: Format,

    /// The field or column of the time in JSON and CSV [default: time, timestamp, ts, …]
    #[arg(long, value_name = "NAME")]
    time_field: Option<String>,

    /// The offset from UTC at which the days of aligned windows begin, such as +02:00
    #[arg(long, value_name = "OFFSET", default_value = "+00:00", value_parser = utc_offset)]
    #[arg(allow_hyphen_values = true)]
    utc_offset: i32,

    /// So many of the keys refused most are listed [default: 10, or 5 for each of several
    /// limiters]
    #[arg(long, value_name = "N")]
    top: Option<usize>,

    /// So many keys the limiter has room for (about 29 bytes each)
    #[arg(long, value_name = "KEYS", default_value_t = 1_000_000)]
    capacity: u64,

    /// What happens to a new key when the limiter is full
    #[arg(long, value_name = "ACTION", value_enum, default_value_t = WhenFull::Evict)]
    on_full: WhenFull,

    /// One JSON object instead of the report for people
    #[arg(long)]
    json: bool,

    /// Writes every decision to FILE, one JSON object a line
    #[arg(long, value_name = "FILE")]
    decisions: Option<String>,

    /// Runs the exact reference model beside every limiter and counts differences
    #[arg(long)]
    verify: bool,
}

/// `--on-full`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum WhenFull {
    /// The key with the least debt is forgotten
    Evict,
    /// The new key is refused
    Refuse,
    /// The new key is admitted and not remembered
    Admit,
}

/// A replay as it was asked for, with nothing left to doubt.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) inputs: Vec<Input>,
    /// Every rule with every algorithm.
    pub(crate) limiters: Vec<(Quota, Algorithm)>,
    pub(crate) charge: Charge,
    pub(crate) format: Format,
    pub(crate) time_field: Option<String>,
    pub(crate) utc_offset_secs: i32,
    pub(crate) top: usize,
    pub(crate) capacity: u64,
    pub(crate) on_full: OnFull,
    pub(crate) json: bool,
    pub(crate) decisions: Option<String>,
    pub(crate) verify: bool,
}

impl ReplayArgs {
    /// Settles what the options mean together. `matches` tells where they stood.
    pub(crate) fn plan(self, matches: &ArgMatches) -> Result<Plan, String> {
        let (algorithms, files) = self.algorithms_and_files(matches)?;
        let limiters: Vec<_> = self
            .rules
            .iter()
            .flat_map(|rule| algorithms.iter().map(|algorithm| (*rule, *algorithm)))
            .collect();
        let mut inputs: Vec<Input> = files.into_iter().map(Input::named).collect();
        if inputs.is_empty() {
            inputs.push(Input::Stdin);
        }
        if inputs.iter().filter(|input| **input == Input::Stdin).count() > 1 {
            return Err("standard input (-) can be read only once".to_owned());
        }
        if let Some(decisions) = &self.decisions
            && inputs.iter().any(|input| input.is_file(decisions))
        {
            return Err(format!("--decisions {decisions} would overwrite a log to be read"));
        }
        if self.capacity == 0 {
            return Err("--capacity 0 leaves no room for any key: give at least 1".to_owned());
        }
        Ok(Plan {
            inputs,
            top: self.top.unwrap_or(if limiters.len() == 1 { 10 } else { 5 }),
            limiters,
            charge: Charge { key: self.key, cost: self.cost },
            format: self.format,
            time_field: self.time_field,
            utc_offset_secs: self.utc_offset,
            capacity: self.capacity,
            on_full: match self.on_full {
                WhenFull::Evict => OnFull::EvictNearestIdle,
                WhenFull::Refuse => OnFull::Refuse,
                WhenFull::Admit => OnFull::Admit,
            },
            json: self.json,
            decisions: self.decisions,
            verify: self.verify,
        })
    }

    /// `--compare access.log` means `--compare all access.log`: a value that names no algorithm
    /// but a file is the file that stood there.
    fn algorithms_and_files(
        &self,
        matches: &ArgMatches,
    ) -> Result<(Vec<Algorithm>, Vec<String>), String> {
        let mut files = self.files.clone();
        let Some(compare) = &self.compare else {
            return Ok((vec![self.algorithm], files));
        };
        match algorithm::list(compare) {
            Ok(algorithms) => Ok((algorithms, files)),
            Err(_) if compare == "-" || Path::new(compare).exists() => {
                let place = matches.index_of("compare").unwrap_or(0);
                let before = matches
                    .indices_of("files")
                    .map_or(0, |places| places.filter(|at| *at < place).count());
                files.insert(before, compare.clone());
                Ok((ALGORITHMS.to_vec(), files))
            }
            Err(why) => Err(format!("--compare {compare}: {why}, or all (no file has that name)")),
        }
    }
}

/// `+02:00` in seconds.
fn utc_offset(text: &str) -> Result<i32, String> {
    format::offset_secs(&text.replacen(':', "", 1))
        .ok_or_else(|| "write an offset from UTC like +02:00 or -05:30".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, FromArgMatches};

    use super::*;

    fn plan(words: &[&str]) -> Result<Plan, String> {
        let words = ["tollgate", "replay"].iter().chain(words);
        let matches = Cli::command().try_get_matches_from(words).map_err(|e| e.to_string())?;
        let Command::Replay(args) = Cli::from_arg_matches(&matches).unwrap().command;
        args.plan(matches.subcommand().unwrap().1)
    }

    fn names(plan: &Plan) -> Vec<&str> {
        plan.inputs.iter().map(Input::name).collect()
    }

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_rule_meets_every_algorithm() {
        let plan =
            plan(&["-r", "1/s", "-r", "2/s", "--compare", "fixed-window,gcra", "f"]).unwrap();
        let limiters: Vec<String> =
            plan.limiters.iter().map(|(rule, by)| format!("{rule} {}", by.name)).collect();
        assert_eq!(limiters, ["1/s fixed-window", "1/s gcra", "2/s fixed-window", "2/s gcra"]);
        assert_eq!(plan.top, 5);
    }

    #[test]
    fn compare_alone_means_all_even_before_a_file() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        for (words, files) in [
            (&["--compare"][..], &["standard input"][..]),
            (&["--compare", "all"], &["standard input"]),
            (&["a", "--compare", file, "b"], &["a", file, "b"]),
            (&["--compare", "-"], &["standard input"]),
            (&["--compare", file], &[file]),
        ] {
            let words = [&["--rule", "1/s"], words].concat();
            let plan = plan(&words).unwrap();
            assert_eq!(plan.limiters.len(), ALGORITHMS.len(), "{words:?}");
            assert_eq!(names(&plan), files, "{words:?}");
        }
        let error = plan(&["--rule", "1/s", "--compare", "no-such"]).unwrap_err();
        assert!(error.contains("`no-such` is not an algorithm"), "{error}");
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
            let error = plan(words).unwrap_err();
            assert!(error.contains(why), "{words:?}: {error}");
        }
    }

    #[test]
    fn offsets_are_read_in_seconds() {
        let offset = |text| plan(&["--rule", "1/s", "--utc-offset", text]).unwrap().utc_offset_secs;
        assert_eq!((offset("+02:00"), offset("-05:30"), offset("+00:00")), (7_200, -19_800, 0));
    }
}
