//! The options of `tollgate shm`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

pub(super) const HELP: &str = "\
A NAME is a file, or a folder with a name that begins with \"tollgate-\", below --dir; a PATH has a slash.

Exit code:
  0  done; for `show`, every block can be attached
  1  nothing there is a block, a block cannot be attached, or a removal was refused
  2  the folder or the file cannot be read

Examples:
  tollgate shm list
  tollgate shm show tollgate-api
  tollgate shm remove tollgate-api";

/// `tollgate shm`.
#[derive(Args, Debug)]
pub(crate) struct ShmArgs {
    #[command(subcommand)]
    pub(crate) command: ShmCommand,

    /// The folder where the blocks are
    #[arg(long, global = true, value_name = "FOLDER", default_value = "/dev/shm")]
    pub(crate) dir: PathBuf,
}

/// The command about shared memory.
#[derive(Debug, Subcommand)]
pub(crate) enum ShmCommand {
    /// Lists the blocks: limiter, keys and slots, size, and whether they can be attached
    List,

    /// Shows what a block's header says, its counts, how full it is, and what is wrong with it
    Show {
        /// The name below the folder, or a path
        #[arg(value_name = "NAME|PATH")]
        name: PathBuf,
    },

    /// Removes a block, or a folder of blocks: processes that have attached it keep it, later ones begin anew
    Remove {
        /// The name below the folder, or a path
        #[arg(value_name = "NAME|PATH")]
        name: PathBuf,

        /// Removes a file even if it is no block of this version; of the folders, only one with a name that
        /// begins with "tollgate-"
        #[arg(long)]
        force: bool,
    },
}
