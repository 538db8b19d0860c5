//! What must hold of what a server answers: the body of a fuzz target in `fuzz/`, which runs as a
//! property in `tests/reply_bodies.rs` too; and what the tests share with other models.
//!
//! Bytes that run out are zeros, so every input means something.

#![allow(dead_code, reason = "each of the tests and fuzz targets uses a part")]

pub(crate) mod bucket;
mod meaning;
pub(crate) mod replies;
