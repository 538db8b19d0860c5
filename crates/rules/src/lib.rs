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

mod decision;
mod error;
mod explain;
mod file;
mod host;
mod inline_vec;
mod key;
mod limiter;
mod matcher;
mod parse;
mod path;
mod pattern;
mod reload;
mod request_view;
mod requirements;
mod rule;
mod store;

pub use error::{BuildFailed, ReloadError, RuleError, RulesError};
pub use request_view::{Request, RequestView};
pub use limiter::Gate;
pub use reload::{ReloadSummary, ReloadWarning};
pub use key::{Key, OnNoKey};
pub use file::{LiveRules, Loaded, RulesFile};
pub use rule::{Apply, Limit, Penalty, Rule, Rules};
pub use limiter::{LimitStats, RuleStats};
pub use store::{Fallback, Store};
pub use decision::{Deferred, Denial, DenyReason, Outcome, Standing, Verdict};
