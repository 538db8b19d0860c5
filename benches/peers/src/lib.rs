//! Other limiters behind two small traits, so that one loop measures them all.
//!
//! `cargo bench --bench versus_crates`, in this folder; `README.md` says what each is set up as.

pub mod bucket;
pub mod forms;
pub mod limiters;
pub mod peer;
pub mod plan;
