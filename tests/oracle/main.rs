//! The algorithms against their oracles, against exact arithmetic, and against the clock.
//!
//! One key, one thread: everything here is about what a single bucket answers.

#[path = "../bodies/mod.rs"]
mod bodies;
mod choice;
mod denied;
mod drift;
mod equality;
mod meter;
mod outlet;
mod peers;
mod rate;
mod ring_meter;
mod wall_clock;
mod warm_up;
mod window_meter;
mod words;
