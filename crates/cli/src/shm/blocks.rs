//! The files that may be blocks.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tollgate::shared::{Description, SharedError, describe};

use super::printable;

/// Folders of rules files have names that begin with this.
const FOLDER_PREFIX: &str = "tollgate-";

/// A file, and what it holds.
pub(super) struct Block {
    pub(super) path: PathBuf,
    pub(super) content: Result<Description, SharedError>,
}

impl Block {
    pub(super) fn at(path: PathBuf) -> Self {
        let content = describe(&path);
        Self { path, content }
    }

    /// Why no process can attach it.
    pub(super) fn problem(&self) -> Option<&SharedError> {
        match &self.content {
            Ok(description) => description.problem.as_ref(),
            Err(error) => Some(error),
        }
    }
}

/// The entries of a folder, by name.
pub(super) fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let cannot_read = || format!("cannot read the folder {}", printable(folder));
    let entries = fs::read_dir(folder).with_context(cannot_read)?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    let mut paths: Vec<PathBuf> = paths.collect::<Result<_, _>>().with_context(cannot_read)?;
    paths.sort();
    Ok(paths)
}

/// Whether a folder has the name of one of a rules file.
pub(super) fn is_of_rules(folder: &Path) -> bool {
    folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with(FOLDER_PREFIX))
}

/// Whether the path is a folder, and no link to one.
pub(super) fn is_folder(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir())
}
