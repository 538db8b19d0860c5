//! `tollgate proxy`, run as a program, over real sockets.

#![cfg(unix)]
#![allow(clippy::disallowed_types, reason = "locks and clocks of the tests, not of the limiter")]

mod bodies;
mod bounds;
mod bytes;
mod costs;
mod cut_off;
mod failures;
mod faults;
mod grpc;
mod hosts;
mod http2;
mod idle;
mod in_flight;
mod limits;
mod log;
mod matching;
mod metrics;
mod plans;
mod processes;
mod redis;
mod reload;
mod resets;
#[allow(dead_code, reason = "other tests use the rest")]
mod server;
mod shared;
mod stalls;
mod start;
mod stop;
mod streams;
mod support;
mod tls;
mod upgrades;
mod uploads;
mod windows;
mod wire;
