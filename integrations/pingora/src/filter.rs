//! The filter: finds the client, decides, and answers denied requests.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::header::{CONTENT_LENGTH, RETRY_AFTER, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue, StatusCode};
use pingora_core::Result;
use pingora_core::protocols::http::ServerSession;
use pingora_http::ResponseHeader;
use pingora_proxy::Session;
use tokio::sync::Semaphore;
use tollgate_http::key::{ClientIp, Extractor, IpPrefix};
use tollgate_http::{Denial, Reason, Report, denial};
use tollgate_rules::{Held, LiveRules, RulesLimiter};

use crate::report::report;
use crate::request_head::{RequestHead, has_path, remove_named_by_connection};

/// How many requests may wait for their turn at a time (`algorithm = "leaky-queue"`).
const WAITING_MAX: usize = 1_024;

/// Decides each request by rules, and answers those that are denied.
///
/// All workers of a service share it by reference: a quota of 5 admits 5.
///
/// ```
/// use tollgate_pingora::RulesFilter;
/// use tollgate_pingora::tollgate_rules::{RulesLimiter, Rules};
///
/// let text = r#"rule = [{ name = "per-client", key = "ip", limits = "10/s burst 20" }]"#;
/// let filter = RulesFilter::new(RulesLimiter::new(Rules::parse("rules.toml", text)?)?);
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
    Fixed(Box<RulesLimiter>),
    Live(Arc<LiveRules>),
}

/// The fields of the response to an admitted request: `RateLimit-Policy` and `RateLimit`. By default there are none,
/// until [`RulesFilter::request_filter`] admits the request.
///
/// Keep it in the context of the request: for rules with `concurrency`, the request is in flight until it is
/// dropped, or until a response upgrades the connection (101).
#[derive(Debug, Default)]
pub struct ResponseFields {
    report: Report,
    held: Held,
}

/// Counts since the filter was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Requests that were admitted.
    pub admitted: u64,
    /// Requests that were denied, those whose target has no path included.
    pub denied: u64,
    /// Denials by rules in shadow, of requests that were admitted.
    pub shadow_denied: u64,
}

impl RulesFilter {
    /// A filter by fixed rules.
    #[must_use]
    pub fn new(gate: RulesLimiter) -> Self {
        Self::of(Source::Fixed(Box::new(gate)))
    }

    /// A filter by the rules of a file, which a [`RulesFile`](tollgate_rules::RulesFile) keeps up to date.
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

