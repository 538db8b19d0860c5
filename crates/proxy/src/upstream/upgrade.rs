//! Requests to upgrade a connection to another protocol (RFC 9110, 7.8).

use std::sync::Arc;

use http::header::{CONNECTION, HeaderMap, HeaderValue, UPGRADE};
use http::{Request, Version};
use hyper::upgrade::OnUpgrade;

use crate::connection::open::OpenConnection;
use crate::request::headers::words;

/// Protocols that would carry requests past the rules.
const REJECTED: [&[u8]; 4] = [b"h2", b"h2c", b"http", b"tls"];

/// The requested protocols, and the client's end of the connection.
#[derive(Debug)]
pub(super) struct UpgradeRequest {
    pub(super) protocols: HeaderValue,
    pub(crate) client: OnUpgrade,
    pub(crate) open: Arc<OpenConnection>,
}

impl UpgradeRequest {
    /// `None` if the request asks for no upgrade that can be forwarded.
    pub(super) fn of<B>(request: &mut Request<B>) -> Option<Self> {
        if request.version() != Version::HTTP_11 {
            return None;
        }
        let protocols = protocols(request.headers())?;
        let open = request.extensions_mut().remove()?;
        Some(Self { protocols, client: hyper::upgrade::on(request), open })
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

fn protocols(headers: &HeaderMap) -> Option<HeaderValue> {
    if !words(headers, CONNECTION).any(|word| word.eq_ignore_ascii_case(b"upgrade")) {
        return None;
    }
    let asked: Vec<&[u8]> = words(headers, UPGRADE).collect();
    if asked.is_empty() || asked.iter().any(|word| is_rejected(word)) {
        return None;
    }
    HeaderValue::from_bytes(&asked.join(&b", "[..])).ok()
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
}
