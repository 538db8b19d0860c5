//! The algorithms that replay offers. A new one is one entry in [`ALGORITHMS`].

use std::str::FromStr;

use anyhow::Result;
use tollgate::{FixedWindow, Gcra};

use crate::judge::{Judge, Setup};

/// An algorithm by its name on the command line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Algorithm {
    /// The name.
    pub(crate) name: &'static str,
    /// What it is, for the help.
    pub(crate) summary: &'static str,
    /// Whether it heeds the burst of a rule.
    pub(crate) uses_burst: bool,
    /// The most that it admits to a key in one period, wherever that begins, and why.
    pub(crate) worst: &'static str,
    /// Builds a limiter of it.
    pub(crate) build: fn(&Setup) -> Result<Box<dyn Judge>>,
}

/// All of them, the default first.
pub(crate) const ALGORITHMS: &[Algorithm] = &[
    Algorithm {
        name: "gcra",
        summary: "token bucket",
        uses_burst: true,
        worst: "burst + limit: a full bucket, and what flows in meanwhile",
        build: |setup| setup.build(&Gcra::new()),
    },
    Algorithm {
        name: "fixed-window",
        summary: "window from a key's first request",
        uses_burst: false,
        worst: TWO_WINDOWS,
        build: |setup| setup.build(&FixedWindow::anchored()),
    },
    Algorithm {
        name: "fixed-window-aligned",
        summary: "window from the wall clock's full hour, minute, …",
        uses_burst: false,
        worst: TWO_WINDOWS,
        build: |setup| setup.build(&FixedWindow::aligned().utc_offset_secs(setup.utc_offset_secs)),
    },
];

const TWO_WINDOWS: &str = "2 x limit: one on either side of a window's edge";

/// The names and what they mean, for `--help`.
pub(crate) fn help() -> String {
    let each = |algorithm: &Algorithm| format!("{} ({})", algorithm.name, algorithm.summary);
    let all: Vec<String> = ALGORITHMS.iter().map(each).collect();
    format!("How requests are counted: {}", all.join(", "))
}

/// The names, for messages.
pub(crate) fn names() -> String {
    ALGORITHMS.iter().map(|algorithm| algorithm.name).collect::<Vec<_>>().join(", ")
}

impl PartialEq for Algorithm {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl FromStr for Algorithm {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        ALGORITHMS
            .iter()
            .find(|algorithm| algorithm.name == text)
            .copied()
            .ok_or_else(|| format!("`{text}` is not an algorithm: use one of {}", names()))
    }
}

/// The algorithms of a list such as `gcra,fixed-window`, or of `all`.
pub(crate) fn list(text: &str) -> Result<Vec<Algorithm>, String> {
    if text == "all" {
        return Ok(ALGORITHMS.to_vec());
    }
    text.split(',').map(|name| name.trim().parse()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_keep_their_order() {
        let names = |text| list(text).unwrap().iter().map(|a| a.name).collect::<Vec<_>>();
        assert_eq!(names("fixed-window, gcra"), ["fixed-window", "gcra"]);
        assert_eq!(names("all").len(), ALGORITHMS.len());
        assert!(list("gcra,magic").unwrap_err().contains("`magic`"));
        assert!(list("").is_err());
    }
}
