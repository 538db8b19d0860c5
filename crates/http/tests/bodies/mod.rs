//! What must hold of any bytes in headers: the bodies of fuzz targets in `fuzz/`, which run as
//! properties in `tests/fuzz_bodies.rs` too.
//!
//! Bytes that run out are zeros, so every input means something.

#![allow(dead_code, reason = "each of the tests and fuzz targets uses a part")]

mod cursor;
pub(crate) mod fields;
pub(crate) mod forwarded;
pub(crate) mod mistake;
pub(crate) mod structured;
