//! `match`: which requests a rule applies to.

use std::fmt;

use crate::host;
use crate::path::{self, Fit, Oddities, Segments, Spelling};
use crate::pattern::Pattern;
use crate::request_view::RequestView;

/// The conditions of a rule. All of them must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Matcher {
    /// One of these; empty: any path.
    pub(crate) paths: Vec<Pattern>,
    /// How the upstream reads paths.
    pub(crate) spelling: Spelling,
    pub(crate) methods: Vec<String>,
    pub(crate) hosts: Vec<Pattern>,
    /// All of these.
    pub(crate) headers: Vec<(String, HeaderTest)>,
}

/// A condition on a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HeaderTest {
    /// One of its values is this.
    Is(String),
    Present,
    Absent,
}

/// A request whose path and host are split once, for all rules.
#[derive(Debug)]
pub(crate) struct SplitRequest<'s, R> {
    request: &'s R,
    path: SplitPath<'s>,
    host: Option<&'s [&'s str]>,
}

/// A path, split.
#[derive(Clone, Copy, Debug)]
struct SplitPath<'s> {
    /// The path without its query.
    path: &'s str,
    segments: &'s [&'s str],
    /// Whether it has a `%`.
    is_encoded: bool,
    odd: Oddities,
}

impl<'s, R: RequestView> SplitRequest<'s, R> {
    /// Splits what the rules need. The caller provides the memory, because the lists are too large to
    /// be moved.
    #[inline]
    pub(crate) fn new<'r: 's>(
        request: &'r R,
        needs: Needs,
        path: &'s mut Segments<'r>,
        host: &'s mut Segments<'r>,
    ) -> Self {
        let path = match needs.path {
            Some(spelling) => SplitPath::new(path::of_request(request), spelling, path),
            None => {
                let odd = Oddities::default();
                SplitPath { path: "", segments: &[], is_encoded: false, odd }
            }
        };
        let has_host =
            needs.host && request.host().map(|its| host::split_host(its, host)).is_some();
        Self { request, path, host: has_host.then_some(host.as_slice()) }
    }
}

impl<'s> SplitPath<'s> {
    #[inline]
    fn new<'r: 's>(path: &'r str, spelling: Spelling, segments: &'s mut Segments<'r>) -> Self {
        let odd = path::split(path, spelling, segments);
        Self { path, segments: segments.as_slice(), is_encoded: path.contains('%'), odd }
    }
}

/// The data that at least one rule matches by.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Needs {
    path: Option<Spelling>,
    host: bool,
}

impl Needs {
    pub(crate) fn and(self, matcher: &Matcher) -> Self {
        let path = (!matcher.paths.is_empty()).then_some(matcher.spelling);
        Self { path: self.path.or(path), host: self.host || !matcher.hosts.is_empty() }
    }
}

impl Matcher {
    /// In how many readings of its path a split request matches. The cheapest condition is checked
    /// first.
    pub(crate) fn fit<R: RequestView>(&self, split: &SplitRequest<'_, R>) -> Fit {
        if !self.fits_method(split.request) {
            return Fit::None;
        }
        match self.fit_path(split.path) {
            Fit::None => Fit::None,
            fit if self.fits_host(split.host) && self.fits_headers(split.request) => fit,
            _ => Fit::None,
        }
    }

    /// [`fit`](Self::fit) of a request that is not split. It reads nothing of the request after the
    /// first condition that does not hold.
    pub(crate) fn fit_of(&self, request: &impl RequestView) -> Fit {
        if !self.fits_method(request) {
            return Fit::None;
        }
        match self.fit_path_of(request) {
            Fit::None => Fit::None,
            fit if self.fits_host_of(request) && self.fits_headers(request) => fit,
            _ => Fit::None,
        }
    }

    pub(crate) fn fits_method(&self, request: &impl RequestView) -> bool {
        self.methods.is_empty() || self.methods.iter().any(|its| its == request.method())
    }

    pub(crate) fn fit_path_of(&self, request: &impl RequestView) -> Fit {
        if self.paths.is_empty() {
            return Fit::All;
        }
        let mut segments = Segments::new("");
        self.fit_path(SplitPath::new(path::of_request(request), self.spelling, &mut segments))
    }

    pub(crate) fn fits_host_of(&self, request: &impl RequestView) -> bool {
        let mut labels = Segments::new("");
        self.hosts.is_empty() || {
            let host = request.host().map(|its| host::split_host(its, &mut labels));
            self.fits_host(host.map(|()| labels.as_slice()))
        }
    }

    fn fits_headers(&self, request: &impl RequestView) -> bool {
        self.headers.iter().all(|(name, test)| test.fits(name, request))
    }

    fn fit_path(&self, SplitPath { path, segments, is_encoded, odd }: SplitPath<'_>) -> Fit {
        let keeps_case = self.spelling.keeps_case;
        let fits = |segments: &[&str]| {
            self.paths.iter().any(|its| its.fits_path(segments, is_encoded, keeps_case))
        };
        match self.paths.is_empty() {
            true => Fit::All,
            false if odd.any() => odd.fits(path, fits),
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
    /// The condition in plain words, for the header of this name.
    pub(crate) fn describe(&self, name: &str) -> String {
        match self {
            Self::Is(value) => format!("header {name} is \"{value}\""),
            Self::Present => format!("with a header {name}"),
            Self::Absent => format!("without a header {name}"),
        }
    }

    pub(crate) fn fits(&self, name: &str, request: &impl RequestView) -> bool {
        let mut values = (0..).map_while(|nth| request.header(name, nth));
        match self {
            Self::Is(wanted) => values.any(|value| value.trim_ascii() == wanted.as_bytes()),
            Self::Present => values.next().is_some(),
            Self::Absent => values.next().is_none(),
        }
    }
}

impl fmt::Display for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut conditions = Vec::new();
        if !self.methods.is_empty() {
            conditions.push(listed(&self.methods));
        }
        if !self.paths.is_empty() {
            conditions.push(format!("path {}", listed(&self.paths)));
        }
        if !self.hosts.is_empty() {
            conditions.push(format!("host {}", listed(&self.hosts)));
        }
        conditions.extend(self.headers.iter().map(|(name, test)| test.describe(name)));
        match conditions.is_empty() {
            true => f.write_str("every request"),
            false => f.write_str(&conditions.join(", ")),
        }
    }
}

/// `GET or PUT`.
pub(crate) fn listed(items: &[impl fmt::Display]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ")
}
