//! `tollgate shm`: the blocks of limits that processes of this machine share.

mod blocks;
mod list;
mod remove;
mod show;

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::args::{ShmArgs, ShmCommand};

/// The text of a command for standard output.
pub(crate) struct Outcome {
    pub(crate) text: String,
    /// Whether everything was as it should be.
    pub(crate) is_good: bool,
}

pub(crate) fn run(args: &ShmArgs) -> Result<Outcome> {
    match &args.command {
        ShmCommand::List => list::list(&args.dir),
        ShmCommand::Show { name } => show::show(&found(&args.dir, name)?),
        ShmCommand::Remove { name, force } => remove::remove(&found(&args.dir, name)?, *force),
    }
}

/// The path of a file or folder that is there.
fn found(dir: &Path, name: &Path) -> Result<PathBuf> {
    let is_path = name.components().count() > 1 || name.is_absolute();
    let below = dir.join(name);
    // A file within a folder is listed as FOLDER/FILE.
    let path = if is_path && !below.exists() { name.to_owned() } else { below };
    match path.symlink_metadata() {
        Ok(_) => Ok(path),
        Err(error) => bail!(
            "{}: {error}; `tollgate shm list` shows what is there, and --dir names another folder",
            printable(&path)
        ),
    }
}

/// A path for a terminal. Any user may put files into a folder such as `/dev/shm`, so a name may have line ends, and
/// characters that a terminal obeys: escapes, and those that change the direction of the text after them.
fn printable(path: &Path) -> String {
    let shown = |letter: char| match letter {
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => char::REPLACEMENT_CHARACTER,
        letter if letter.is_control() => char::REPLACEMENT_CHARACTER,
        letter => letter,
    };
    path.display().to_string().chars().map(shown).collect()
}

/// Whole numbers with a comma between each three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let starts = (0..digits.len()).map(|at| at > 0 && (digits.len() - at).is_multiple_of(3));
    let parts = digits.chars().zip(starts);
    parts.flat_map(|(digit, starts)| starts.then_some(',').into_iter().chain([digit])).collect()
}

/// A number of bytes in the largest unit of which there is at least one.
fn size(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match UNITS.iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => {
            let tenths = u128::from(bytes) * 10 / u128::from(*unit);
            format!("{}.{} {name}", tenths / 10, tenths % 10)
        }
        None => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_and_sizes_have_a_unit() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([5, 1_024, 1_600, 3 << 30].map(size), ["5 B", "1.0 KiB", "1.5 KiB", "3.0 GiB"]);
        assert_eq!(size(u64::MAX), "17179869183.9 GiB");
    }
}
