//! Rate limit rules of tollgate in a [Pingora](pingora_proxy) proxy.
//!
//! [`RulesFilter::ask`] belongs into `request_filter`, and what it returns into the request's
//! context, so that `response_filter` can tell clients how they stand.
//!
//! ```
//! use async_trait::async_trait;
//! use pingora_core::{Result, upstreams::peer::HttpPeer};
//! use pingora_http::ResponseHeader;
//! use pingora_proxy::{ProxyHttp, Session};
//! use tollgate_pingora::{Answer, RulesFilter, Standing};
//!
//! struct Proxy(RulesFilter);
//!
//! #[async_trait]
//! impl ProxyHttp for Proxy {
//!     type CTX = Standing;
//!
//!     fn new_ctx(&self) -> Standing {
//!         Standing::default()
//!     }
//!
//!     async fn request_filter(&self, session: &mut Session, ctx: &mut Standing) -> Result<bool> {
//!         match self.0.ask(session).await? {
//!             Answer::GoAhead(standing) => *ctx = standing,
//!             Answer::Denied => return Ok(true),
//!         }
//!         Ok(false)
//!     }
//!
//!     async fn response_filter(
//!         &self, _: &mut Session, response: &mut ResponseHeader, ctx: &mut Standing,
//!     ) -> Result<()> {
//!         ctx.tell(response)
//!     }
//!
//!     async fn upstream_peer(&self, _: &mut Session, _: &mut Standing) -> Result<Box<HttpPeer>> {
//!         Ok(Box::new(HttpPeer::new("127.0.0.1:8000", false, String::new())))
//!     }
//! }
//! ```
#![doc = include_str!("../README.md")]

mod facts;
mod filter;
mod report;

pub use facts::RequestFacts;
pub use filter::{Answer, Counts, RulesFilter, Standing};
