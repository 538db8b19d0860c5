//! The client's request: its address, host, headers and body.

pub(crate) mod body;
pub(crate) mod client;
pub(crate) mod headers;
pub(crate) mod host;
