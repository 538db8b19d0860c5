//! What rules ask of a request, one by one: for replays, which have to tell what a log cannot say.

use std::net::IpAddr;

use crate::request_view::RequestView;
use crate::host;
use crate::key::{Key, Part, masked};
use crate::path::{self, Fit, Reading};
use crate::rule::{Rule, Rules};

impl Rules {
    /// The headers that any rule asks for, by their names in lower case, each once. Cookies stand
    /// in `cookie`; the host is asked for by itself.
    ///
    /// ```
    /// use tollgate_rules::Rules;
    ///
    /// let rules = Rules::parse("rules.toml", r#"rule = [
    ///     { name = "a", key = ["header:X-User", "cookie:session"], limits = "5/s" },
    ///     { name = "b", match = { header = { x-plan = "free" } }, limits = "1/s" },
    /// ]"#)?;
    /// assert_eq!(rules.headers(), ["cookie", "x-plan", "x-user"]);
    /// # Ok::<(), tollgate_rules::RulesError>(())
    /// ```
    #[must_use]
    pub fn headers(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for rule in &self.rules {
            names.extend(rule.matcher.headers.iter().map(|(name, _)| name.as_str()));
            names.extend(rule.key.parts.iter().filter_map(|part| match part {
                Part::Header(name) => Some(name.as_str()),
                Part::Cookie(_) => Some("cookie"),
                _ => None,
            }));
        }
        names.sort_unstable();
        names.dedup();
        names
    }
}

impl Rule {
    /// Whether the rule is about this request: whether all that its `match` says holds, by any reading
    /// of the path. Once something does not, nothing further is asked.
    ///
    /// ```
    /// use tollgate_rules::{Request, Rules};
    ///
    /// let rules = Rules::parse("rules.toml", r#"
    ///     rule = [{ name = "a", match = { path = "/a/**" }, limits = "5/s" }]
    /// "#)?;
    /// let rule = &rules.rules()[0];
    /// assert!(rule.fits(&Request { path: "/a/b", ..Request::default() }));
    /// assert!(!rule.fits(&Request { path: "/b", ..Request::default() }));
    /// # Ok::<(), tollgate_rules::RulesError>(())
    /// ```
    pub fn fits(&self, facts: &impl RequestView) -> bool {
        self.matcher.fits_facts(facts) != Fit::None
    }

    /// Whether it matters to the rule which host a request asks for.
    ///
    /// A rule that matches by host, or counts by it, can be evaded where the upstream answers alike
    /// for any host: a client then chooses another name.
    ///
    /// ```
    /// # use tollgate_rules::Rules;
    /// let rules = Rules::parse("rules.toml", r#"rule = [
    ///     { name = "a", match = { host = "api.example.com" }, limits = "5/s" },
    ///     { name = "b", limits = "5/s" },
    /// ]"#)?;
    /// assert!(rules.rules()[0].asks_for_host() && !rules.rules()[1].asks_for_host());
    /// # Ok::<(), tollgate_rules::RulesError>(())
    /// ```
    #[must_use]
    pub fn asks_for_host(&self) -> bool {
        !self.matcher.hosts.is_empty() || self.key.parts.contains(&Part::Host)
    }
}

impl Key {
    /// The parts of a request's key as text; `None` where one is missing. Two requests have one
    /// bucket if all of it is the same.
    ///
    /// `address` writes the client's address, of which as much is left as counts.
    ///
    /// ```
    /// use tollgate_rules::{Request, Rules};
    ///
    /// let rules = Rules::parse("rules.toml", r#"
    ///     rule = [{ name = "a", key = ["ip", "path"], limits = "5/s" }]
    /// "#)?;
    /// let request = |path| Request { path, peer: "2001:db8::1".parse().ok(), ..Request::default() };
    /// let values = |path| rules.rules()[0].key().values(&request(path), |its| its.to_string());
    /// assert_eq!(values("//a/./b?c").unwrap(), ["2001:db8::", "/a/b"]);
    /// # Ok::<(), tollgate_rules::RulesError>(())
    /// ```
    pub fn values(
        &self,
        facts: &impl RequestView,
        address: impl Fn(IpAddr) -> String,
    ) -> Option<Vec<String>> {
        self.parts.iter().map(|part| part.value(facts, &address)).collect()
    }
}

impl Part {
    fn value(
        &self,
        facts: &impl RequestView,
        address: &impl Fn(IpAddr) -> String,
    ) -> Option<String> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match self {
            Self::Ip { ipv6_prefix } => Some(address(masked(facts.peer()?, *ipv6_prefix))),
            Self::Header(_) | Self::Cookie(_) => self.field(facts).map(text),
            Self::Path(spelling) => {
                let segments = Reading::of_keys(*spelling).of(facts.path());
                let decoded = |segment: &&str| {
                    let bytes: Vec<u8> =
                        path::decoded(segment).map(|byte| spelling.folded(byte)).collect();
                    format!("/{}", text(&bytes).replace('/', "%2F"))
                };
                let whole: String = segments.as_slice().iter().map(decoded).collect();
                Some(if whole.is_empty() { "/".to_owned() } else { whole })
            }
            Self::Method => Some(facts.method().to_owned()),
            Self::Host => {
                let host = facts.host().map(host::bare_host)?;
                let written = host::in_brackets(host).map(|address| format!("[{address}]"));
                (!host.is_empty()).then(|| written.unwrap_or_else(|| host.to_ascii_lowercase()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;
    use crate::request_view::Request;
    use crate::key::KeyBytes;
    use crate::path::Spelling;

    fn key() -> Key {
        let header = Part::Header("a".to_owned());
        let cookie = Part::Cookie("c".to_owned());
        Key {
            parts: vec![
                Part::Ip { ipv6_prefix: 64 },
                Part::Path(Spelling::default()),
                Part::Host,
                header,
                cookie,
            ],
        }
    }

    proptest! {
        /// Text and bytes are two ways to write the same key.
        #[test]
        fn keys_of_one_text_have_one_bucket(
            requests in prop::collection::vec(
                ("(::[12]|1:0:0:[12]::1|7\\.7\\.7\\.[12])", "[/abA.%2f?;]{0,5}", "(A|a|b:1|)",
                 "[xy]?", "(c=1|c=\"1\"|d=2|)"), 1..40),
        ) {
            let mut texts = HashMap::new();
            let mut buckets = HashMap::new();
            for (peer, path, host, header, cookie) in &requests {
                let headers = [("a", header.as_str()), ("cookie", cookie.as_str())];
                let (path, host) = (path.as_str(), Some(host.as_str()));
                let peer = peer.parse().ok();
                let facts = Request { peer, path, host, headers: &headers, ..Request::default() };
                let mut bytes = KeyBytes::new(0);
                let written = key().write(&facts, &mut bytes);
                let values = key().values(&facts, |its| its.to_string());
                prop_assert_eq!(written, values.is_some());
                let Some(values) = values else { continue };
                let bytes = bytes.as_slice().to_vec();
                prop_assert_eq!(texts.entry(values.clone()).or_insert(bytes.clone()), &bytes);
                prop_assert_eq!(buckets.entry(bytes).or_insert(values.clone()), &values);
            }
        }
    }
}
