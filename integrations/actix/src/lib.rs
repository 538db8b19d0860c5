#![doc = include_str!("../README.md")]

mod bodies;
mod convert;
mod middleware;

pub use middleware::{RateLimit, RateLimitService};
pub use tollgate_http::{self, Limit, Quota, RateLimitLayer, key};

pub use bodies::ResponseBody;
