//! Streams and bodies in tokio's paused time, and over real sockets.

#![allow(clippy::disallowed_types, reason = "locks and clocks of the tests, not of the limiter")]

mod body;
mod cancel;
mod changes;
mod items;
mod properties;
mod rate;
mod sharing;
mod support;
mod tcp;
