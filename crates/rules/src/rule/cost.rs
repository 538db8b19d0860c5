//! The cost of a request by a rule: `cost` in a rules file.

use std::fmt;

use super::Rule;
use crate::request::{RequestView, header_values};

/// The cost of a request: its estimate, and how the response settles it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RuleCost {
    pub(crate) estimate: Estimate,
    pub(crate) settle: Option<SettleBy>,
}

/// The cost that a request is charged on arrival, before there is a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Estimate {
    Fixed(u64),
    /// The number in a header of the request, by its name in lower case.
    Header {
        name: String,
        max: u64,
        default: u64,
    },
    /// The length of the request's body in bytes.
    Length {
        max: u64,
        default: u64,
    },
}

/// The part of the response that the final cost comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SettleBy {
    /// The number in a header of the response, by its name in lower case.
    Header { name: String, max: u64 },
    /// The bytes of the response's body that were sent.
    Bytes { max: u64 },
}

const CONTENT_LENGTH: &str = "content-length";
const TRANSFER_ENCODING: &str = "transfer-encoding";

impl Estimate {
    /// The cost of a request: at least 1.
    fn of(&self, request: &impl RequestView) -> u64 {
        match self {
            Self::Fixed(cells) => *cells,
            Self::Header { name, max, default } => largest(request, name, *max, *default),
            Self::Length { max, default } => match request.header_values(CONTENT_LENGTH).next() {
                Some(_) => largest(request, CONTENT_LENGTH, *max, *default),
                None if has_no_body(request) => 1,
                None => *default,
            },
        }
    }

    /// The largest cost.
    fn max(&self) -> u64 {
        match self {
            Self::Fixed(cells) => *cells,
            Self::Header { max, .. } | Self::Length { max, .. } => *max,
        }
    }

    /// The smallest cost.
    fn min(&self) -> u64 {
        match self {
            Self::Fixed(cells) => *cells,
            Self::Header { .. } | Self::Length { .. } => 1,
        }
    }

    /// The headers that it reads, in lower case.
    pub(crate) fn header_names(&self) -> impl Iterator<Item = &str> {
        let names = match self {
            Self::Fixed(_) => [None, None],
            Self::Header { name, .. } => [Some(&**name), None],
            Self::Length { .. } => [Some(CONTENT_LENGTH), Some(TRANSFER_ENCODING)],
        };
        names.into_iter().flatten()
    }
}

/// The largest of the values of a header. A client that repeats the header with a smaller value gains nothing by it.
/// A value that is no number counts as `default`.
fn largest(request: &impl RequestView, name: &str, max: u64, default: u64) -> u64 {
    let cells = header_values(request, name);
    let cells = cells.map(|value| number(value).map_or(default, |cells| cells.clamp(1, max)));
    cells.max().unwrap_or(default)
}

/// Whether a request without a `Content-Length` has no body: by the server, or else as far as its head tells.
fn has_no_body(request: &impl RequestView) -> bool {
    if let Some(is_open) = request.has_open_body() {
        return !is_open;
    }
    matches!(request.method(), "GET" | "HEAD" | "OPTIONS" | "DELETE" | "TRACE")
        && request.header_values(TRANSFER_ENCODING).next().is_none()
}

/// A number in decimal digits; `u64::MAX` if it is larger than that.
fn number(value: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(value.trim_ascii()).ok()?;
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(u64::MAX))
}

impl SettleBy {
    /// The final cost by the head of a response; `None` if the cost is not settled by a header, or the header holds
    /// no number.
    pub(crate) fn by_header<'h>(&self, header: impl Fn(&str) -> Option<&'h [u8]>) -> Option<u64> {
        match self {
            Self::Header { name, max } => Some(number(header(name)?)?.min(*max)),
            Self::Bytes { .. } => None,
        }
    }

    /// The final cost by the bytes of the body; `None` if the cost is not settled by bytes.
    pub(crate) fn by_bytes(&self, bytes: u64) -> Option<u64> {
        match self {
            Self::Header { .. } => None,
            Self::Bytes { max } => Some(bytes.min(*max)),
        }
    }
}

