//! The process: its open files, its signals, and its long-running tasks.

pub(crate) mod descriptors;
pub(crate) mod signals;
pub(crate) mod tasks;
