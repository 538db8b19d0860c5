//! A reverse proxy that enforces a [rules file](tollgate_rules) in front of an HTTP server.
//!
//! This library is the `proxy` command of `tollgate`, without its command line. [`run`] serves a
//! [`Config`] until the process receives SIGINT or SIGTERM.
//!
//! A request passes through these modules, in this order:
//!
//! ```text
//! server      accepts connections, up to a bound; its service handles each request
//! connection  bounds a client's connection: slots, write timeout, streams
//! request     reads the head: client address, host, headers; drains unread bodies
//! rules       decides, through the layer of tollgate-http
//! stores      decides limits that several processes share, if a rule has a store
//! upstream    forwards the request and its response, or tunnels an upgraded connection
//! ```
//!
//! Beside it run `admin` (`/metrics`, health) and the tasks of `process`. `metrics` and `log`
//! import no other module.

mod admin;
mod banner;
mod config;
mod connection;
mod demo;
mod log;
mod metrics;
mod process;
mod request;
mod rule_counters;
mod rules;
mod run;
mod server;
mod stores;
mod upstream;

pub use config::{Config, Timeouts};
pub use run::run;
pub use stores::check_stores;
pub use tollgate_http::Dialect;
pub use tollgate_http::key::Trust;
pub use upstream::{BodyRate, Upstream};
