//! Which requests a rule is about.

use std::fmt;

use crate::facts::Facts;
use crate::path::{self, Segments};
use crate::pattern::Pattern;

/// Which requests a rule is about: those for which everything that is said holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Matcher {
    /// Any of these; empty: any at all.
    pub(crate) paths: Vec<Pattern>,
    pub(crate) methods: Vec<String>,
    pub(crate) hosts: Vec<Pattern>,
    /// All of these.
    pub(crate) headers: Vec<(String, HeaderTest)>,
}

/// What a header must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HeaderTest {
    /// One of its values is this.
    Is(String),
    Present,
    Absent,
}

/// A request, taken apart once for all rules.
#[derive(Debug)]
pub(crate) struct Seen<'s, F> {
    pub(crate) facts: &'s F,
    path: &'s [&'s str],
    /// Whether the path has a `%`.
    is_encoded: bool,
    host: Option<&'s [&'s str]>,
}

impl<'s, F: Facts> Seen<'s, F> {
    /// Takes apart what rules will ask for. The caller has the place for it, since it is too large to
    /// be moved around.
    #[inline]
    pub(crate) fn new<'f: 's>(
        facts: &'f F,
        asks: Asks,
        path: &'s mut Segments<'f>,
        host: &'s mut Segments<'f>,
    ) -> Self {
        if asks.path {
            path::split(facts.path(), path);
        }
        let has_host = asks.host && facts.host().map(|its| path::split_host(its, host)).is_some();
        let is_encoded = asks.path && facts.path().contains('%');
        Self { facts, path: path.as_slice(), is_encoded, host: has_host.then_some(host.as_slice()) }
    }
}

/// What any of the rules looks at.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Asks {
    path: bool,
    host: bool,
}

impl Asks {
    pub(crate) fn and(self, matcher: &Matcher) -> Self {
        Self {
            path: self.path || !matcher.paths.is_empty(),
            host: self.host || !matcher.hosts.is_empty(),
        }
    }
}

impl Matcher {
    /// Whether the rule is about this request. The cheapest question comes first.
    pub(crate) fn fits<F: Facts>(&self, seen: &Seen<'_, F>) -> bool {
        self.fits_method(seen.facts)
            && self.fits_path(seen.path, seen.is_encoded)
            && self.fits_host(seen.host)
            && self.fits_headers(seen.facts)
    }

    /// The same of a request that was not taken apart: once something does not fit, nothing further
    /// is asked.
    pub(crate) fn fits_facts(&self, facts: &impl Facts) -> bool {
        let fits_path = || {
            let path = facts.path();
            self.fits_path(path::segments(path).as_slice(), path.contains('%'))
        };
        let fits_host = || {
            let mut labels = Segments::new("");
            let host = facts.host().map(|its| path::split_host(its, &mut labels));
            self.fits_host(host.map(|()| labels.as_slice()))
        };
        self.fits_method(facts)
            && (self.paths.is_empty() || fits_path())
            && (self.hosts.is_empty() || fits_host())
            && self.fits_headers(facts)
    }

    fn fits_method(&self, facts: &impl Facts) -> bool {
        self.methods.is_empty() || self.methods.iter().any(|its| its == facts.method())
    }

    fn fits_headers(&self, facts: &impl Facts) -> bool {
        self.headers.iter().all(|(name, test)| test.fits(name, facts))
    }

    fn fits_path(&self, segments: &[&str], is_encoded: bool) -> bool {
        self.paths.is_empty()
            || self.paths.iter().any(|pattern| pattern.fits_path(segments, is_encoded))
    }

    fn fits_host(&self, labels: Option<&[&str]>) -> bool {
        self.hosts.is_empty()
            || labels.is_some_and(|labels| self.hosts.iter().any(|its| its.fits_host(labels)))
    }
}

impl HeaderTest {
    fn fits(&self, name: &str, facts: &impl Facts) -> bool {
        let mut values = (0..).map_while(|nth| facts.header(name, nth));
        match self {
            Self::Is(wanted) => values.any(|value| value.trim_ascii() == wanted.as_bytes()),
            Self::Present => values.next().is_some(),
            Self::Absent => values.next().is_none(),
        }
    }
}

impl fmt::Display for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut said = Vec::new();
        if !self.methods.is_empty() {
            said.push(listed(&self.methods));
        }
        if !self.paths.is_empty() {
            said.push(format!("path {}", listed(&self.paths)));
        }
        if !self.hosts.is_empty() {
            said.push(format!("host {}", listed(&self.hosts)));
        }
        for (name, test) in &self.headers {
            said.push(match test {
                HeaderTest::Is(value) => format!("header {name} is \"{value}\""),
                HeaderTest::Present => format!("with a header {name}"),
                HeaderTest::Absent => format!("without a header {name}"),
            });
        }
        f.write_str(&if said.is_empty() { "every request".to_owned() } else { said.join(", ") })
    }
}

/// `GET or PUT`.
fn listed(items: &[impl fmt::Display]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ")
}
