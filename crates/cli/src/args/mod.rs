//! The command line.

mod check;
#[cfg(feature = "proxy")]
mod proxy;
mod replay;
mod shm;

use clap::{Parser, Subcommand};

pub(crate) use check::CheckArgs;
#[cfg(feature = "proxy")]
pub(crate) use proxy::ProxyArgs;
pub(crate) use replay::ReplayArgs;
pub(crate) use shm::ShmArgs;
#[cfg(target_os = "linux")]
pub(crate) use shm::ShmCommand;

/// Tries rate limits on recorded traffic, checks rules files, and enforces them as a proxy.
#[derive(Debug, Parser)]
#[command(name = "tollgate", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The command.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Replays access logs through candidate limits, and reports which requests they deny
    #[command(after_long_help = replay::HELP)]
    Replay(Box<ReplayArgs>),

    /// Reads a rules file, and explains every rule or lists every mistake
    #[command(after_long_help = check::HELP)]
    Check(CheckArgs),

    /// Enforces a rules file in front of an HTTP server; without options, a demonstration
    #[cfg(feature = "proxy")]
    #[command(after_long_help = proxy::HELP)]
    Proxy(Box<ProxyArgs>),

    /// Lists, shows and removes the limits that processes of this machine share (Linux)
    #[command(after_long_help = shm::HELP)]
    Shm(ShmArgs),
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
