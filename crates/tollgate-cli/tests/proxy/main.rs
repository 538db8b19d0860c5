//! `tollgate proxy`, run as a program, over real sockets.

#![cfg(unix)]
#![allow(clippy::disallowed_types, reason = "locks and clocks of the tests, not of the limiter")]

mod failures;
mod limits;
mod reload;
mod start;
mod stop;
mod streams;
mod support;
mod wire;
