//! Properties of any bytes in headers: the bodies of fuzz targets in `fuzz/`. `tests/fuzz_bodies.rs`
//! runs them as property tests too.
//!
//! After the last byte of an input, zeros follow, so every input is valid.

#![allow(dead_code, reason = "each test and fuzz target uses a part")]

mod cursor;
pub(crate) mod fields;
pub(crate) mod forwarded;
pub(crate) mod mistake;
pub(crate) mod structured;
