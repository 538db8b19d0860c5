//! The parts of a request that conditions read.

use std::net::IpAddr;

use super::Matcher;
use crate::request::RequestView;
use crate::request::host;
use crate::request::path::{self, Fit, Oddities, Segments, Spelling};

/// A request whose path and host can be read in segments and labels.
pub(crate) trait Parts {
    type Request: RequestView;

    fn request(&self) -> &Self::Request;

    /// The client's address. An IPv4 address that is mapped into IPv6 is an IPv4 address.
    fn client(&self) -> Option<IpAddr>;

    /// Reads the path.
    fn path<T>(&self, spelling: Spelling, read: impl FnOnce(SplitPath<'_>) -> T) -> T;

    /// Reads the labels of the host; `None` if the request has no host.
    fn host<T>(&self, read: impl FnOnce(Option<&[&str]>) -> T) -> T;
}

/// A path, split.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SplitPath<'s> {
    /// The path without its query.
    path: &'s str,
    segments: &'s [&'s str],
    /// Whether it has a `%`.
    pub(super) is_encoded: bool,
    pub(super) spelling: Spelling,
    odd: Oddities,
}

impl<'s> SplitPath<'s> {
    #[inline]
    fn new<'r: 's>(path: &'r str, spelling: Spelling, segments: &'s mut Segments<'r>) -> Self {
        let odd = path::split(path, spelling, segments);
        let is_encoded = path.contains('%');
        Self { path, segments: segments.as_slice(), is_encoded, spelling, odd }
    }

    pub(crate) fn is_encoded(&self) -> bool {
        self.is_encoded
    }

    /// Visits the segments of each reading. Returns `false` and visits none if there are too many.
    pub(crate) fn visit(&self, mut visit: impl FnMut(&[&str])) -> bool {
        match self.odd.any() {
            true => self.odd.visit(self.path, visit),
            false => {
                visit(self.segments);
                true
            }
        }
    }

    /// In how many readings of the path `fits` holds for its segments.
    pub(super) fn fit(&self, fits: impl Fn(&[&str]) -> bool) -> Fit {
        match self.odd.any() {
            true => self.odd.fits(self.path, fits),
            false if fits(self.segments) => Fit::All,
            false => Fit::None,
        }
    }
}

/// A request whose path and host are split once, for all rules.
#[derive(Debug)]
pub(crate) struct SplitRequest<'s, R> {
    request: &'s R,
    path: SplitPath<'s>,
    host: Option<&'s [&'s str]>,
    client: Option<IpAddr>,
}

impl<'s, R: RequestView> SplitRequest<'s, R> {
    /// Splits the parts that the rules need. The caller provides the memory of the lists, because they are too large
    /// to be moved.
    #[inline]
    pub(crate) fn new<'r: 's>(
        request: &'r R,
        needs: Needs,
        path: &'s mut Segments<'r>,
        host: &'s mut Segments<'r>,
    ) -> Self {
        let path = match needs.path {
            Some(spelling) => SplitPath::new(path::of_request(request), spelling, path),
            None => SplitPath::new("", Spelling::default(), path),
        };
        let has_host =
            needs.host && request.host().map(|its| host::split_host(its, host)).is_some();
        let host = has_host.then_some(host.as_slice());
        let client = needs.client.then(|| client(request)).flatten();
        Self { request, path, host, client }
    }
}

impl<R> SplitRequest<'_, R> {
    pub(crate) fn split_path(&self) -> SplitPath<'_> {
        self.path
    }
}

impl<R: RequestView> Parts for SplitRequest<'_, R> {
    type Request = R;

    fn request(&self) -> &R {
        self.request
    }

    fn client(&self) -> Option<IpAddr> {
        self.client
    }

    fn path<T>(&self, _: Spelling, read: impl FnOnce(SplitPath<'_>) -> T) -> T {
        read(self.path)
    }

    fn host<T>(&self, read: impl FnOnce(Option<&[&str]>) -> T) -> T {
        read(self.host)
    }
}

/// A request whose parts are split when a condition reads them, for a single rule.
#[derive(Debug)]
pub(crate) struct Unsplit<'r, R>(pub(crate) &'r R);

impl<R: RequestView> Parts for Unsplit<'_, R> {
    type Request = R;

    fn request(&self) -> &R {
        self.0
    }

    fn client(&self) -> Option<IpAddr> {
        client(self.0)
    }

    fn path<T>(&self, spelling: Spelling, read: impl FnOnce(SplitPath<'_>) -> T) -> T {
        let mut segments = Segments::new("");
        read(SplitPath::new(path::of_request(self.0), spelling, &mut segments))
    }

    fn host<T>(&self, read: impl FnOnce(Option<&[&str]>) -> T) -> T {
        let mut labels = Segments::new("");
        let host = self.0.host().map(|its| host::split_host(its, &mut labels));
        read(host.map(|()| labels.as_slice()))
    }
}

fn client(request: &impl RequestView) -> Option<IpAddr> {
    request.peer().map(|address| address.to_canonical())
}

/// The data that at least one rule matches by.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Needs {
    path: Option<Spelling>,
    host: bool,
    client: bool,
}

impl Needs {
    pub(crate) fn and(self, matcher: &Matcher) -> Self {
        Self {
            path: self.path.or(matcher.uses_path().then_some(matcher.spelling)),
            host: self.host || matcher.uses_host(),
            client: self.client || matcher.uses_client(),
        }
    }
}
