//! Other limiters beside the settings that `docs/guide/coming-from-*.md` translates theirs to: the decisions
//! are equal, or differ exactly as the page says.
//!
//! governor is the crate itself. The others are written down as arithmetic: what their documentation and
//! their sources say that they compute, without their locks and tables.

mod bucket4j;
mod envoy;
mod go;
mod governor;
mod nginx;
mod traces;
mod units;
