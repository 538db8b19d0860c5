//! What a replay tells: to people, to programs, and decision by decision.

mod chart;
pub(crate) mod decisions;
pub(crate) mod json;
mod table;
pub(crate) mod text;
pub(crate) mod words;
mod worst;
