//! One rate limit over many processes, on a Redis or Valkey server.

mod unavailable;

pub use unavailable::Unavailable;
