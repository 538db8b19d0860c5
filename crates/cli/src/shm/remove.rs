//! `tollgate shm remove`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tollgate::shared::SharedError;

use super::blocks::{Block, entries, is_folder, is_of_rules};
use super::{Outcome, printable};

const AFTERWARDS: &str = "\
Processes that have attached a block keep it, and do not share it any more with those that start later, for which
all keys begin anew. Restart them all.
";

/// Removes a block, or a folder with nothing but blocks. Anything else is kept unless `force`, which removes any
/// file, and a folder that has the name of one of a rules file, but never a folder's folders.
pub(super) fn remove(path: &Path, force: bool) -> Result<Outcome> {
    let is_folder = is_folder(path);
    let may_force = !is_folder || is_of_rules(path);
    let paths = if is_folder { entries(path)? } else { vec![path.to_owned()] };
    let mut others: Vec<String> = paths.iter().filter_map(|path| reason_to_keep(path)).collect();
    if paths.is_empty() {
        others.push(format!("{}: the folder holds no block\n", printable(path)));
    }
    let is_forced = force && may_force;
    if !is_forced && !others.is_empty() {
        let how = match may_force {
            true => "see --force",
            false => "--force is for folders with a name that begins with \"tollgate-\"",
        };
        let text = format!("{}nothing was removed: {how}\n", others.concat());
        return Ok(Outcome { text, is_good: false });
    }
    for path in &paths {
        fs::remove_file(path).with_context(|| cannot(path))?;
    }
    if is_folder {
        fs::remove_dir(path).with_context(|| cannot(path))?;
    }
    let folder = is_folder.then(|| path.to_owned());
    let removed =
        paths.iter().chain(&folder).map(|path: &PathBuf| format!("removed {}\n", printable(path)));
    let text = removed.chain([AFTERWARDS.to_owned()]).collect();
    Ok(Outcome { text, is_good: true })
}

fn cannot(path: &Path) -> String {
    format!("cannot remove {}", printable(path))
}

/// Why the file is kept: it is no block, or may be none.
fn reason_to_keep(path: &Path) -> Option<String> {
    match Block::at(path.to_owned()).content {
        Ok(_) | Err(SharedError::OtherVersion { .. }) => None,
        Err(error) => Some(format!("{}: {error}\n", printable(path))),
    }
}
