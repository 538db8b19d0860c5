//! The algorithms that replay offers. A new one is one entry in [`ALGORITHMS`].

use std::str::FromStr;

use anyhow::{Context, Result};
use tollgate::{FixedWindow, Gcra, LeakyQueue, SlidingCounter, SlidingLog, SubWindows};

use crate::contender::{Contender, Setup};

/// An algorithm by its name on the command line.
#[derive(Clone, Copy, Debug)]
pub struct Algorithm {
    /// The name.
    pub(crate) name: &'static str,
    /// What it is, for the help.
    pub(crate) summary: &'static str,
    /// Whether it heeds the burst of a rule.
    pub(crate) uses_burst: bool,
    /// Whether it heeds `--sub-windows`.
    pub(crate) uses_sub_windows: bool,
    /// Whether it heeds `--immediate`.
    pub(crate) uses_immediate: bool,
    /// The most that it admits to a key in one period, wherever that begins, and why. Who is told
    /// to wait counts when the wait is over.
    pub(crate) worst: &'static str,
    /// Builds a limiter of it.
    build: fn(&Setup) -> Result<Box<dyn Contender>>,
}

impl Algorithm {
    /// The name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// What the algorithm is, in a few words.
    #[must_use]
    pub fn summary(&self) -> &'static str {
        self.summary
    }

    /// Builds a limiter.
    ///
    /// # Errors
    ///
    /// The algorithm cannot keep the rule, or there is no memory for its table. The error says
    /// why, and no more.
    pub(crate) fn build_bare(&self, setup: &Setup) -> Result<Box<dyn Contender>> {
        (self.build)(setup)
    }

    /// Builds a limiter. The error names the rule and the algorithm too.
    pub(crate) fn build(&self, setup: &Setup) -> Result<Box<dyn Contender>> {
        (self.build)(setup).with_context(|| format!("rule \"{}\" with {}", setup.quota, self.name))
    }
}

/// All algorithms, the default first.
pub const ALGORITHMS: &[Algorithm] = &[
    Algorithm {
        name: "gcra",
        summary: "token bucket",
        uses_burst: true,
        uses_sub_windows: false,
        uses_immediate: false,
        worst: "burst + limit: a full bucket, and what flows in meanwhile",
        build: |setup| setup.build(&Gcra::new()),
    },
    Algorithm {
        name: "fixed-window",
        summary: "window from a key's first request",
        uses_burst: false,
        uses_sub_windows: false,
        uses_immediate: false,
        worst: TWO_WINDOWS,
        build: |setup| setup.build(&FixedWindow::anchored()),
    },
    Algorithm {
        name: "fixed-window-aligned",
        summary: "window from the wall clock's full hour, minute, …",
        uses_burst: false,
        uses_sub_windows: false,
        uses_immediate: false,
        worst: TWO_WINDOWS,
        build: |setup| {
            let aligned = FixedWindow::aligned();
            setup.build(&aligned.utc_offset_secs(setup.options.utc_offset_secs))
        },
    },
    Algorithm {
        name: "leaky-queue",
        summary: "queue with an even outlet, where what fits waits for its turn",
        uses_burst: true,
        uses_sub_windows: false,
        uses_immediate: true,
        worst: "limit + one request, or + --immediate cells if more",
        build: |setup| setup.build(&LeakyQueue::new().immediate(setup.options.immediate_cells)),
    },
    Algorithm {
        name: "sub-windows",
        summary: "the latest sub-windows of the wall clock, together",
        uses_burst: false,
        uses_sub_windows: true,
        uses_immediate: false,
        worst: "2 x limit; the limit in a period less one sub-window",
        build: |setup| {
            let divided = SubWindows::new().count(setup.options.sub_windows);
            setup.build(&divided.utc_offset_secs(setup.options.utc_offset_secs))
        },
    },
    Algorithm {
        name: "sliding-counter",
        summary: "aligned window, and as much of the last one as a period overlaps",
        uses_burst: false,
        uses_sub_windows: false,
        uses_immediate: false,
        worst: "2 x limit: an estimate, as if the last window were even",
        build: |setup| {
            setup.build(&SlidingCounter::new().utc_offset_secs(setup.options.utc_offset_secs))
        },
    },
    Algorithm {
        name: "sliding-log",
        summary: "every request of the last period",
        uses_burst: false,
        uses_sub_windows: false,
        uses_immediate: false,
        worst: "the limit, exactly",
        build: |setup| setup.build(&SlidingLog::new()),
    },
];

const TWO_WINDOWS: &str = "2 x limit: one on either side of a window's edge";

/// The names, for messages.
fn names() -> String {
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

/// Algorithms to choose from.
#[derive(Clone, Debug, PartialEq)]
pub enum Selection {
    /// All that can keep a rule.
    All,
    /// These.
    Named(Vec<Algorithm>),
}

impl Selection {
    /// The algorithms.
    pub(crate) fn algorithms(&self) -> &[Algorithm] {
        match self {
            Self::All => ALGORITHMS,
            Self::Named(algorithms) => algorithms,
        }
    }
}

impl FromStr for Selection {
    type Err = String;

    /// A list such as `gcra,fixed-window`, or `all`.
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Self::All);
        }
        text.split(',').map(|name| name.trim().parse()).collect::<Result<_, _>>().map(Self::Named)
    }
}

#[cfg(test)]
mod tests {
    use tollgate::AnyAlgorithm;

    use super::*;

    #[test]
    fn lists_keep_their_order() {
        let list = str::parse::<Selection>;
        let named = list("fixed-window, gcra").unwrap();
        let names: Vec<_> = named.algorithms().iter().map(|algorithm| algorithm.name).collect();
        assert_eq!(names, ["fixed-window", "gcra"]);
        assert_eq!(list("all"), Ok(Selection::All));
        assert!(list("gcra,magic").unwrap_err().contains("`magic`"));
        assert!(list("").is_err());
    }

    #[test]
    fn they_are_the_librarys_by_the_same_names() {
        let names: Vec<_> = ALGORITHMS.iter().map(|algorithm| algorithm.name).collect();
        assert_eq!(names, AnyAlgorithm::NAMES);
    }

    #[test]
    fn the_bounds_fit_a_narrow_terminal() {
        for algorithm in ALGORITHMS {
            assert!(algorithm.worst.len() <= 58, "{}", algorithm.worst);
        }
    }
}
