//! The command line.

mod plan;
mod proxy;

use std::net::IpAddr;

use clap::{ArgAction, ArgGroup, Args, Parser, Subcommand, ValueEnum, value_parser};
use tollgate::Quota;

use crate::algorithm::{self, Algorithm};
use crate::charge::{Cost, Key};
use crate::format::{self, Format};
use crate::study::Share;
pub(crate) use plan::Plan;
pub(crate) use proxy::ProxyArgs;

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
    /// Replays access logs through candidate rules, and tells who would have been denied
    #[command(after_long_help = REPLAY_HELP)]
    Replay(Box<ReplayArgs>),

    /// Reads a rules file, and explains every rule or tells everything that is wrong
    #[command(after_long_help = CHECK_HELP)]
    Check(CheckArgs),

    /// Stands before an HTTP server, and enforces a rules file; by itself, a demonstration
    #[command(after_long_help = proxy::HELP)]
    Proxy(Box<ProxyArgs>),
}

const CHECK_HELP: &str = "\
Exit code:
  0  the file is right
  1  something in it is wrong: all of it is told, with its lines
  2  the file cannot be read

Examples:
  tollgate check rules/example.toml
  tollgate check --explain 'POST /login%2f' --client 192.0.2.7 rules/example.toml";

/// `tollgate check`.
#[derive(Args, Debug)]
pub(crate) struct CheckArgs {
    /// The rules
    #[arg(value_name = "FILE")]
    pub(crate) file: String,

    /// Says which rules apply to a request such as "POST /login%2f", and why
    #[arg(long, value_name = "REQUEST")]
    pub(crate) explain: Option<String>,

    /// A header of that request, such as "host: api.example.com"; several may be given
    #[arg(long = "header", value_name = "HEADER", requires = "explain")]
    pub(crate) headers: Vec<String>,

    /// The address of that request's client
    #[arg(long, value_name = "ADDRESS", requires = "explain")]
    pub(crate) client: Option<IpAddr>,
}

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

const REPLAY_HELP: &str = "\
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
    good: Option<String>,

    /// Writes the report with charts to FILE, one page that needs nothing else
    #[arg(long, value_name = "FILE")]
    html: Option<String>,

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

    /// Several algorithms side by side: a list such as gcra,fixed-window, or all that can keep
    /// the rule (also if left out)
    #[arg(long, value_name = "LIST", num_args = 0..=1, default_missing_value = "all")]
    compare: Option<String>,

    /// How the lines are written
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = Format::Auto)]
    format: Format,

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
    #[arg(long, value_name = "OFFSET", default_value = "+00:00", value_parser = utc_offset)]
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
    /// The new key is denied
    Deny,
    /// The new key is admitted and not remembered
    Admit,
}

/// `+02:00` in seconds.
fn utc_offset(text: &str) -> Result<i32, String> {
    format::offset_secs(&text.replacen(':', "", 1))
        .ok_or_else(|| "write an offset from UTC like +02:00 or -05:30".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }
}
