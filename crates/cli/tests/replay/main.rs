//! `tollgate replay`, run as a program.

mod command;
mod html;
mod inputs;
mod real_logs;
mod rules;
mod suggest;
mod support;
mod worst;
