//! `tollgate shm show`.

use std::fmt::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::Result;
use tollgate::shared::Description;

use super::blocks::{Block, entries, is_folder};
use super::{Outcome, grouped, printable, size};

/// Shows a block, or all blocks of a folder.
pub(super) fn show(path: &Path) -> Result<Outcome> {
    let paths = if is_folder(path) { entries(path)? } else { vec![path.to_owned()] };
    let blocks: Vec<Block> = paths.into_iter().map(Block::at).collect();
    let texts: Vec<String> = blocks.iter().map(text).collect();
    let is_good = !blocks.is_empty() && blocks.iter().all(|block| block.problem().is_none());
    let text = match texts.is_empty() {
        true => format!("{}: the folder is empty\n", printable(path)),
        false => texts.join("\n"),
    };
    Ok(Outcome { text, is_good })
}

fn text(block: &Block) -> String {
    let mut out = format!("{}\n", printable(&block.path));
    let mut line = |name: &str, value: String| {
        writeln!(out, "  {name:<11} {value}").expect("a string takes everything");
    };
    if let Some(problem) = block.problem() {
        line("problem", problem.to_string());
    }
    if let Ok(metadata) = block.path.metadata() {
        let mode = metadata.mode() & 0o7777;
        line("owner", format!("user {}, group {}", metadata.uid(), metadata.gid()));
        line("mode", format!("{mode:04o}{}", who(mode)));
    }
    let Ok(description) = &block.content else { return out };
    let Description { kind, algorithm, quota, capacity, slots, keys, bytes, stats, .. } =
        description;
    line("limiter", kind.unwrap_or("of a kind that this version does not know").to_owned());
    let algorithm = algorithm.unwrap_or("unknown to this version");
    line("algorithm", algorithm.to_owned());
    if let Some(quota) = quota {
        line("quota", quota.clone());
    }
    line("capacity", format!("{} live keys", grouped(*capacity)));
    let percent = u128::from(*keys) * 100 / u128::from(*slots).max(1);
    let slots =
        format!("{} of {} have a key, live or idle ({percent} %)", grouped(*keys), grouped(*slots));
    line("slots", slots);
    line("size", format!("{} ({} bytes)", size(*bytes), grouped(*bytes)));
    line("claimed", format!("{} slots", grouped(stats.claimed)));
    line("evicted", format!("{} live keys", grouped(stats.evicted)));
    let full = [
        ("denied", stats.denied_full),
        ("admitted", stats.admitted_full),
        ("by the shared overflow", stats.overflowed),
    ];
    let full = full.map(|(how, count)| format!("{} {how}", grouped(count)));
    line("no slot", full.join(", "));
    line("leased", format!("{} times", grouped(stats.leased)));
    out += "  header\n";
    for (name, value) in numbered(&description.choices) {
        writeln!(out, "    {name}: {value}").expect("a string takes everything");
    }
    out
}

/// The users that the mode admits.
fn who(mode: u32) -> &'static str {
    match (mode & 0o070, mode & 0o007) {
        (0, 0) => " (its owner only)",
        (_, 0) => " (its owner and its group)",
        _ => " (everyone)",
    }
}

/// The choices of a header, those with one name in one line.
fn numbered(choices: &[(&'static str, u64)]) -> Vec<(&'static str, String)> {
    let mut lines: Vec<(&str, String)> = Vec::new();
    for (name, value) in choices {
        match lines.last_mut() {
            Some((last, values)) if last == name => *values += &format!(" {value}"),
            _ => lines.push((name, value.to_string())),
        }
    }
    lines
}
