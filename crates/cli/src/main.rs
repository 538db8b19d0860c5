//! `tollgate`: tries rate limits on recorded traffic, checks rules files, and enforces them as a proxy; and
//! shows the limits that processes share.

mod args;
mod check;
#[cfg(target_os = "linux")]
mod shm;

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Context, Error, Result};
use clap::{ArgMatches, CommandFactory, FromArgMatches};
use tollgate_replay::{ReplayPlan, html_report, json_report, text_report};

use crate::args::{CheckArgs, Cli, Command, ReplayArgs, ShmArgs};

/// The exit code of `check` when the file has mistakes.
const MISTAKES: u8 = 1;
/// The exit code of `shm` when something is no block, or a block that cannot be attached.
#[cfg(target_os = "linux")]
const NO_BLOCK: u8 = 1;
/// The exit code of `--verify` when it found a difference.
const DIFFERENT: u8 = 1;
/// The exit code of a wrong option or an unreadable input.
const FAILED: u8 = 2;
/// The width without a terminal and without `COLUMNS`.
const WIDTH_DEFAULT: usize = 80;

fn main() -> ExitCode {
    let matches = Cli::command().get_matches();
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let outcome = match (cli.command, matches.subcommand()) {
        (Command::Replay(args), Some((_, matches))) => replay(*args, matches),
        (Command::Check(args), _) => check(&args),
        #[cfg(feature = "proxy")]
        (Command::Proxy(args), _) => tollgate_proxy::run(args.config(), print),
        (Command::Shm(args), _) => shared_memory(&args),
        (Command::Replay(_), None) => unreachable!("a parsed command has its matches"),
    };
    outcome.unwrap_or_else(|error| {
        eprint(format_args!("tollgate: {error:#}\n"));
        ExitCode::from(FAILED)
    })
}

fn replay(args: ReplayArgs, matches: &ArgMatches) -> Result<ExitCode> {
    let (json, html) = (args.json, args.html.clone());
    let options = args.options(matches).map_err(Error::msg)?;
    let plan = ReplayPlan::new(options).map_err(Error::msg)?;
    let outcome = tollgate_replay::run(&plan)?;
    let report = if json {
        json_report(&plan, &outcome)?
    } else {
        text_report(&plan, &outcome, terminal_width())
    };
    print(&report)?;
    if let Some(file) = &html {
        let page = html_report(&plan, &outcome);
        std::fs::write(file, page).with_context(|| format!("cannot write {file}"))?;
    }
    for broken in &outcome.incomplete {
        let (file, why) = (&broken.file, &broken.why);
        eprint(format_args!("tollgate: {file} could not be read to its end: {why}\n"));
    }
    Ok(if !outcome.incomplete.is_empty() {
        ExitCode::from(FAILED)
    } else if outcome.differences().is_some_and(|count| count > 0) {
        ExitCode::from(DIFFERENT)
    } else {
        ExitCode::SUCCESS
    })
}

fn check(args: &CheckArgs) -> Result<ExitCode> {
    match check::explained(args)? {
        Ok(report) => {
            print(&report)?;
            Ok(ExitCode::SUCCESS)
        }
        Err(mistakes) => {
            eprint(format_args!("{mistakes}"));
            Ok(ExitCode::from(MISTAKES))
        }
    }
}

#[cfg(target_os = "linux")]
fn shared_memory(args: &ShmArgs) -> Result<ExitCode> {
    let outcome = shm::run(args)?;
    print(&outcome.text)?;
    Ok(if outcome.is_good { ExitCode::SUCCESS } else { ExitCode::from(NO_BLOCK) })
}

#[cfg(not(target_os = "linux"))]
fn shared_memory(_: &ShmArgs) -> Result<ExitCode> {
    anyhow::bail!("limits are shared by the processes of a machine on Linux only")
}

/// Writes to standard error. Ignores a closed pipe; `eprintln!` would panic.
fn eprint(text: fmt::Arguments<'_>) {
    let _ = io::stderr().write_fmt(text);
}

/// Prints the whole text. A closed pipe (`| head`) is no error.
fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write the report"),
    }
}

/// The width of the terminal. Without a terminal, it is `COLUMNS`, or 80.
fn terminal_width() -> usize {
    let variable = || std::env::var("COLUMNS").ok()?.parse().ok();
    terminal_size::terminal_size()
        .map(|(width, _)| usize::from(width.0))
        .or_else(variable)
        .unwrap_or(WIDTH_DEFAULT)
}
