//! Rate limit rules from a TOML file, enforced by [`tollgate`].
//!
//! - [`Rules`] is a parsed file, and [`RulesLimiter`] holds its limiters.
//! - [`RulesFile`] reads the file, and again when it changes. [`LiveRules`] holds the limiter in
//!   force, from which threads decide requests without a lock.
//! - Anything that implements [`RequestView`] is a request.
//!
//! ```
//! use tollgate_rules::{RulesLimiter, Request, Rules};
//!
//! let rules = Rules::parse("rules.toml", r#"
//!     [[rule]]
//!     name = "posts"
//!     match = { path = "/posts/**", method = "POST" }
//!     key = "header:x-user"
//!     limits = "2/s"
//! "#)?;
//! let gate = RulesLimiter::new(rules)?;
//!
//! let headers = [("x-user", "ada")];
//! let post = Request { method: "POST", path: "/posts/new", headers: &headers, ..Request::default() };
//! assert!(gate.decide(&post).is_admitted());
//! assert!(gate.decide(&post).is_admitted());
//! let decision = gate.decide(&post);
//! let denied = decision.denied().expect("the third within a second");
//! assert_eq!(denied.rule().name(), "posts");
//! assert!(denied.retry_after().unwrap().as_millis() <= 500);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
// The first definition of a link counts: the README's own leads into the repository's folders.
#![doc = concat!("[docs/rules.md]: ", env!("CARGO_PKG_REPOSITORY"), "/blob/HEAD/docs/rules.md")]
#![doc = concat!("[rules/example.toml]: ", env!("CARGO_PKG_REPOSITORY"), "/blob/HEAD/rules/example.toml")]
#![doc = ""]
#![doc = include_str!("../README.md")]

mod active_rule;
mod clock;
mod decision;
mod error;
mod explain;
mod file;
mod inline_vec;
mod key;
mod limiter;
mod live;
mod matcher;
mod parse;
mod reload;
mod request;
mod rule;
mod shared;
mod words;

pub use active_rule::{BytePace, Held};
pub use clock::RulesClock;
pub use decision::{
    Deferred, DenyReason, Outcome, RuleDenial, RuleInFlight, RulePermit, RulesDecision,
};
pub use error::{ReloadError, RuleError, RuleWarning, RulesBuildError, RulesError};
pub use file::RulesFile;
pub use key::{Key, OnNoKey};
pub use limiter::{InFlightStats, LimitStats, RuleStats, RulesLimiter};
pub use live::{LiveRules, RulesGuard};
pub use reload::{ReloadSummary, ReloadWarning};
pub use request::{Request, RequestView};
pub use rule::{Action, Apply, Concurrency, Fallback, Penalty, Rule, RuleLimit, Rules, Store};
