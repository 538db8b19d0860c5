//! Bounds a client's connection: slots, write timeout, streams, idle time.

pub(crate) mod open;
pub(crate) mod per_client;
pub(crate) mod pieces;
pub(crate) mod streams;
pub(crate) mod usage;
pub(crate) mod write_timeout;
