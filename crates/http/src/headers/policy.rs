//! The name and quota of a limit: an item of the `RateLimit-Policy` field.

use core::fmt::{self, Write};
use core::time::Duration;
use std::sync::Arc;

use http::HeaderValue;
use tollgate::Quota;

use super::INTEGER_MAX;

/// The longest name of a policy, in bytes.
const NAME_BYTES_MAX: usize = 64;

/// The quota unit of requests in flight.
const IN_FLIGHT: &str = "concurrent-requests";

/// The name and quota of a limit, as responses show them: an item of the `RateLimit-Policy` field.
///
/// `q` is the quota's [limit](Quota::limit) and `w` its period in seconds. The field can express only
/// whole seconds and numbers of at most 15 digits. Any other period is left out, and a larger limit is
/// written as the largest number. Clones share their text.
///
/// **Not guaranteed.** The field has no parameter for a burst. If the burst is larger than the limit,
/// the `r` of the `RateLimit` field may be larger than `q`.
///
/// ```
/// use tollgate::Quota;
/// use tollgate_http::Policy;
///
/// let policy = Policy::new("burst", &Quota::per_minute(100))?;
/// assert_eq!(policy.to_string(), r#""burst";q=100;w=60"#);
/// assert_eq!(Policy::new("", &Quota::per_minute(100)).unwrap_err().to_string(),
///     "a policy's name has 1 to 64 printable ASCII characters");
/// # Ok::<(), tollgate_http::PolicyError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy(Arc<Texts>);

#[derive(Debug, PartialEq, Eq)]
struct Texts {
    name: Box<str>,
    /// The name as a structured-field string, which JSON reads alike.
    quoted: Box<str>,
    item: HeaderValue,
    quota: Quota,
    unit: Option<&'static str>,
}

impl Policy {
    /// A policy in requests.
    ///
    /// # Errors
    ///
    /// The name is empty, longer than 64 bytes, or has other than printable ASCII characters.
    ///
    /// ```
    /// # use {tollgate::Quota, tollgate_http::Policy};
    /// assert!(Policy::new("per client", &Quota::per_second(5)).is_ok());
    /// assert!(Policy::new("naïve", &Quota::per_second(5)).is_err());
    /// ```
    pub fn new(name: &str, quota: &Quota) -> Result<Self, PolicyError> {
        Self::with_unit(name, quota, None)
    }

    /// A policy in bytes of content (`qu="content-bytes"`).
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    ///
    /// ```
    /// # use {tollgate::Quota, tollgate_http::Policy};
    /// let policy = Policy::of_bytes("volume", &Quota::per_hour(1_000_000))?;
    /// assert_eq!(policy.to_string(), r#""volume";q=1000000;qu="content-bytes";w=3600"#);
    /// # Ok::<(), tollgate_http::PolicyError>(())
    /// ```
    pub fn of_bytes(name: &str, quota: &Quota) -> Result<Self, PolicyError> {
        Self::with_unit(name, quota, Some("content-bytes"))
    }

    /// A policy of requests in flight (`qu="concurrent-requests"`), which has no period.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    ///
    /// ```
    /// # use tollgate_http::Policy;
    /// let policy = Policy::of_requests_in_flight("at once", 10)?;
    /// assert_eq!(policy.to_string(), r#""at once";q=10;qu="concurrent-requests""#);
    /// # Ok::<(), tollgate_http::PolicyError>(())
    /// ```
    pub fn of_requests_in_flight(name: &str, limit: u64) -> Result<Self, PolicyError> {
        Self::with_unit(name, &Quota::new(limit, Duration::ZERO), Some(IN_FLIGHT))
    }

    /// Whether the time until cells come back is known.
    pub(crate) fn has_time(&self) -> bool {
        self.0.unit != Some(IN_FLIGHT)
    }

