//! Conditions of a request, all of which must hold.

use std::fmt;

use super::listed;
use super::network::Networks;
use super::parts::{Parts, SplitPath};
use super::pattern::Pattern;
use crate::error::printable;
use crate::request::RequestView;
use crate::request::named::Named;

/// Conditions of a request. All of them must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Conditions {
    /// One of these; empty: any method. `GET` includes `HEAD`.
    pub(crate) methods: Vec<String>,
    /// The client is in one of these; empty: any client.
    pub(crate) networks: Networks,
    /// One of these; empty: any path.
    pub(crate) paths: Vec<Pattern>,
    /// One of these; empty: any host.
    pub(crate) hosts: Vec<Pattern>,
    /// All of these.
    pub(crate) values: Vec<ValueCondition>,
}

/// How a server reads the method. Some write it in upper case before they look at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MethodReading {
    AsSent,
    InUpperCase,
}

/// A condition on the values of a name: of a header, a cookie or a parameter of the query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ValueCondition {
    pub(crate) of: Named,
    pub(crate) test: ValueTest,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ValueTest {
    /// One of the values is this.
    Is(String),
    Present,
    Absent,
}

impl Conditions {
    /// Whether there is no condition, so that every request fits.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(crate) fn uses_path(&self) -> bool {
        !self.paths.is_empty()
    }

    pub(crate) fn uses_method(&self) -> bool {
        !self.methods.is_empty()
    }

    /// Whether all conditions but those of the path hold, by this reading of the method.
    pub(super) fn hold_besides_path(&self, parts: &impl Parts, reading: MethodReading) -> bool {
        self.fits_method(parts.request(), reading)
            && self.fits_client(parts)
            && self.fits_host(parts)
            && self.fits_values(parts)
    }

    /// Whether the method fits by this reading. Without a condition on it, the method is not read.
    pub(crate) fn fits_method(&self, request: &impl RequestView, reading: MethodReading) -> bool {
        if self.methods.is_empty() {
            return true;
        }
        let method = request.method();
        let is = |name: &str| method.eq_ignore_ascii_case(name);
        match reading {
            MethodReading::AsSent => self.allows(method),
            MethodReading::InUpperCase => {
                self.methods.iter().any(|its| is(its) || (its == "GET" && is("HEAD")))
            }
        }
    }

    /// Whether the condition allows this method, in upper case. A server answers `HEAD` as it answers `GET`, so `GET`
    /// includes `HEAD`.
    pub(crate) fn allows(&self, method: &str) -> bool {
        self.methods.iter().any(|its| its == method || (method == "HEAD" && its == "GET"))
    }

    pub(crate) fn fits_client(&self, parts: &impl Parts) -> bool {
        self.networks.is_empty()
            || parts.client().is_some_and(|client| self.networks.contains(client))
    }

    /// Whether one of the paths fits the segments of a reading.
    pub(super) fn fits_segments(&self, path: SplitPath<'_>, segments: &[&str]) -> bool {
        let keeps_case = path.spelling.keeps_case;
        self.paths.iter().any(|its| its.fits_path(segments, path.is_encoded, keeps_case))
    }

    pub(crate) fn fits_host(&self, parts: &impl Parts) -> bool {
        let fits = |labels: &[&str]| self.hosts.iter().any(|its| its.fits_host(labels));
        self.hosts.is_empty() || parts.host(|labels| labels.is_some_and(fits))
    }

    pub(super) fn fits_values(&self, parts: &impl Parts) -> bool {
        self.values.iter().all(|its| its.holds(parts.request()))
    }
}

impl ValueCondition {
    pub(crate) fn holds(&self, request: &impl RequestView) -> bool {
        match &self.test {
            ValueTest::Is(wanted) => self.of.has_value(request, wanted.as_bytes()),
            ValueTest::Present => self.of.is_present(request),
            ValueTest::Absent => !self.of.is_present(request),
        }
    }
}

/// The condition in plain words.
impl fmt::Display for ValueCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.test {
            ValueTest::Is(value) => write!(f, "{} is \"{}\"", self.of, printable(value)),
            ValueTest::Present => write!(f, "with a {}", self.of),
            ValueTest::Absent => write!(f, "without a {}", self.of),
        }
    }
}

impl fmt::Display for Conditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut conditions = Vec::new();
        if !self.methods.is_empty() {
            conditions.push(listed(&self.methods));
        }
        if !self.networks.is_empty() {
            conditions.push(format!("ip in {}", self.networks));
        }
        if !self.paths.is_empty() {
            conditions.push(format!("path {}", listed(&self.paths)));
        }
        if !self.hosts.is_empty() {
            conditions.push(format!("host {}", listed(&self.hosts)));
        }
        conditions.extend(self.values.iter().map(ToString::to_string));
        match conditions.is_empty() {
            true => f.write_str("every request"),
            false => f.write_str(&conditions.join(", ")),
        }
    }
}
