//! `match`: which requests a rule applies to.

mod conditions;
mod network;
mod parts;
mod pattern;

use std::fmt;

use crate::inline_vec::InlineVec;
use crate::request::RequestView;
use crate::request::path::{Fit, Spelling};
pub(crate) use conditions::{Conditions, MethodReading, ValueCondition, ValueTest};
pub(crate) use network::{Network, Networks, masked};
pub(crate) use parts::{Needs, Parts, SplitRequest, Unsplit};
pub(crate) use pattern::{Pattern, PatternMistake};

/// The most exceptions of a rule.
pub(crate) const EXCEPTIONS_MAX: usize = 8;

/// The requests that a rule applies to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Matcher {
    pub(crate) conditions: Conditions,
    /// `not`: the rule does not apply to a request for which one of these holds.
    pub(crate) exceptions: Vec<Conditions>,
    /// How the upstream reads paths.
    pub(crate) spelling: Spelling,
}

impl Matcher {
    /// In how many readings of its path and its method a request matches.
    pub(crate) fn fit(&self, parts: &impl Parts) -> Fit {
        let as_sent = self.fit_by(parts, MethodReading::AsSent);
        let is_lower = |byte: u8| byte.is_ascii_lowercase();
        let depends_on_method = match as_sent {
            // An exception that holds for the method as it was sent holds for it in upper case, too.
            Fit::None => self.conditions.uses_method(),
            _ => self.uses_method(),
        };
        if !depends_on_method || !parts.request().method().bytes().any(is_lower) {
            return as_sent;
        }
        match (as_sent, self.fit_by(parts, MethodReading::InUpperCase)) {
            (as_sent, in_upper) if as_sent == in_upper => as_sent,
            (Fit::Unclear, _) | (_, Fit::Unclear) => Fit::Unclear,
            _ => Fit::Some,
        }
    }

    /// In how many readings of its path a request matches, by this reading of its method. The cheapest condition is
    /// checked first, and nothing of the request is read after the first condition that does not hold.
    fn fit_by(&self, parts: &impl Parts, reading: MethodReading) -> Fit {
        let its = &self.conditions;
        if !its.fits_method(parts.request(), reading) || !its.fits_client(parts) {
            return Fit::None;
        }
        match self.fit_path(parts) {
            Fit::None => Fit::None,
            fit if its.fits_host(parts) && its.fits_values(parts) => {
                self.outside_exceptions(parts, reading, fit)
            }
            _ => Fit::None,
        }
    }

    /// [`fit`](Self::fit) of a request that is not split.
    pub(crate) fn fit_of(&self, request: &impl RequestView) -> Fit {
        self.fit(&Unsplit(request))
    }

    pub(crate) fn fit_path(&self, parts: &impl Parts) -> Fit {
        if self.conditions.paths.is_empty() {
            return Fit::All;
        }
        parts.path(self.spelling, |path| {
            path.fit(|segments| self.conditions.fits_segments(path, segments))
        })
    }

    /// The fit that the exceptions leave of `fit`. An exception by path may hold for some readings only,
    /// so it is checked for each reading together with the paths of the rule.
    fn outside_exceptions(&self, parts: &impl Parts, reading: MethodReading, fit: Fit) -> Fit {
        if self.exceptions.is_empty() {
            return fit;
        }
        // The exceptions whose other conditions hold, so that the path decides.
        let mut open = InlineVec::<&Conditions, EXCEPTIONS_MAX>::new(&self.conditions);
        for exception in &self.exceptions {
            if exception.hold_besides_path(parts, reading) {
                if exception.paths.is_empty() {
                    return Fit::None;
                }
                open.push(exception);
            }
        }
        if open.as_slice().is_empty() {
            return fit;
        }
        parts.path(self.spelling, |path| {
            path.fit(|segments| {
                let is_open = |its: &&Conditions| its.fits_segments(path, segments);
                let fits = self.conditions.paths.is_empty()
                    || self.conditions.fits_segments(path, segments);
                fits && !open.as_slice().iter().any(is_open)
            })
        })
    }

    /// The conditions, and those of the exceptions.
    pub(crate) fn all_conditions(&self) -> impl Iterator<Item = &Conditions> {
        std::iter::once(&self.conditions).chain(&self.exceptions)
    }

    pub(crate) fn uses_path(&self) -> bool {
        self.all_conditions().any(Conditions::uses_path)
    }

    pub(crate) fn uses_method(&self) -> bool {
        self.all_conditions().any(Conditions::uses_method)
    }

    pub(crate) fn uses_client(&self) -> bool {
        self.all_conditions().any(|its| !its.networks.is_empty())
    }

    pub(crate) fn uses_host(&self) -> bool {
        self.all_conditions().any(|its| !its.hosts.is_empty())
    }
}

impl fmt::Display for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.conditions.fmt(f)?;
        self.exceptions.iter().try_for_each(|its| write!(f, "; not ({its})"))
    }
}

/// `GET or PUT`.
pub(crate) fn listed(items: &[impl fmt::Display]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ")
}
