//! `tollgate check`: a rules file in plain words, or everything that is wrong with it.

use std::fmt::Write;

use anyhow::{Context, Result};
use tollgate_rules::{Apply, Gate, Rules};

use crate::report::words::counted;

/// What the file says; or, where it is wrong, all that is.
pub(crate) fn explained(file: &str) -> Result<Result<String, String>> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {file}"))?;
    let rules = match Rules::parse(file, &text) {
        Ok(rules) => rules,
        Err(wrong) => {
            let count = wrong.errors().len() as u64;
            let summary = counted(count, "mistake", "mistakes");
            return Ok(Err(format!("{}\n{file}: {summary}\n", wrong.with_source())));
        }
    };
    let apply = match rules.apply() {
        Apply::All => "all that match a request must admit it",
        Apply::First => "of those that match a request, the first decides (rules in shadow apart)",
    };
    let count = counted(rules.rules().len() as u64, "rule", "rules");
    let mut report = format!("{file}: {count}; {apply}\n");
    // Reserved, but not touched, it takes no memory.
    let gate = match Gate::new(rules) {
        Ok(gate) => gate,
        Err(failed) => return Ok(Err(format!("error: {failed}\n"))),
    };
    for (rule, bytes) in gate.rules().zip(gate.memory_by_rule()) {
        write!(report, "\n{}\n", rule.name())?;
        for line in rule.explain().lines() {
            writeln!(report, "  {line}")?;
        }
        writeln!(report, "  memory   {}", memory(bytes))?;
    }
    let total = memory(gate.memory_bytes());
    write!(report, "\nmemory in all: at most {total}, taken as keys arrive\n")?;
    Ok(Ok(report))
}

/// `29.8 MB`.
fn memory(bytes: usize) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_reads_well() {
        for (bytes, text) in
            [(640, "640 B"), (2_912_000, "2.9 MB"), (1_000, "1.0 kB"), (2_500_000_000, "2.5 GB")]
        {
            assert_eq!(memory(bytes), text);
        }
    }
}
