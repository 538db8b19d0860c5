//! Rate limit rules of tollgate in a [Pingora](pingora_proxy) proxy.
//!
//! Call [`RulesFilter::ask`] in `request_filter`, and keep the fields that it returns in the context of the
//! request, so that `response_filter` can add them to the response.
//!
//! ```
//! use async_trait::async_trait;
//! use pingora_core::{Result, upstreams::peer::HttpPeer};
//! use pingora_http::ResponseHeader;
//! use pingora_proxy::{ProxyHttp, Session};
//! use tollgate_pingora::{Answer, RulesFilter, ResponseFields};
//!
//! struct Proxy(RulesFilter);
//!
//! #[async_trait]
//! impl ProxyHttp for Proxy {
//!     type CTX = ResponseFields;
//!
//!     fn new_ctx(&self) -> ResponseFields {
//!         ResponseFields::default()
//!     }
//!
//!     async fn request_filter(&self, session: &mut Session, ctx: &mut ResponseFields) -> Result<bool> {
//!         match self.0.ask(session).await? {
//!             Answer::Admitted(fields) => *ctx = fields,
//!             Answer::Denied => return Ok(true),
//!         }
//!         Ok(false)
//!     }
//!
//!     async fn response_filter(
//!         &self, _: &mut Session, response: &mut ResponseHeader, ctx: &mut ResponseFields,
//!     ) -> Result<()> {
//!         ctx.add_to(response)
//!     }
//!
//!     async fn upstream_peer(&self, _: &mut Session, _: &mut ResponseFields) -> Result<Box<HttpPeer>> {
//!         Ok(Box::new(HttpPeer::new("127.0.0.1:8000", false, String::new())))
//!     }
//! }
//! ```
#![doc = include_str!("../README.md")]

mod filter;
mod report;
mod request_head;

pub use filter::{Answer, Counts, ResponseFields, RulesFilter};
pub use request_head::RequestHead;
