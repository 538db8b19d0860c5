//! What a replay tells: to people, to programs, and decision by decision.

mod chart;
pub(crate) mod decisions;
pub(crate) mod json;
pub(crate) mod text;
mod words;
