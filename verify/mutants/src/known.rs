//! The list of mutants that may survive, each with its reason.
//!
//! A line is the key of a mutant, ` # ` and the reason. `FILE: all in FUNCTION # reason` accepts every mutant
//! of a function. Other lines begin with `#` or are empty.

use std::collections::BTreeMap;

/// Mutants that may survive.
#[derive(Debug, Default)]
pub struct Known {
    lines: Vec<String>,
    /// Both sides of each ` # `: code may have one too.
    reasons: BTreeMap<String, String>,
    /// The file, the function and the reason.
    functions: Vec<[String; 3]>,
}

/// Whether a mutant is one of a function.
fn is_in(key: &str, file: &str, function: &str) -> bool {
    let what = key.strip_prefix(file).and_then(|rest| rest.strip_prefix(": "));
    what.is_some_and(|what| {
        let ends = [" -> ", " with "];
        let returned = what.strip_prefix("replace ").and_then(|what| what.strip_prefix(function));
        what.contains(&format!(" in {function} | "))
            || returned.is_some_and(|rest| ends.iter().any(|end| rest.starts_with(end)))
    })
}

impl Known {
    /// Reads a list.
    pub fn parse(text: &str) -> Self {
        let mut known = Self::default();
        for line in text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()) {
            known.lines.push(line.to_owned());
            if let Some((names, reason)) = line.split_once(" # ")
                && let Some((file, function)) = names.split_once(": all in ")
            {
                known.functions.push([file, function, reason].map(str::to_owned));
                continue;
            }
            for (at, _) in line.match_indices(" # ") {
                known.reasons.insert(line[..at].to_owned(), line[at + 3..].to_owned());
            }
        }
        known
    }

    /// Why a mutant may survive.
    pub fn reason(&self, key: &str) -> Option<&str> {
        let of_function = |[file, function, _]: &&[String; 3]| is_in(key, file, function);
        let reason = || self.functions.iter().find(of_function).map(|[.., reason]| reason);
        self.reasons.get(key).or_else(reason).map(String::as_str)
    }

    /// Lines about these files that name no mutant.
    pub fn stale<'a>(&'a self, files: &[&str], keys: &[&str]) -> Vec<&'a str> {
        let of_a_file =
            |line: &&String| files.iter().any(|file| line.starts_with(&format!("{file}: ")));
        let all = |line: &str, key: &str| {
            let named = self.functions.iter().find(|[file, function, reason]| {
                line == format!("{file}: all in {function} # {reason}")
            });
            named.is_some_and(|[file, function, _]| is_in(key, file, function))
        };
        let named = |line: &&String| {
            keys.iter().any(|key| line.starts_with(&format!("{key} # ")) || all(line, key))
        };
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
    fn a_line_may_accept_all_of_a_function() {
        let known = Known::parse("a.rs: all in S::f # slow\na.rs: all in S::g # gone\n");
        for key in
            ["replace S::f -> u64 with 0 | x", "replace S::f with () | x", "delete ! in S::f | x"]
        {
            assert_eq!(known.reason(&format!("a.rs: {key}")), Some("slow"), "{key}");
        }
        for key in [
            "a.rs: delete ! in S::ff | x",
            "a.rs: replace S::ff with () | x",
            "b.rs: delete ! in S::f | x",
        ] {
            assert_eq!(known.reason(key), None, "{key}");
        }
        assert_eq!(
            known.stale(&["a.rs"], &["a.rs: delete ! in S::f | x"]),
            ["a.rs: all in S::g # gone"]
        );
    }

    #[test]
    fn a_line_that_names_no_mutant_is_stale_if_its_file_was_looked_at() {
        let known = Known::parse("a.rs: x # 1\na.rs: y # 1\nb.rs: z # 1\n");
        assert_eq!(known.stale(&["a.rs"], &["a.rs: x"]), ["a.rs: y # 1"]);
    }
}
