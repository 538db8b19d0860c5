//! The proxy as a process: its limit of open files, its send buffers, its signals and its long-running tasks.

pub(crate) mod descriptors;
pub(crate) mod send_buffer;
pub(crate) mod signals;
pub(crate) mod tasks;
