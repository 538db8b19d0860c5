//! The way to the upstream and back.
//!
//! ```text
//! address       the URI at the upstream; climb finds paths that would leave its base
//! forward       sends a request and checks the head of its response
//! pool          connections to the upstream, kept and reused; in HTTP/2, lead picks the request that opens one
//! connect       opens one: TCP, TLS; connect_limit bounds how many, resolve the lookups of the name
//! exchange      watches the bytes of a connection: reused or not, longer than announced
//! upload        the request's body: idle time and rate
//! download      the response's body: idle time and length
//! causes        of an error, to tell what it means
//! upgrade       a client's wish for another protocol; tunnel carries its bytes
//! ```

mod address;
pub(crate) mod answer;
mod body_rate;
mod causes;
mod climb;
mod connect;
mod connect_limit;
mod download;
mod exchange;
pub(crate) mod forward;
mod idle;
mod lead;
mod pool;
mod resolve;
mod tls_roots;
mod tunnel;
mod upgrade;
mod upload;

pub use address::Upstream;
pub use body_rate::BodyRate;
pub(crate) use pool::PoolOptions;
