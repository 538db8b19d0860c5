//! The client's request: its address, host, headers, framing and body.

pub(crate) mod body;
pub(crate) mod client;
pub(crate) mod framing;
pub(crate) mod headers;
pub(crate) mod host;
pub(crate) mod max_forwards;
pub(crate) mod target;
pub(crate) mod values;
pub(crate) mod whole_body;