    /// Determines the client behind trusted proxies. By default, the client is the peer. The rules say how
    /// many bits of an IPv6 address count. A request whose client is unknown has no address (`on_no_key`).
    ///
    /// ```
    /// # use tollgate_rules::{RulesLimiter, Rules};
    /// use tollgate_http::key::{ClientIp, Trust};
    /// # let text = r#"rule = [{ name = "a", limits = "10/s" }]"#;
    /// # let gate = RulesLimiter::new(Rules::parse("rules.toml", text)?)?;
    /// let trust = Trust::networks(["10.0.0.0/8"])?;
    /// let filter = tollgate_pingora::RulesFilter::new(gate).behind(ClientIp::x_forwarded_for(trust));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn behind(self, client: ClientIp) -> Self {
        Self { client: Some(client.prefix(IpPrefix::new(32, 128))), ..self }
    }

    /// Decides the request of a session, and answers it if it is denied. The result is what
    /// [`ProxyHttp::request_filter`](pingora_proxy::ProxyHttp::request_filter) returns: `true` for a request that is
    /// answered. For one that is admitted, `fields` gets what its response says.
    ///
    /// [`denial::by_protocol`] answers a denied request: with 429 and a
    /// body of `application/problem+json`, or `RESOURCE_EXHAUSTED` for a gRPC call; with 403, or
    /// `PERMISSION_DENIED`, if a rule has `action = "deny"`. `Retry-After` and the
    /// `RateLimit` fields are added.
    ///
    /// A request whose turn comes later waits for it here, unless 1,024 requests already wait: it then gets 503. If 128
    /// requests of its key already wait, it gets 429. In both cases it is charged nothing.
    ///
    /// The headers that `Connection` names are removed from the request first, as Pingora removes them on the way to
    /// the upstream: otherwise a rule would read a header that the upstream does not get.
    ///
    /// A target without a path, as in `GET login`, is answered with 400, whatever the rules say. Pingora would send it to
    /// the upstream, which may read a path in it that rules do not see.
    ///
    /// # Errors
    ///
    /// The response could not be sent.
    pub async fn request_filter(
        &self,
        session: &mut Session,
        fields: &mut ResponseFields,
    ) -> Result<bool> {
        if !has_path(session.req_header()) {
            self.denied.fetch_add(1, Ordering::Relaxed);
            session.respond_error(StatusCode::BAD_REQUEST.as_u16()).await?;
            return Ok(true);
        }
        let (client, has_open_body) = (self.client(session), has_open_body(session));
        remove_named_by_connection(session.req_header_mut());
        let request = RequestHead::new(session.req_header(), client).open_body(has_open_body);
        let (report, reason) = match self.admit(&request).await {
            Ok(admitted) => {
                *fields = admitted;
                return Ok(false);
            }
            Err(denied) => denied,
        };
        deny(session, &report, reason).await?;
        Ok(true)
    }

    /// Decides a request, and waits for its turn.
    async fn admit(&self, request: &RequestHead<'_>) -> Result<ResponseFields, (Report, Reason)> {
        let may_wait = self.waiting.available_permits() > 0;
        let (report, reason, shadow_denied, held) = self.decide(request, may_wait);
        if let Some(reason) = reason {
            self.denied.fetch_add(1, Ordering::Relaxed);
            held.refund();
            return Err((report, reason));
        }
        self.wait(&report).await;
        self.shadow_denied.fetch_add(shadow_denied, Ordering::Relaxed);
        self.admitted.fetch_add(1, Ordering::Relaxed);
        Ok(ResponseFields { report, held })
    }

    /// The names of the rules with `bytes`, which this filter does not enforce: it does not see the bodies of
    /// responses. Log them when the server starts. Rules may change afterwards.
    ///
    /// ```
    /// # use tollgate_rules::{RulesLimiter, Rules};
    /// let text = r#"rule = [{ name = "slow", bytes = "1MB/s" }, { name = "a", limits = "1/s" }]"#;
    /// let gate = RulesLimiter::new(Rules::parse("rules.toml", text)?)?;
    /// assert_eq!(tollgate_pingora::RulesFilter::new(gate).not_enforced(), ["slow"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn not_enforced(&self) -> Vec<String> {
        let names = |gate: &RulesLimiter| {
            let rules = gate.rules().filter(|rule| rule.bytes().is_some());
            rules.map(|rule| rule.name().to_owned()).collect()
        };
        match &self.rules {
            Source::Fixed(gate) => names(gate),
            Source::Live(live) => names(&live.load()),
        }
    }

    /// The counts so far, read without a lock.
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

    /// The report, the reason if the request is denied, the number of denials in shadow, and what the request
    /// holds.
    fn decide(
        &self,
        request: &RequestHead<'_>,
        may_wait: bool,
    ) -> (Report, Option<Reason>, u64, Held) {
        let read = |gate: &RulesLimiter| {
            let max_waiting = if may_wait { RulesLimiter::MAX_WAITING_PER_KEY } else { 0 };
            let mut decision = gate.decide_queued(request, max_waiting);
            let (report, reason) = report(&decision, may_wait);
            (report, reason, decision.shadow_denials().len() as u64, decision.take_held())
        };
        match &self.rules {
            Source::Fixed(gate) => read(gate),
            Source::Live(live) => read(&live.load()),
        }
    }

    async fn wait(&self, report: &Report) {
        let delay = report.readings().map(|reading| reading.delay).max().unwrap_or(Duration::ZERO);
        if !delay.is_zero() {
            // There was a place when the request was decided. Those decided at once may be too many by a few.
            let _place = self.waiting.try_acquire();
            tokio::time::sleep(delay).await;
        }
    }
}

impl ResponseFields {
    /// Adds the fields to a response. There are none if no rule applied, and an interim response (1xx) gets none.
    /// Costs that a header of the response settles are settled by it; a cost by the bytes of the body stays charged
    /// by its estimate.
    ///
    /// # Errors
    ///
    /// None are known: the fields are well formed.
    pub fn add_to(&mut self, response: &mut ResponseHeader) -> Result<()> {
        if response.status.is_informational() && response.status != StatusCode::SWITCHING_PROTOCOLS
        {
            return Ok(());
        }
        self.held.answered(|name| response.headers.get(name).map(HeaderValue::as_bytes));
        if response.status == StatusCode::SWITCHING_PROTOCOLS {
            // Pingora keeps the context of the request until the tunnel ends.
            drop(std::mem::take(&mut self.held));
        }
        let mut fields = HeaderMap::new();
        if let Some(retry_after) = response.headers.get(RETRY_AFTER) {
            fields.insert(RETRY_AFTER, retry_after.clone());
        }
        self.report.add_fields_to(&mut fields);
        fields.remove(RETRY_AFTER);
        append(response, &fields)
    }
}

