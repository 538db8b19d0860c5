//! Other limiters behind two small traits, so that one loop measures all of them.
//!
//! `cargo bench --bench versus_crates`, in this folder; `README.md` says how each is configured.

pub mod bucket;
pub mod coherence;
pub mod forms;
pub mod limiters;
pub mod peer;
pub mod plan;
