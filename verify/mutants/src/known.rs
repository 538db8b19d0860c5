//! The list of mutants that may survive, each with its reason.
//!
//! A line is the key of a mutant, ` # ` and the reason. Other lines begin with `#` or are empty.

use std::collections::BTreeMap;

/// Mutants that may survive.
#[derive(Debug, Default)]
pub struct Known {
    lines: Vec<String>,
    /// Both sides of each ` # `: code may have one too.
    reasons: BTreeMap<String, String>,
}

impl Known {
    /// Reads a list.
    pub fn parse(text: &str) -> Self {
        let mut known = Self::default();
        for line in text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()) {
            known.lines.push(line.to_owned());
            for (at, _) in line.match_indices(" # ") {
                known.reasons.insert(line[..at].to_owned(), line[at + 3..].to_owned());
            }
        }
        known
    }

    /// Why a mutant may survive.
    pub fn reason(&self, key: &str) -> Option<&str> {
        self.reasons.get(key).map(String::as_str)
    }

    /// Lines about these files that name no mutant.
    pub fn stale<'a>(&'a self, files: &[&str], keys: &[&str]) -> Vec<&'a str> {
        let of_a_file =
            |line: &&String| files.iter().any(|file| line.starts_with(&format!("{file}: ")));
        let named = |line: &&String| keys.iter().any(|key| line.starts_with(&format!("{key} # ")));
        let stale = self.lines.iter().filter(of_a_file).filter(|line| !named(line));
        stale.map(String::as_str).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_key_and_a_reason() {
        let known = Known::parse("# a list\n\na.rs: delete ! in f | !x # y # the same\n");
        assert_eq!(known.reason("a.rs: delete ! in f | !x # y"), Some("the same"));
        assert_eq!(known.reason("a.rs: delete ! in f | !y"), None);
    }

    #[test]
    fn a_line_that_names_no_mutant_is_stale_if_its_file_was_looked_at() {
        let known = Known::parse("a.rs: x # 1\na.rs: y # 1\nb.rs: z # 1\n");
        assert_eq!(known.stale(&["a.rs"], &["a.rs: x"]), ["a.rs: y # 1"]);
    }
}
