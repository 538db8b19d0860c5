//! What a replay tells: to people, to programs, and decision by decision.

mod chart;
pub(crate) mod decisions;
pub(crate) mod html;
pub(crate) mod json;
mod json_study;
mod ruled;
mod suggest;
mod table;
pub(crate) mod text;
pub(crate) mod words;
mod worst;
