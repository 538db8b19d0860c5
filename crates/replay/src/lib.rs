//! Replays access logs through candidate rate limits and reports which requests they deny.
//!
//! This library is the `replay` command of `tollgate`, without its command line. [`ReplayOptions`]
//! holds what the caller asks for. [`ReplayPlan::new`] checks the options against each other, [`run`]
//! replays the logs, and [`text_report`], [`json_report`] and [`html_report`] describe the
//! [`ReplayOutcome`].
//!
//! Time comes from the log alone, and keys are hashed with a fixed seed, so a replay gives the same result on every run.
//!
//! ```
//! use tollgate_replay::{ReplayPlan, ReplayOptions, run, text_report};
//!
//! # let log = std::env::temp_dir().join(format!("tollgate-replay-{}.log", std::process::id()));
//! # let line = "192.0.2.7 - - [01/Aug/1995:00:00:00 -0400] \"GET / HTTP/1.0\" 200 7\n";
//! # std::fs::write(&log, line.repeat(8))?;
//! # let log = log.to_string_lossy().into_owned();
//! let plan = ReplayPlan::new(ReplayOptions {
//!     files: vec![log.clone()],
//!     rules: vec!["1/s burst 5".parse()?],
//!     ..ReplayOptions::default()
//! })?;
//! let outcome = run(&plan)?;
//! assert!(text_report(&plan, &outcome, 80).contains("8 requests by 1 key"));
//! # std::fs::remove_file(log)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

mod algorithm;
mod contender;
mod log;
#[cfg(test)]
mod log_lines;
mod outcome;
mod plan;
mod progress;
mod replay;
mod report;
mod rules_replay;
mod suggest;
mod tally;
mod words;

pub use algorithm::{ALGORITHMS, Algorithm, Selection};
pub use log::{Cost, Format, Key, parse_utc_offset};
pub use outcome::{Incomplete, ReplayOutcome};
pub use plan::{ReplayOptions, ReplayPlan};
pub use replay::run;
pub use report::{html_report, json_report, text_report};
pub use suggest::Percentage;