/// Whether a body of unknown length may follow. In HTTP/1, `Transfer-Encoding` announces it.
fn has_open_body(session: &mut Session) -> bool {
    let has_coding = session.req_header().headers.contains_key(TRANSFER_ENCODING);
    match session.as_downstream_mut() {
        ServerSession::H1(_) | ServerSession::Subrequest(_) => has_coding,
        ServerSession::H2(stream) => !stream.is_body_empty(),
        ServerSession::Custom(stream) => !stream.is_body_empty(),
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
    // The response to a gRPC call is a head that ends the stream.
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

#[cfg(test)]
mod tests {
    use http::Method;
    use tollgate_rules::Rules;

    use super::*;

    fn filter(rules: &str) -> RulesFilter {
        let rules = Rules::parse("rules.toml", rules).expect("rules");
        RulesFilter::new(RulesLimiter::new(rules).expect("memory"))
    }

    fn request() -> pingora_http::RequestHeader {
        pingora_http::RequestHeader::build(Method::GET, b"/", None).expect("a request")
    }

    /// Polls once. A request that waits for its turn is pending.
    async fn ask_once(filter: &RulesFilter) -> Option<Result<ResponseFields, (Report, Reason)>> {
        let header = request();
        let head = RequestHead::new(&header, None);
        tokio::time::timeout(Duration::ZERO, filter.admit(&head)).await.ok()
    }

    #[tokio::test]
    async fn a_request_that_finds_too_many_waiting_is_told_when_to_return_and_charged_nothing() {
        let filter = filter(
            r#"
            apply = "all"
            rule = [
                { name = "costs", key = "none", limits = "150/day",
                  cost = { response_header = "x-tokens", estimate = 60 } },
                { name = "queue", key = "none", algorithm = "leaky-queue", limits = "2/min burst 9" },
            ]"#,
        );
        let waiting = filter.waiting.acquire_many(1_024).await.expect("open");
        assert!(matches!(ask_once(&filter).await, Some(Ok(_))), "its turn is at once");
        let Some(Err((report, reason))) = ask_once(&filter).await else { panic!("a queue") };
        assert_eq!(reason, Reason::QueueFull);
        let header = request();
        let denial = Denial::new(&header, &report, reason);
        assert_eq!(denial.retry_after_secs(), Some(30));
        drop(waiting);
        assert!(ask_once(&filter).await.is_none(), "90 of 150 are left, and its turn is in 30 s");
    }

    #[tokio::test]
    async fn a_key_takes_128_of_the_waiting_places_and_no_more() {
        let filter = filter(
            r#"rule = [{ name = "queue", key = "none", algorithm = "leaky-queue",
                         limits = "2/min burst 500" }]"#,
        );
        assert!(matches!(ask_once(&filter).await, Some(Ok(_))), "its turn is at once");
        for nth in 0..128 {
            assert!(ask_once(&filter).await.is_none(), "{nth}");
        }
        let Some(Err((_, reason))) = ask_once(&filter).await else { panic!("one more waits") };
        assert_eq!(reason, Reason::OverLimit);
    }

    #[test]
    fn an_upgraded_connection_is_in_flight_no_more_while_its_context_is_kept() {
        let filter = filter(r#"rule = [{ name = "a", key = "none", concurrency = 1 }]"#);
        let header = request();
        let decide = || filter.decide(&RequestHead::new(&header, None), true);
        let (report, reason, _, held) = decide();
        assert_eq!(reason, None);
        let mut fields = ResponseFields { report, held };
        for (status, reason) in [(103, Some(Reason::OverLimit)), (101, None)] {
            let mut response = ResponseHeader::build(status, None).expect("a response");
            fields.add_to(&mut response).expect("well formed");
            assert_eq!(decide().1, reason, "after {status}");
        }
    }

    #[test]
    fn a_cost_is_settled_by_the_final_response() {
        let filter = filter(
            r#"rule = [{ name = "a", key = "none", limits = "100/day",
                         cost = { response_header = "x-tokens", estimate = 60 } }]"#,
        );
        let header = request();
        let (report, reason, _, held) = filter.decide(&RequestHead::new(&header, None), true);
        assert_eq!(reason, None);
        let mut fields = ResponseFields { report, held };
        let respond = |status: u16, tokens: &str, fields: &mut ResponseFields| {
            let mut response = ResponseHeader::build(status, None).expect("a response");
            response.append_header("x-tokens", tokens.to_owned()).expect("a header");
            fields.add_to(&mut response).expect("well formed");
            response.headers.contains_key("ratelimit")
        };
        assert!(!respond(103, "1", &mut fields), "hints have no fields");
        assert!(respond(200, "15", &mut fields));
        let (report, ..) = filter.decide(&RequestHead::new(&header, None), true);
        let left: Vec<_> = report.readings().map(|reading| reading.remaining).collect();
        assert_eq!(left, [25], "100 less 15 and the estimate of this one");
    }
}
