//! Properties of a server's replies: the body of a fuzz target in `fuzz/`, which also runs as
//! a property in `tests/reply_bodies.rs`; and models that several tests share.
//!
//! When the input bytes are used up, further bytes are zeros, so every input is valid.

#![allow(dead_code, reason = "each of the tests and fuzz targets uses a part")]

pub(crate) mod bucket;
mod meaning;
pub(crate) mod replies;
