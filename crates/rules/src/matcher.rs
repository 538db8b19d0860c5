//! Which requests a rule is about.

use std::fmt;

use crate::request_view::RequestView;
use crate::host;
use crate::path::{self, Fit, Oddities, Segments, Spelling};
use crate::pattern::Pattern;

/// Which requests a rule is about: those for which everything that is said holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Matcher {
    /// Any of these; empty: any at all.
    pub(crate) paths: Vec<Pattern>,
    /// How paths are read.
    pub(crate) spelling: Spelling,
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
    path: SeenPath<'s>,
    host: Option<&'s [&'s str]>,
}

/// A path that was split.
#[derive(Clone, Copy, Debug)]
struct SeenPath<'s> {
    segments: &'s [&'s str],
    /// Whether it has a `%`.
    is_encoded: bool,
    odd: Oddities,
}

impl<'s, F: RequestView> Seen<'s, F> {
    /// Takes apart what rules will ask for. The caller has the place for it, since it is too large to
    /// be moved around.
    #[inline]
    pub(crate) fn new<'f: 's>(
        facts: &'f F,
        asks: Asks,
        path: &'s mut Segments<'f>,
        host: &'s mut Segments<'f>,
    ) -> Self {
        let path = match asks.path {
            Some(spelling) => SeenPath::new(facts.path(), spelling, path),
            None => SeenPath { segments: &[], is_encoded: false, odd: Oddities::default() },
        };
        let has_host = asks.host && facts.host().map(|its| host::split_host(its, host)).is_some();
        Self { facts, path, host: has_host.then_some(host.as_slice()) }
    }
}

impl<'s> SeenPath<'s> {
    #[inline]
    fn new<'f: 's>(path: &'f str, spelling: Spelling, segments: &'s mut Segments<'f>) -> Self {
        let odd = path::split(path, spelling, segments);
        Self { segments: segments.as_slice(), is_encoded: path.contains('%'), odd }
    }
}

/// What any of the rules looks at.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Asks {
    path: Option<Spelling>,
    host: bool,
}

impl Asks {
    pub(crate) fn and(self, matcher: &Matcher) -> Self {
        let asks_path = (!matcher.paths.is_empty()).then_some(matcher.spelling);
        Self { path: self.path.or(asks_path), host: self.host || !matcher.hosts.is_empty() }
    }
}

impl Matcher {
    /// Whether the rule is about this request. The cheapest question comes first.
    pub(crate) fn fits<F: RequestView>(&self, seen: &Seen<'_, F>) -> Fit {
        if !self.fits_method(seen.facts) {
            return Fit::None;
        }
        match self.fits_path(seen.facts, seen.path) {
            Fit::None => Fit::None,
            fit if self.fits_host(seen.host) && self.fits_headers(seen.facts) => fit,
            _ => Fit::None,
        }
    }

    /// The same of a request that was not taken apart: once something does not fit, nothing further
    /// is asked.
    pub(crate) fn fits_facts(&self, facts: &impl RequestView) -> Fit {
        if !self.fits_method(facts) {
            return Fit::None;
        }
        match self.fits_path_of(facts) {
            Fit::None => Fit::None,
            fit if self.fits_host_of(facts) && self.fits_headers(facts) => fit,
            _ => Fit::None,
        }
    }

    pub(crate) fn fits_method(&self, facts: &impl RequestView) -> bool {
        self.methods.is_empty() || self.methods.iter().any(|its| its == facts.method())
    }

    pub(crate) fn fits_path_of(&self, facts: &impl RequestView) -> Fit {
        if self.paths.is_empty() {
            return Fit::All;
        }
        let mut segments = Segments::new("");
        let path = SeenPath::new(facts.path(), self.spelling, &mut segments);
        self.fits_path(facts, path)
    }

    pub(crate) fn fits_host_of(&self, facts: &impl RequestView) -> bool {
        let mut labels = Segments::new("");
        self.hosts.is_empty() || {
            let host = facts.host().map(|its| host::split_host(its, &mut labels));
            self.fits_host(host.map(|()| labels.as_slice()))
        }
    }

    pub(crate) fn fits_headers(&self, facts: &impl RequestView) -> bool {
        self.headers.iter().all(|(name, test)| test.fits(name, facts))
    }

    fn fits_path(&self, facts: &impl RequestView, path: SeenPath<'_>) -> Fit {
        let SeenPath { segments, is_encoded, odd } = path;
        let keeps_case = self.spelling.keeps_case;
        let fits = |segments: &[&str]| {
            self.paths.iter().any(|its| its.fits_path(segments, is_encoded, keeps_case))
        };
        match self.paths.is_empty() {
            true => Fit::All,
            false if odd.any() => odd.fits(facts.path(), fits),
            false if fits(segments) => Fit::All,
            false => Fit::None,
        }
    }

    fn fits_host(&self, labels: Option<&[&str]>) -> bool {
        self.hosts.is_empty()
            || labels.is_some_and(|labels| self.hosts.iter().any(|its| its.fits_host(labels)))
    }
}

impl HeaderTest {
    /// The test in plain words, for the header of this name.
    pub(crate) fn of(&self, name: &str) -> String {
        match self {
            Self::Is(value) => format!("header {name} is \"{value}\""),
            Self::Present => format!("with a header {name}"),
            Self::Absent => format!("without a header {name}"),
        }
    }

    pub(crate) fn fits(&self, name: &str, facts: &impl RequestView) -> bool {
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
        said.extend(self.headers.iter().map(|(name, test)| test.of(name)));
        f.write_str(&if said.is_empty() { "every request".to_owned() } else { said.join(", ") })
    }
}

/// `GET or PUT`.
pub(crate) fn listed(items: &[impl fmt::Display]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ")
}
