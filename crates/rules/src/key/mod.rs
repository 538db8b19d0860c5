//! Keys, by which a rule counts requests.

mod part;
mod value;

use std::fmt;
use std::net::IpAddr;

use crate::inline_vec::InlineVec;
use crate::request::RequestView;
pub(crate) use part::{FORMS, Form, NamedForm, Part, PartSettings};

/// The key by which a rule counts requests: `key` in a rules file. Each value of the key has its own bucket.
///
/// ```
/// use tollgate_rules::Rules;
///
/// let rules = Rules::parse("rules.toml", r#"
///     rule = [{ name = "a", key = ["ip", "header:X-Device"], ipv6_prefix = 56, limits = "5/s" }]
/// "#)?;
/// assert_eq!(rules.rules()[0].key().to_string(), "ip (IPv6 by /56) and header x-device");
/// # Ok::<(), tollgate_rules::RulesError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Empty: one bucket for all requests.
    pub(crate) parts: Vec<Part>,
}

/// The treatment of a request that lacks a part of a rule's key: `on_no_key` in a rules file.
///
/// A value of more than 8,192 bytes counts as missing, unless it is a path.
///
/// ```
/// use tollgate_rules::{OnNoKey, Rules};
///
/// let rules = Rules::parse("rules.toml", r#"
///     rule = [{ name = "a", key = "header:x-user", on_no_key = "deny", limits = "5/s" }]
/// "#)?;
/// assert_eq!(rules.rules()[0].on_no_key(), OnNoKey::Deny);
/// # Ok::<(), tollgate_rules::RulesError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnNoKey {
    /// All such requests share one bucket of the rule. This is the default: a client gains nothing
    /// by leaving a header out, and a missing header does not lock all clients out at once.
    #[default]
    Shared,
    /// The rule does not apply to the request.
    Skip,
    /// The rule denies the request.
    Deny,
}

/// The bytes of one or more keys, on the stack up to 256 bytes.
pub(crate) type KeyBytes = InlineVec<u8, 256>;

/// The first byte of a key that has all its parts.
const A_KEY: u8 = 1;
/// The whole key of requests that lack a part and share a bucket.
const NO_KEY: u8 = 0;

impl Key {
    /// Whether a part of it reads the path.
    pub(crate) fn has_path(&self) -> bool {
        self.parts.iter().any(|part| part.reads().path)
    }

    /// The setting of the rules file that differs between the two keys: `key` itself, or else a setting of one of its
    /// parts. `None` if both count the same.
    pub(crate) fn changed(&self, before: &Self) -> Option<&'static str> {
        if before.parts.len() != self.parts.len() {
            return Some("key");
        }
        let parts = before.parts.iter().zip(&self.parts);
        parts.filter_map(|(before, part)| part.changed(before)).min_by_key(|what| *what != "key")
    }

    /// Appends the key of a request. Returns `false` and appends nothing if a part is missing.
    pub(crate) fn write(&self, request: &impl RequestView, out: &mut KeyBytes) -> bool {
        let begin = out.as_slice().len();
        out.push(A_KEY);
        for part in &self.parts {
            match part.value(request) {
                Some(value) => value.write(out),
                None => {
                    out.truncate(begin);
                    return false;
                }
            }
        }
        true
    }

    /// Appends the key that requests without a key share.
    pub(crate) fn write_shared(out: &mut KeyBytes) {
        out.push(NO_KEY);
    }

    /// The parts of a request's key as text; `None` if one is missing. Two requests share a bucket if and
    /// only if all their values are equal. In a path, a header, a cookie or a parameter, `%` is written as `%25`, and
    /// a byte that is no UTF-8 as `%` and two digits.
    ///
    /// `address` formats the client's address, in which only the bits that count are set.
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
        request: &impl RequestView,
        address: impl Fn(IpAddr) -> String,
    ) -> Option<Vec<String>> {
        self.parts.iter().map(|part| Some(part.value(request)?.text(&address))).collect()
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((first, others)) = self.parts.split_first() else {
            return f.write_str("nothing: one bucket for all");
        };
        first.fmt(f)?;
        others.iter().try_for_each(|part| write!(f, " and {part}"))
    }
}

#[cfg(test)]
mod tests;