    /// The same name and unit with another quota.
    pub(crate) fn with_quota(&self, quota: &Quota) -> Self {
        Self::with_unit(self.name(), quota, self.0.unit).expect("its name has been checked")
    }

    fn with_unit(
        name: &str,
        quota: &Quota,
        unit: Option<&'static str>,
    ) -> Result<Self, PolicyError> {
        let printable = name.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        if name.is_empty() || name.len() > NAME_BYTES_MAX || !printable {
            return Err(PolicyError);
        }
        let quoted = format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""));
        let mut item = format!("{quoted};q={}", quota.limit().min(INTEGER_MAX));
        if let Some(unit) = unit {
            let _ = write!(item, ";qu=\"{unit}\"");
        }
        if let Some(secs) = window_secs(quota) {
            let _ = write!(item, ";w={secs}");
        }
        let item = HeaderValue::try_from(item).expect("printable ASCII");
        let (name, quoted) = (name.into(), quoted.into());
        Ok(Self(Arc::new(Texts { name, quoted, item, quota: *quota, unit })))
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The quota's limit.
    pub(crate) fn limit(&self) -> u64 {
        self.0.quota.limit()
    }

    /// The quota's burst.
    pub(crate) fn burst(&self) -> u64 {
        self.0.quota.burst_cells()
    }

    /// The quota's period in seconds, if a field can express it.
    pub(crate) fn window_secs(&self) -> Option<u64> {
        window_secs(&self.0.quota)
    }

    /// The time in which the quota restores `cells`, rounded up to a nanosecond.
    pub(crate) fn time_of(&self, cells: u64) -> Duration {
        let nanos = self.0.quota.period().as_nanos().saturating_mul(cells.into());
        let nanos = nanos.div_ceil(self.0.quota.limit().max(1).into());
        u64::try_from(nanos).map_or(Duration::MAX, Duration::from_nanos)
    }

    /// The name in quotes, for structured fields and JSON.
    pub(crate) fn quoted(&self) -> &str {
        &self.0.quoted
    }

    /// The whole item.
    pub(crate) fn item(&self) -> &HeaderValue {
        &self.0.item
    }
}

fn window_secs(quota: &Quota) -> Option<u64> {
    let period = quota.period();
    let is_whole = period.subsec_nanos() == 0 && (1..=INTEGER_MAX).contains(&period.as_secs());
    is_whole.then_some(period.as_secs())
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.item().to_str().unwrap_or_default())
    }
}

/// A name that does not fit the `RateLimit` fields.
///
/// ```
/// # use {tollgate::Quota, tollgate_http::{Policy, PolicyError}};
/// assert_eq!(Policy::new("line\nbreak", &Quota::per_second(5)), Err(PolicyError));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolicyError;

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a policy's name has 1 to {NAME_BYTES_MAX} printable ASCII characters")
    }
}

impl core::error::Error for PolicyError {}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    #[test]
    fn a_name_is_escaped_and_an_odd_period_left_out() {
        let policy = Policy::new(r#"a "b" \c"#, &Quota::new(3, Duration::from_millis(1_500)));
        let policy = policy.expect("printable");
        assert_eq!(policy.to_string(), r#""a \"b\" \\c";q=3"#);
        assert_eq!(policy.name(), r#"a "b" \c"#);
    }

    #[test]
    fn a_period_that_the_field_cannot_express_is_left_out() {
        let item = |limit, period| {
            Policy::new("a", &Quota::new(limit, period)).expect("a name").to_string()
        };
        assert_eq!(item(5, Duration::ZERO), "\"a\";q=5");
        assert_eq!(item(5, Duration::from_secs(u64::MAX)), "\"a\";q=5");
        assert_eq!(item(u64::MAX, Duration::from_secs(1)), "\"a\";q=999999999999999;w=1");
        let longest = Duration::from_secs(INTEGER_MAX);
        assert_eq!(item(5, longest), "\"a\";q=5;w=999999999999999");
    }
}
