//! What is made of saved results: `results/README.md`, plots, and the table of the front page.
//! No figure in them is typed.

use std::fs;
use std::path::{Path, PathBuf};

use crate::saved::Saved;

mod bars;
mod front;
mod lines;
mod losses;
mod page;
mod plot;
mod wanted;

/// A file that the results make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generated {
    /// Where it is to be.
    pub path: PathBuf,
    /// All that is to be in it.
    pub text: String,
}

/// All files that the results in `dir` make; with a `readme`, that file with its table replaced.
///
/// # Errors
///
/// Where results are missing or of another form, or the marks in `readme` are.
pub fn generate(dir: &Path, readme: Option<&Path>) -> Result<Vec<Generated>, String> {
    let all = Saved::read_all(dir)?;
    // There may be none.
    let causes = fs::read_to_string(dir.join("causes.md")).unwrap_or_default();
    let mut files = Vec::new();
    for (name, text) in page::plots(&all) {
        files.push(Generated { path: dir.join(name), text });
    }
    files.push(Generated { path: dir.join("README.md"), text: page::page(&all, &causes) });
    if let Some(readme) = readme {
        let text = fs::read_to_string(readme).map_err(|error| format!("{readme:?}: {error}"))?;
        let text = front::replaced(&text, &front::part(&all)?)?;
        files.push(Generated { path: readme.to_owned(), text });
    }
    Ok(files)
}

/// Writes the files, and removes plots of results that are no longer there.
///
/// # Errors
///
/// Where that is not possible.
pub fn write(dir: &Path, files: &[Generated]) -> Result<(), String> {
    for path in superfluous(dir, files)? {
        fs::remove_file(&path).map_err(|error| format!("{path:?}: {error}"))?;
    }
    for Generated { path, text } in files {
        fs::write(path, text).map_err(|error| format!("{path:?}: {error}"))?;
    }
    Ok(())
}

/// What is wrong with the files as they are: a line for each that is not what the results make.
///
/// # Errors
///
/// Where the directory cannot be read.
pub fn check(dir: &Path, files: &[Generated]) -> Result<Vec<String>, String> {
    let superfluous = superfluous(dir, files)?.into_iter();
    let superfluous = superfluous.map(|path| format!("{path:?}: the results make no such plot"));
    let is_stale =
        |file: &&Generated| fs::read_to_string(&file.path).ok() != Some(file.text.clone());
    let stale = files.iter().filter(is_stale);
    let stale = stale.map(|file| format!("{:?}: is not what the results make", file.path));
    Ok(superfluous.chain(stale).collect())
}

/// Plots in `dir` that are not among the files.
fn superfluous(dir: &Path, files: &[Generated]) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(dir).map_err(|error| format!("{dir:?}: {error}"))?;
    let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "svg"));
    paths.retain(|path| files.iter().all(|file| file.path != *path));
    paths.sort();
    Ok(paths)
}
