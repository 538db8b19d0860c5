//! What the proxy sets and asks of the system: open files, send buffers, signals; and its long-running tasks.

pub(crate) mod descriptors;
pub(crate) mod send_buffer;
pub(crate) mod signals;
pub(crate) mod tasks;
