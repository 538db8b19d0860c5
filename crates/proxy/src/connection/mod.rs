//! What a client's connection may hold: a slot, time, and streams.

pub(crate) mod open;
pub(crate) mod per_client;
pub(crate) mod streams;
pub(crate) mod write_timeout;
