#![doc = include_str!("../README.md")]
//! # A whole proxy
//!
//! ```no_run
#![doc = include_str!("../examples/minimal.rs")]
//! ```

mod filter;
mod report;
mod request_head;

pub use filter::{Counts, ResponseFields, RulesFilter};
pub use request_head::RequestHead;
#[doc(no_inline)]
pub use tollgate_http;
#[doc(no_inline)]
pub use tollgate_rules::{self, RulesFile};