impl Rule {
    /// How many cells a request costs if the rule applies, before a response settles the cost: 1 unless the rule
    /// has a `cost`.
    ///
    /// ```
    /// use tollgate_rules::{Request, Rules};
    ///
    /// let rules = Rules::parse("rules.toml", r#"rule = [
    ///     { name = "a", cost = { header = "x-cost", max = 50 }, limits = "100/s" },
    /// ]"#)?;
    /// let cost = |value| {
    ///     let request = Request { headers: &[("x-cost", value)], ..Request::default() };
    ///     rules.rules()[0].cost_of(&request)
    /// };
    /// assert_eq!(["7", "1000", "0", "-1", "many"].map(cost), [7, 50, 1, 1, 1]);
    /// # Ok::<(), tollgate_rules::RulesError>(())
    /// ```
    pub fn cost_of(&self, request: &impl RequestView) -> u64 {
        self.cost.as_ref().map_or(1, |cost| cost.estimate.of(request))
    }

    /// The most cells that a request may cost before a response settles the cost: 1 unless the rule has a `cost`.
    ///
    /// ```
    /// use tollgate_rules::Rules;
    ///
    /// let rules = Rules::parse("rules.toml", r#"rule = [
    ///     { name = "a", cost = { header = "x-cost", max = 50 }, limits = "100/s" },
    ///     { name = "b", limits = "100/s" },
    /// ]"#)?;
    /// assert_eq!(rules.rules()[0].cost_max(), 50);
    /// assert_eq!(rules.rules()[1].cost_max(), 1);
    /// # Ok::<(), tollgate_rules::RulesError>(())
    /// ```
    #[must_use]
    pub fn cost_max(&self) -> u64 {
        self.cost.as_ref().map_or(1, |cost| cost.estimate.max())
    }

    /// The fewest cells that a request costs before a response settles the cost.
    pub(crate) fn cost_min(&self) -> u64 {
        self.cost.as_ref().map_or(1, |cost| cost.estimate.min())
    }

    /// Whether a response settles what a request costs: `cost` by a header or the bytes of the response.
    #[must_use]
    pub fn is_settled_by_response(&self) -> bool {
        self.cost.as_ref().is_some_and(|cost| cost.settle.is_some())
    }

    /// Whether the cells of the rule's limits are bytes of bodies: `cost` by the bytes of the request or the response.
    ///
    /// ```
    /// use tollgate_rules::Rules;
    ///
    /// let rules = Rules::parse("rules.toml", r#"rule = [
    ///     { name = "up", cost = { bytes = "request", max = 1000 }, limits = "1000/s" },
    ///     { name = "down", cost = { bytes = "response", estimate = 100 }, limits = "1000/s" },
    ///     { name = "tokens", cost = { response_header = "x-tokens", estimate = 100 }, limits = "1000/s" },
    ///     { name = "requests", limits = "5/s", bytes = "1MB/s" },
    /// ]"#)?;
    /// let counts_bytes: Vec<bool> = rules.rules().iter().map(|rule| rule.counts_bytes()).collect();
    /// assert_eq!(counts_bytes, [true, true, false, false]);
    /// # Ok::<(), tollgate_rules::RulesError>(())
    /// ```
    #[must_use]
    pub fn counts_bytes(&self) -> bool {
        self.cost.as_ref().is_some_and(|cost| {
            matches!(cost.estimate, Estimate::Length { .. })
                || matches!(cost.settle, Some(SettleBy::Bytes { .. }))
        })
    }

    /// Whether the response to this request settles its cost. A response to `HEAD` or `CONNECT` has no body to count.
    pub(crate) fn settles(&self, request: &impl RequestView) -> bool {
        match self.cost.as_ref().and_then(|cost| cost.settle.as_ref()) {
            None => false,
            Some(SettleBy::Header { .. }) => true,
            Some(SettleBy::Bytes { .. }) => !matches!(request.method(), "HEAD" | "CONNECT"),
        }
    }
}

impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(cells) => write!(f, "{cells}"),
            Self::Header { name, max, default } => {
                write!(f, "header {name}, 1 to {max}; {default} without a number in it")
            }
            Self::Length { max, default } => {
                write!(f, "bytes of the request's body, 1 to {max}; {default} of unknown length")
            }
        }
    }
}

impl fmt::Display for RuleCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.estimate.fmt(f)?;
        match &self.settle {
            None => Ok(()),
            Some(SettleBy::Header { name, max }) => {
                write!(f, "; settled by the response's header {name}, at most {max}")
            }
            Some(SettleBy::Bytes { max }) => {
                write!(f, "; settled by the bytes of the response's body, at most {max}")
            }
        }
    }
}
