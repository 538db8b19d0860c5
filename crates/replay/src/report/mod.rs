//! Reports of a replay: for people, for programs, and decision by decision.

mod chart;
pub(crate) mod decisions;
mod html;
mod json;
mod json_parts;
mod rules;
mod suggest;
mod table;
mod text;
mod worst_window;

pub use html::html_report;
pub use json::json_report;
pub use text::text_report;
