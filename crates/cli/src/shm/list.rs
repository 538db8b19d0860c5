//! `tollgate shm list`.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::Result;
use tollgate::shared::{Description, SharedError};

use super::blocks::{Block, entries, is_folder, is_of_rules};
use super::{Outcome, grouped, printable, size};

const HEAD: [&str; 6] = ["name", "limiter", "algorithm", "keys / slots", "size", "state"];

/// Lists the blocks of the folder, and of the folders of rules files in it.
pub(super) fn list(dir: &Path) -> Result<Outcome> {
    let mut paths: Vec<PathBuf> = Vec::new();
    for path in entries(dir)? {
        match is_folder(&path) && is_of_rules(&path) {
            // A folder of another user cannot be read, and is no reason to list nothing.
            true => paths.extend(entries(&path).unwrap_or_default()),
            false => paths.push(path),
        }
    }
    let blocks = paths.into_iter().map(Block::at);
    let rows: Vec<[String; 6]> = blocks.filter_map(|block| row(dir, &block)).collect();
    if rows.is_empty() {
        let text = format!("no block of limits in {}\n", printable(dir));
        return Ok(Outcome { text, is_good: true });
    }
    Ok(Outcome { text: table(&rows), is_good: true })
}

/// `None`: the file is none of this crate's.
fn row(dir: &Path, block: &Block) -> Option<[String; 6]> {
    let name = printable(block.path.strip_prefix(dir).unwrap_or(&block.path));
    let described = match &block.content {
        Ok(description) => description,
        Err(error @ (SharedError::OtherVersion { .. } | SharedError::OtherLength { .. })) => {
            let none = String::new;
            return Some([name, none(), none(), none(), none(), state(Some(error))]);
        }
        Err(_) => return None,
    };
    let Description { kind, algorithm, keys, slots, bytes, problem, .. } = described;
    let unknown = |name: &Option<&str>| name.unwrap_or("unknown").to_owned();
    let full = format!("{} / {}", grouped(*keys), grouped(*slots));
    Some([name, unknown(kind), unknown(algorithm), full, size(*bytes), state(problem.as_ref())])
}

fn state(problem: Option<&SharedError>) -> String {
    let word = match problem {
        None => "good",
        Some(SharedError::OtherBoot) => "of another start of the machine",
        Some(SharedError::OtherVersion { .. }) => "of another version",
        Some(SharedError::OtherLength { .. }) => "of a wrong length",
        Some(SharedError::OtherHash) => "of another hash",
        Some(_) => "cannot be attached",
    };
    word.to_owned()
}

fn table(rows: &[[String; 6]]) -> String {
    let head = HEAD.map(str::to_owned);
    let all = || std::iter::once(&head).chain(rows);
    let widths: [usize; 6] = std::array::from_fn(|column| {
        all().map(|row| row[column].chars().count()).max().unwrap_or(0)
    });
    let mut out = String::new();
    for row in all() {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths) {
            write!(line, "{cell:width$}  ").expect("a string takes everything");
        }
        out += line.trim_end();
        out.push('\n');
    }
    out
}
