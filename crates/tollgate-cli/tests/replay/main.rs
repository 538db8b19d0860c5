//! `tollgate replay`, run as a program.

mod command;
mod real_logs;
mod support;
mod worst;
