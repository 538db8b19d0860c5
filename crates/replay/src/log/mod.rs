//! Reads access logs: files into lines, lines into requests with a key, a cost and a time.

pub(crate) mod charge;
pub(crate) mod fields;
pub(crate) mod format;
pub(crate) mod lines;
pub(crate) mod log_time;
pub(crate) mod logged_request;
pub(crate) mod same_file;

pub use charge::{Cost, Key};
pub use format::{Format, parse_utc_offset};
