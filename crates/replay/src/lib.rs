//! Replays access logs through candidate rate limits and reports which requests they deny.
//!
//! This library is the `replay` command of `tollgate`, without its command line. [`ReplayOptions`]
//! holds what the caller asks for. [`Plan::new`] checks the options against each other, [`run`]
//! replays the logs, and [`text_report`], [`json_report`] and [`html_report`] describe the
//! [`Outcome`].
//!
//! Time comes from the log alone, so a replay gives the same result on every run.
//!
//! ```
//! use tollgate_replay::{Plan, ReplayOptions, run, text_report};
//!
//! # let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data");
//! let plan = Plan::new(ReplayOptions {
//!     files: vec![format!("{folder}/nasa_19950801.clf.log.gz")],
//!     rules: vec!["1/s burst 5".parse()?],
//!     ..ReplayOptions::default()
//! })?;
//! let outcome = run(&plan)?;
//! assert!(text_report(&plan, &outcome, 80).contains("30,969 requests by 2,365 keys"));
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
pub use outcome::{Incomplete, Outcome};
pub use plan::{Plan, ReplayOptions};
pub use replay::run;
pub use report::{html_report, json_report, text_report};
pub use suggest::Share;
