//! Requests to upgrade a connection to another protocol (RFC 9110, 7.8).

use std::sync::Arc;

use http::header::{CONNECTION, HeaderMap, HeaderValue, UPGRADE};
use http::{Request, Version};
use hyper::upgrade::OnUpgrade;

use crate::connection::open::OpenConnection;
use crate::connection::usage::Usage;
use crate::metrics::Failure;
use crate::request::headers::words;

/// Protocols that would carry requests past the rules.
const REJECTED: [&[u8]; 4] = [b"h2", b"h2c", b"http", b"tls"];

/// The requested protocols, and the client's end of the connection.
#[derive(Debug)]
pub(super) struct UpgradeRequest {
    pub(super) protocols: HeaderValue,
    pub(crate) client: OnUpgrade,
    pub(crate) open: Arc<OpenConnection>,
    pub(crate) usage: Arc<Usage>,
}

impl UpgradeRequest {
    /// `None` if the request asks for no upgrade that can be forwarded.
    pub(super) fn of<B>(request: &mut Request<B>) -> Option<Self> {
        if request.version() != Version::HTTP_11 {
            return None;
        }
        let protocols = protocols(request.headers())?;
        let extensions = request.extensions_mut();
        let (open, usage) = (extensions.remove()?, extensions.remove()?);
        Some(Self { protocols, client: hyper::upgrade::on(request), open, usage })
    }

    /// The protocol that the upstream chose, if the client asked for it.
    pub(super) fn chosen(&self, answer: &HeaderMap) -> Option<HeaderValue> {
        let mut asked = HeaderMap::new();
        asked.insert(UPGRADE, self.protocols.clone());
        let is_asked =
            |word: &[u8]| words(&asked, UPGRADE).any(|its| its.eq_ignore_ascii_case(word));
        let is_fit = words(answer, UPGRADE).all(is_asked);
        answer.get(UPGRADE).filter(|_| is_fit).cloned()
    }
}

/// The protocols that a response with 426 requires, if the client can ask for them; `None` if it names none.
///
/// A 426 has to name a protocol (RFC 9110, 15.5.22). The proxy leaves out those that it would not forward an upgrade
/// to. If none remains, the response counts as an error of the upstream.
pub(super) fn required(
    answer: &HeaderMap,
    can_upgrade: bool,
) -> Result<Option<HeaderValue>, Failure> {
    if !answer.contains_key(UPGRADE) {
        return Ok(None);
    }
    let fit = words(answer, UPGRADE).filter(|word| can_upgrade && !is_rejected(word)).collect();
    joined(fit).map(Some).ok_or(Failure::UpgradeRequired)
}

fn protocols(headers: &HeaderMap) -> Option<HeaderValue> {
    if !words(headers, CONNECTION).any(|word| word.eq_ignore_ascii_case(b"upgrade")) {
        return None;
    }
    let asked: Vec<&[u8]> = words(headers, UPGRADE).collect();
    if asked.iter().any(|word| is_rejected(word)) {
        return None;
    }
    joined(asked)
}

/// A list of these protocols; `None` if there are none.
fn joined(protocols: Vec<&[u8]>) -> Option<HeaderValue> {
    let list = HeaderValue::from_bytes(&protocols.join(&b", "[..])).ok()?;
    (!protocols.is_empty()).then_some(list)
}

fn is_rejected(protocol: &[u8]) -> bool {
    let name = protocol.split(|byte| *byte == b'/').next().unwrap_or_default().trim_ascii();
    REJECTED.iter().any(|rejected| rejected.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed_on(connection: &'static str, upgrade: &[&'static str]) -> Option<String> {
        let mut headers = HeaderMap::new();
        headers.insert(CONNECTION, HeaderValue::from_static(connection));
        for value in upgrade {
            headers.append(UPGRADE, HeaderValue::from_static(value));
        }
        protocols(&headers).map(|value| value.to_str().expect("ASCII").to_owned())
    }

    #[test]
    fn only_upgrades_that_carry_no_http_requests_are_forwarded() {
        let [web_socket, both] =
            ["websocket", "websocket, foo/2"].map(|text| Some(text.to_owned()));
        assert_eq!(passed_on("keep-alive, Upgrade", &["websocket"]), web_socket);
        assert_eq!(passed_on("upgrade", &["websocket,", "foo/2"]), both);
        assert_eq!(passed_on("close", &["websocket"]), None);
        for rejected in ["h2c", "H2C", "HTTP/2.0", "TLS/1.0", "websocket, h2c", "h2c /1", "", ","] {
            assert_eq!(passed_on("upgrade", &[rejected]), None, "{rejected}");
        }
        assert_eq!(passed_on("upgrade", &["websocket", "h2c"]), None);
    }

    #[test]
    fn a_client_receives_the_required_protocols_that_it_can_have() {
        let told = |upgrade: &[&'static str], can_upgrade| {
            let mut headers = HeaderMap::new();
            for value in upgrade {
                headers.append(UPGRADE, HeaderValue::from_static(value));
            }
            required(&headers, can_upgrade)
                .map(|list| list.map(|list| list.to_str().expect("ASCII").to_owned()))
        };
        let list = |text: &str| Ok(Some(text.to_owned()));
        assert_eq!(told(&["websocket"], true), list("websocket"));
        assert_eq!(told(&["h2c, websocket", "foo/2"], true), list("websocket, foo/2"));
        assert_eq!(told(&["websocket"], false), Err(Failure::UpgradeRequired));
        for rejected in ["h2c", "TLS/1.0, HTTP/1.1", ""] {
            assert_eq!(told(&[rejected], true), Err(Failure::UpgradeRequired), "{rejected}");
        }
        assert_eq!([true, false].map(|can_upgrade| told(&[], can_upgrade)), [Ok(None), Ok(None)]);
    }
}
