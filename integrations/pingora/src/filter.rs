//! The filter: client, verdict, answer.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::HeaderMap;
use http::header::{CONTENT_LENGTH, RETRY_AFTER};
use pingora_core::Result;
use pingora_http::ResponseHeader;
use pingora_proxy::Session;
use tokio::sync::Semaphore;
use tollgate_http::key::{ClientIp, Extractor, IpPrefix};
use tollgate_http::{Denial, Reason, Report, denial};
use tollgate_rules::{Gate, LiveRules};

use crate::facts::RequestFacts;
use crate::report::report;

/// Requests that may wait for their turn at a time (`algorithm = "leaky-queue"`).
const WAITING_MAX: usize = 1_024;

/// Asks the rules about each request, and answers those that they deny.
///
/// It shares by reference, over all workers of a service: a quota of 5 admits 5.
///
/// ```
/// use tollgate_pingora::RulesFilter;
/// use tollgate_rules::{Gate, Rules};
///
/// let text = r#"rule = [{ name = "per-client", key = "ip", limits = "10/s burst 20" }]"#;
/// let filter = RulesFilter::new(Gate::new(Rules::parse("rules.toml", text)?)?);
/// assert_eq!(filter.counts().denied, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct RulesFilter {
    rules: Source,
    client: Option<ClientIp>,
    waiting: Semaphore,
    admitted: AtomicU64,
    denied: AtomicU64,
    shadow_denied: AtomicU64,
}

#[derive(Debug)]
enum Source {
    Fixed(Box<Gate>),
    Live(Arc<LiveRules>),
}

/// What became of a request.
#[derive(Debug)]
#[must_use = "a request that was denied is answered already"]
pub enum Answer {
    /// It may go ahead. What is in it, the response should tell.
    GoAhead(Standing),
    /// It was answered: `request_filter` returns `Ok(true)`.
    Denied,
}

/// How the client stands, for the response: the fields `RateLimit-Policy` and `RateLimit`.
#[derive(Clone, Debug, Default)]
pub struct Standing(Report);

/// Counts since the filter was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Requests that went ahead.
    pub admitted: u64,
    /// Requests that were answered here.
    pub denied: u64,
    /// Denials by rules in shadow, of requests that went ahead.
    pub shadow_denied: u64,
}

impl RulesFilter {
    /// By rules that stay as they are.
    #[must_use]
    pub fn new(gate: Gate) -> Self {
        Self::of(Source::Fixed(Box::new(gate)))
    }

    /// By the rules of a file that its [`RulesFile`](tollgate_rules::RulesFile) keeps up to date.
    #[must_use]
    pub fn live(rules: Arc<LiveRules>) -> Self {
        Self::of(Source::Live(rules))
    }

    fn of(rules: Source) -> Self {
        Self {
            rules,
            client: None,
            waiting: Semaphore::new(WAITING_MAX),
            admitted: AtomicU64::new(0),
            denied: AtomicU64::new(0),
            shadow_denied: AtomicU64::new(0),
        }
    }

