//! Generates documents from saved results: a page and plots for each processor, an index of the pages, and
//! the table of the README. No figure in them is typed by hand.
//!
//! Results are in a folder for each processor, such as `benches/results/amd-epyc-zen-4/keyed.json`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::saved::Saved;

mod causes;
mod compare;
mod front;
mod full;
mod goals;
mod lines;
mod losses;
mod page;
mod plot;
mod questions;
mod ratios;

/// A file that is generated from the results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generated {
    /// The path of the file.
    pub path: PathBuf,
    /// The content of the file.
    pub text: String,
}

/// The results of one processor.
struct Results {
    /// The folder's name.
    name: String,
    path: PathBuf,
    all: Vec<Saved>,
}

/// Generates all files from the results in `root`, and with a `readme`, that file with a new table.
///
/// # Errors
///
/// Results, or the marks in `readme`, are missing or malformed.
pub fn generate(root: &Path, readme: Option<&Path>) -> Result<Vec<Generated>, String> {
    let processors = read(root)?;
    let mut files = Vec::new();
    for Results { name, path, all } in &processors {
        for (name, text) in page::plots(all) {
            files.push(Generated { path: path.join(name), text });
        }
        files.push(Generated { path: path.join("README.md"), text: page::page(name, all) });
    }
    files.push(Generated { path: root.join("README.md"), text: index(&processors) });
    if let Some(readme) = readme {
        let text = fs::read_to_string(readme).map_err(|error| format!("{readme:?}: {error}"))?;
        let measured: Vec<_> = processors.iter().map(|one| &one.all[..]).collect();
        let text = front::replaced(&text, &front::part(&measured)?)?;
        files.push(Generated { path: readme.to_owned(), text });
    }
    Ok(files)
}

/// Every table of one bench, named `processor/bench`, or of all benches of a processor.
///
/// # Errors
///
/// There are no such results.
pub fn tables(root: &Path, name: &str) -> Result<String, String> {
    let (processor, bench) = name.split_once('/').unwrap_or((name, ""));
    let all = Saved::read_all(&root.join(processor))?;
    match full::tables(&all, bench) {
        text if text.is_empty() => Err(format!("{root:?} has no results of {name:?}")),
        text => Ok(text),
    }
}

/// The results of every processor, in the order of the folders' names.
fn read(root: &Path) -> Result<Vec<Results>, String> {
    let mut processors = Vec::new();
    for path in folders(root)? {
        let all = Saved::read_all(&path)?;
        if all.iter().any(|saved| saved.machine != all[0].machine) {
            return Err(format!("{path:?}: results of more than one machine"));
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        processors.push(Results { name, path, all });
    }
    match processors.is_empty() {
        true => Err(format!("{root:?}: no folder of results; run a bench with --save")),
        false => Ok(processors),
    }
}

fn folders(root: &Path) -> Result<Vec<PathBuf>, String> {
    let mut folders = entries(root)?;
    folders.retain(|path| path.is_dir());
    Ok(folders)
}

fn entries(dir: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(dir).map_err(|error| format!("{dir:?}: {error}"))?;
    let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    Ok(paths)
}

/// The page that lists the processors.
fn index(processors: &[Results]) -> String {
    let mut text = "# Results\n\n\
        Figures are of one processor each. [How they are measured](../README.md). [Causes of what is \
        lost](causes.md).\n\n"
        .to_owned();
    for Results { name, all, .. } in processors {
        text.push_str(&format!("- [{}]({name}/README.md), {}\n", all[0].machine, all[0].date));
    }
    text
}

/// Writes the files, and removes plots of results that are no longer there.
///
/// # Errors
///
/// A file cannot be written or removed.
pub fn write(root: &Path, files: &[Generated]) -> Result<(), String> {
    for path in superfluous(root, files)? {
        fs::remove_file(&path).map_err(|error| format!("{path:?}: {error}"))?;
    }
    for Generated { path, text } in files {
        fs::write(path, text).map_err(|error| format!("{path:?}: {error}"))?;
    }
    Ok(())
}

/// Compares the files on disk with the generated ones. Returns a line for each file that differs.
///
/// # Errors
///
/// The directory cannot be read.
pub fn check(root: &Path, files: &[Generated]) -> Result<Vec<String>, String> {
    let superfluous = superfluous(root, files)?.into_iter();
    let superfluous = superfluous.map(|path| format!("{path:?}: no results generate this plot"));
    let is_stale =
        |file: &&Generated| fs::read_to_string(&file.path).ok() != Some(file.text.clone());
    let stale = files.iter().filter(is_stale);
    let stale =
        stale.map(|file| format!("{:?}: differs from what the results generate", file.path));
    Ok(superfluous.chain(stale).collect())
}

/// Plots in `root` and its folders that are not among the files.
fn superfluous(root: &Path, files: &[Generated]) -> Result<Vec<PathBuf>, String> {
    let mut paths = entries(root)?;
    for folder in folders(root)? {
        paths.extend(entries(&folder)?);
    }
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "svg"));
    paths.retain(|path| files.iter().all(|file| file.path != *path));
    Ok(paths)
}
