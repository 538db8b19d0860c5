//! Rate limit rules from a TOML file, enforced by [`tollgate`].
//!
//! A [`RulesFile`] reads the file, and again when it changes; [`LiveRules`] is what requests are
//! decided by meanwhile, without a lock. Anything that implements [`RequestView`] is a request.
//!
//! ```
//! use tollgate_rules::{Gate, Request, Rules};
//!
//! let rules = Rules::parse("rules.toml", r#"
//!     [[rule]]
//!     name = "posts"
//!     match = { path = "/posts/**", method = "POST" }
//!     key = "header:x-user"
//!     limits = "2/s"
//! "#)?;
//! let gate = Gate::new(rules)?;
//!
//! let headers = [("x-user", "ada")];
//! let post = Request { method: "POST", path: "/posts/new", headers: &headers, ..Request::default() };
//! assert!(gate.decide(&post).is_admitted());
//! assert!(gate.decide(&post).is_admitted());
//! let verdict = gate.decide(&post);
//! let denied = verdict.denied().expect("the third within a second");
//! assert_eq!(denied.rule().name(), "posts");
//! assert!(denied.retry_after().unwrap().as_millis() <= 500);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
#![doc = include_str!("../README.md")]

mod asks;
mod bucket;
mod error;
mod explain;
mod explain_request;
mod facts;
mod gate;
mod host;
mod inherit;
mod inline;
mod key;
mod live;
mod matching;
mod parse;
mod path;
mod pattern;
mod rule;
mod stats;
mod store;
mod verdict;

pub use error::{BuildFailed, ReloadError, RuleError, RulesError};
pub use facts::{Request, RequestView};
pub use gate::Gate;
pub use inherit::{ReloadSummary, ReloadWarning};
pub use key::{Key, OnNoKey};
pub use live::{LiveRules, Loaded, RulesFile};
pub use rule::{Apply, Limit, Penalty, Rule, Rules};
pub use stats::{LimitStats, RuleStats};
pub use store::{Fallback, Store};
pub use verdict::{Deferred, Denial, DenyReason, Outcome, Standing, Verdict};