    /// The client is who trusted proxies say it is; otherwise, the connection's other end. How much
    /// of an IPv6 address counts is said by the rules. A request whose client cannot be told has no
    /// address (`on_no_key`).
    ///
    /// ```
    /// # use tollgate_rules::{Gate, Rules};
    /// use tollgate_http::key::{ClientIp, Trust};
    /// # let text = r#"rule = [{ name = "a", limits = "10/s" }]"#;
    /// # let gate = Gate::new(Rules::parse("rules.toml", text)?)?;
    /// let trust = Trust::networks(["10.0.0.0/8"])?;
    /// let filter = tollgate_pingora::RulesFilter::new(gate).behind(ClientIp::x_forwarded_for(trust));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn behind(self, client: ClientIp) -> Self {
        Self { client: Some(client.prefix(IpPrefix::new(32, 128))), ..self }
    }

    /// Decides about the session's request. One that may not go ahead is answered as
    /// [`denial::by_protocol`] says: with 429 and a body of `application/problem+json`, or in a gRPC
    /// call with `RESOURCE_EXHAUSTED`. `Retry-After` and the `RateLimit` fields are added.
    ///
    /// A request whose turn comes later waits for it here, unless more than 1,024 do.
    ///
    /// # Errors
    ///
    /// The answer could not be sent.
    pub async fn ask(&self, session: &mut Session) -> Result<Answer> {
        let client = self.client(session);
        let (report, reason) = self.decide(&RequestFacts::new(session.req_header(), client));
        let reason = match reason {
            None => self.wait(&report).await.err(),
            denied => denied,
        };
        let Some(reason) = reason else {
            let shadowed = report.shadow_denials().map(|_| 1).sum();
            self.shadow_denied.fetch_add(shadowed, Ordering::Relaxed);
            self.admitted.fetch_add(1, Ordering::Relaxed);
            return Ok(Answer::GoAhead(Standing(report)));
        };
        self.denied.fetch_add(1, Ordering::Relaxed);
        deny(session, &report, reason).await?;
        Ok(Answer::Denied)
    }

    /// Counts so far, read without stopping anybody.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Counts {
            admitted: read(&self.admitted),
            denied: read(&self.denied),
            shadow_denied: read(&self.shadow_denied),
        }
    }

    fn client(&self, session: &mut Session) -> Option<IpAddr> {
        let peer = session.client_addr().and_then(|address| address.as_inet().copied());
        let Some(client) = &self.client else { return Some(peer?.ip().to_canonical()) };
        let head = session.req_header_mut();
        head.extensions_mut().insert(peer?);
        client.extract(head).ok()
    }

    fn decide(&self, facts: &RequestFacts<'_>) -> (Report, Option<Reason>) {
        match &self.rules {
            Source::Fixed(gate) => report(&gate.decide(facts)),
            Source::Live(live) => report(&live.load().decide(facts)),
        }
    }

    async fn wait(&self, report: &Report) -> Result<(), Reason> {
        let delay = report.readings().map(|reading| reading.delay).max().unwrap_or(Duration::ZERO);
        if delay.is_zero() {
            return Ok(());
        }
        let _place = self.waiting.try_acquire().map_err(|_| Reason::QueueFull)?;
        tokio::time::sleep(delay).await;
        Ok(())
    }
}

impl Standing {
    /// Adds the fields to a response. Where no rule applied there are none.
    ///
    /// # Errors
    ///
    /// None that are known: the fields are well formed.
    pub fn tell(&self, response: &mut ResponseHeader) -> Result<()> {
        let mut fields = HeaderMap::new();
        if let Some(retry_after) = response.headers.get(RETRY_AFTER) {
            fields.insert(RETRY_AFTER, retry_after.clone());
        }
        self.0.add_fields_to(&mut fields);
        fields.remove(RETRY_AFTER);
        append(response, &fields)
    }
}

async fn deny(session: &mut Session, report: &Report, reason: Reason) -> Result<()> {
    let denial = Denial::new(session.req_header(), report, reason);
    let (mut head, body) = denial::by_protocol(&denial).into_parts();
    if let Some(secs) = denial.retry_after_secs() {
        head.headers.insert(RETRY_AFTER, secs.into());
    }
    report.add_fields_to(&mut head.headers);
    head.headers.insert(CONTENT_LENGTH, body.len().into());
    // The status of a gRPC call is in a head that ends the stream.
    let has_body = session.req_header().method != http::Method::HEAD && !body.is_empty();
    let mut response = ResponseHeader::build(head.status, Some(head.headers.len()))?;
    append(&mut response, &head.headers)?;
    session.write_response_header(Box::new(response), !has_body).await?;
    if has_body {
        session.write_response_body(Some(body), true).await?;
    }
    Ok(())
}

fn append(response: &mut ResponseHeader, fields: &HeaderMap) -> Result<()> {
    for (name, value) in fields {
        response.append_header(name.clone(), value.clone())?;
    }
    Ok(())
}
