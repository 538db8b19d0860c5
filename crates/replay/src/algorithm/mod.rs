//! The algorithms that a replay offers. A new algorithm is a row of [`TABLE`].

#[cfg(test)]
mod tests;

use std::str::FromStr;

use anyhow::{Context, Result};
use tollgate::{
    AnyAlgorithm, FixedWindow, Gcra, LeakyQueue, SlidingCounter, SlidingLog, SubWindows,
};

use crate::contender::{Contender, Options, Setup};

/// An algorithm that a replay can use. It parses from its name.
#[derive(Clone, Copy, Debug)]
pub struct Algorithm {
    pub(crate) name: &'static str,
    summary: &'static str,
    /// Whether the algorithm uses the burst of a rule.
    pub(crate) uses_burst: bool,
    /// Whether the algorithm uses `--sub-windows`.
    pub(crate) uses_sub_windows: bool,
    /// Whether the algorithm uses `--immediate`.
    pub(crate) uses_immediate: bool,
    /// The most that the algorithm admits to a key in one period, wherever that begins, and why. A
    /// delayed request counts from the end of its delay.
    pub(crate) worst_window: &'static str,
    with: fn(&Options) -> AnyAlgorithm,
}

impl Algorithm {
    /// The name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// A description of the algorithm in a few words.
    #[must_use]
    pub fn summary(&self) -> &'static str {
        self.summary
    }

    /// Builds a limiter.
    ///
    /// # Errors
    ///
    /// The algorithm cannot keep the rule, or there is no memory for its table. The error names neither the rule nor
    /// the algorithm.
    pub(crate) fn build_bare(&self, setup: &Setup) -> Result<Contender> {
        setup.build((self.with)(&setup.options))
    }

    /// Builds a limiter. The error names the rule and the algorithm too.
    pub(crate) fn build(&self, setup: &Setup) -> Result<Contender> {
        let named = || format!("rule \"{}\" with {}", setup.quota, self.name);
        self.build_bare(setup).with_context(named)
    }
}

/// All algorithms, the default first.
pub const ALGORITHMS: &[Algorithm] = &TABLE;

/// One row for each name of the library.
const TABLE: [Algorithm; AnyAlgorithm::NAMES.len()] = [
    Algorithm {
        name: "gcra",
        summary: "token bucket",
        uses_burst: true,
        uses_sub_windows: false,
        uses_immediate: false,
        worst_window: "burst + limit: a full bucket, plus the refill of a period",
        with: |_| Gcra::new().into(),
    },
    Algorithm {
        name: "fixed-window",
        summary: "window from a key's first request",
        uses_burst: false,
        uses_sub_windows: false,
        uses_immediate: false,
        worst_window: TWO_WINDOWS,
        with: |_| FixedWindow::anchored().into(),
    },
    Algorithm {
        name: "fixed-window-aligned",
        summary: "window from the wall clock's full hour, minute, …",
        uses_burst: false,
        uses_sub_windows: false,
        uses_immediate: false,
        worst_window: TWO_WINDOWS,
        with: |options| FixedWindow::aligned().utc_offset_secs(options.utc_offset_secs).into(),
    },
    Algorithm {
        name: "leaky-queue",
        summary: "queue with an even outlet; requests that fit wait for their turn",
        uses_burst: true,
        uses_sub_windows: false,
        uses_immediate: true,
        worst_window: "limit + one request, or + --immediate cells if more",
        with: |options| LeakyQueue::new().immediate(options.immediate_cells).into(),
    },
    Algorithm {
        name: "sub-windows",
        summary: "the latest sub-windows of the wall clock, added up",
        uses_burst: false,
        uses_sub_windows: true,
        uses_immediate: false,
        worst_window: "2 x limit; the limit within a period less one sub-window",
        with: |options| {
            let divided = SubWindows::new().count(options.sub_windows);
            divided.utc_offset_secs(options.utc_offset_secs).into()
        },
    },
    Algorithm {
        name: "sliding-counter",
        summary: "aligned window, plus the overlapping share of the previous one",
        uses_burst: false,
        uses_sub_windows: false,
        uses_immediate: false,
        worst_window: "2 x limit: it assumes that the last window was even",
        with: |options| SlidingCounter::new().utc_offset_secs(options.utc_offset_secs).into(),
    },
    Algorithm {
        name: "sliding-log",
        summary: "exact log of the last period",
        uses_burst: false,
        uses_sub_windows: false,
        uses_immediate: false,
        worst_window: "the limit, exactly",
        with: |_| SlidingLog::new().into(),
    },
];

const TWO_WINDOWS: &str = "2 x limit: one on each side of a window's edge";

/// All names, for messages.
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

/// The algorithms to replay. Parses from a list such as `gcra,fixed-window`, or `all`.
#[derive(Clone, Debug, PartialEq)]
pub enum Selection {
    /// Every algorithm that can keep the rule.
    All,
    /// These algorithms.
    Named(Vec<Algorithm>),
}

impl Selection {
    pub(crate) fn algorithms(&self) -> &[Algorithm] {
        match self {
            Self::All => ALGORITHMS,
            Self::Named(algorithms) => algorithms,
        }
    }
}

impl FromStr for Selection {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Self::All);
        }
        text.split(',').map(|name| name.trim().parse()).collect::<Result<_, _>>().map(Self::Named)
    }
}
