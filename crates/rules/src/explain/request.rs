//! Explains in plain words which rules apply to a request, and why.

use std::fmt::Write;

use crate::key::OnNoKey;
use crate::matcher::{Conditions, Matcher, MethodReading, Parts, Unsplit, listed};
use crate::request::RequestView;
use crate::request::host;
use crate::request::path::{self, Fit, Segments, Spelling};
use crate::rule::{Action, Apply, Rule, Rules};

impl Rules {
    /// Explains which rules apply to a request, and why. There is a line for each reading of its path and its method,
    /// if it has several, and a line for each rule. Nothing is charged.
    ///
    /// ```
    /// use tollgate_rules::{Request, Rules};
    ///
    /// let rules = Rules::parse("rules.toml", r#"rule = [
    ///     { name = "logins", match = { path = "/login", method = "POST" }, limits = "5/min" },
    ///     { name = "posts", match = { path = "/posts/**" }, limits = "9/s" },
    ///     { name = "all", key = "none", limits = "100/s" },
    /// ]"#)?;
    /// let request = Request { method: "POST", path: "/login%2f", ..Request::default() };
    /// assert_eq!(rules.explain_request(&request), "\
    /// path as /login: %2F separates segments
    /// path as /login%2f: %2F belongs to its segment
    /// logins: answers 400, since path /login matches some of these readings only
    /// posts: is not tried, since logins denies the request
    /// all: is not tried, since logins denies the request
    /// ");
    /// # Ok::<(), tollgate_rules::RulesError>(())
    /// ```
    #[must_use]
    pub fn explain_request(&self, request: &impl RequestView) -> String {
        let mut text = String::new();
        if let Some(rule) = self.rules.first() {
            explain_path(path::of_request(request), rule.matcher.spelling, &mut text);
        }
        explain_method(request.method(), &mut text);
        let mut last: Option<String> = None;
        for rule in &self.rules {
            if let Some(why) = &last {
                writeln!(text, "{}: is not tried, since {why}", rule.name)
                    .expect("a string takes everything");
                continue;
            }
            let (said, fit) = rule.explain_fit(request);
            writeln!(text, "{}: {said}", rule.name).expect("a string takes everything");
            last = rule.ends_evaluation(self.apply, fit, request);
        }
        text
    }
}

/// A line for each reading of a path that has oddities.
fn explain_path(path: &str, spelling: Spelling, text: &mut String) {
    let odd = path::split(path, spelling, &mut Segments::new(""));
    let Some(readings) = odd.readings().filter(|_| odd.any()) else {
        if odd.any() {
            text.push_str("the path has too many readings: each rule with a path, also one under \"not\", answers 400\n");
        }
        return;
    };
    let mut written_so_far: Vec<String> = Vec::new();
    for reading in readings {
        let written = format!("/{}", reading.of(path).as_slice().join("/"));
        if !written_so_far.contains(&written) {
            let why = odd.describe(path, reading);
            writeln!(text, "path as {written}: {why}").expect("a string takes everything");
            written_so_far.push(written);
        }
    }
}

/// A line for each reading of a method that is not in upper case.
fn explain_method(method: &str, text: &mut String) {
    let upper = method.to_ascii_uppercase();
    if method != upper {
        writeln!(text, "method as {method}: servers that tell it from {upper}")
            .and_then(|()| writeln!(text, "method as {upper}: servers that write it in upper case"))
            .expect("a string takes everything");
    }
}

impl Rule {
    /// Why later rules are not tried, if the rule ends the evaluation of a request that it has this fit for.
    fn ends_evaluation(
        &self,
        apply: Apply,
        fit: Fit,
        request: &impl RequestView,
    ) -> Option<String> {
        let lacks_key = || self.key.values(request, |its| its.to_string()).is_none();
        let denies = || Some(format!("{} denies the request", self.name));
        match (self.action, fit) {
            (_, Fit::None) => None,
            (Action::Exempt, Fit::Some | Fit::All) => {
                Some(format!("{} exempts the request", self.name))
            }
            _ if self.is_shadow => None,
            (Action::Deny, _) | (_, Fit::Unclear) => denies(),
            (Action::Limit, Fit::Some | Fit::All) => match self.on_no_key {
                OnNoKey::Deny if lacks_key() => denies(),
                OnNoKey::Skip if lacks_key() => None,
                _ if apply == Apply::First && fit == Fit::All => {
                    Some(format!("{} is the first", self.name))
                }
                _ => None,
            },
        }
    }

    fn explain_fit(&self, request: &impl RequestView) -> (String, Fit) {
        let matched = self.matcher.fit_of(request);
        let fit = self.effective(matched);
        let said = match fit {
            Fit::None if matched != Fit::None => {
                format!("does not exempt, since {}", self.matcher.unclear(request))
            }
            Fit::None => format!("does not apply, since {}", self.matcher.why_not(request)),
            Fit::Unclear if self.is_shadow => {
                format!("in shadow, would answer 400, since {}", self.matcher.unclear(request))
            }
            Fit::Unclear => format!("answers 400, since {}", self.matcher.unclear(request)),
            Fit::Some | Fit::All => match self.action {
                Action::Limit => self.explain_key_of(request, fit),
                Action::Exempt => "applies; exempts the request from the rules after it".to_owned(),
                Action::Deny if self.is_shadow => "in shadow, would answer 403".to_owned(),
                Action::Deny => "answers 403".to_owned(),
            },
        };
        (said, fit)
    }

    fn explain_key_of(&self, request: &impl RequestView, fit: Fit) -> String {
        let by_some = match fit {
            Fit::Some => " by some of these readings",
            _ => "",
        };
        let shadow = if self.is_shadow { " in shadow" } else { "" };
        let counted = match (self.key.values(request, |its| its.to_string()), self.on_no_key) {
            (Some(values), _) if values.is_empty() => format!("counted by {}", self.key),
            (Some(values), _) => format!("counted by {}: {}", self.key, values.join(", ")),
            (None, OnNoKey::Shared) => {
                format!("without {}, so counted with all such requests", self.key)
            }
            (None, OnNoKey::Skip) => {
                return format!("does not apply, since the request is without {}", self.key);
            }
            (None, OnNoKey::Deny) => {
                return format!("answers 400{shadow}, since the request is without {}", self.key);
            }
        };
        format!("applies{by_some}{shadow}; {counted}")
    }
}

impl Matcher {
    fn unclear(&self, request: &impl RequestView) -> String {
        let depends_on_case = |its: &Conditions| {
            let fits = |reading| its.fits_method(request, reading);
            fits(MethodReading::AsSent) != fits(MethodReading::InUpperCase)
        };
        let paths = |its: &Conditions| {
            let listed = listed(&its.paths);
            (!listed.is_empty()).then_some(listed)
        };
        let its = &self.conditions;
        let methods = depends_on_case(its).then(|| listed(&its.methods));
        let within = paths(its).map(|its| format!("path {its}"));
        let without = self.exceptions.iter().filter_map(|its| match depends_on_case(its) {
            true => Some(format!("not ({its})")),
            false => paths(its).map(|its| format!("not path {its}")),
        });
        let conditions: Vec<String> = methods.into_iter().chain(within).chain(without).collect();
        format!("{} matches some of these readings only", conditions.join(", "))
    }

    /// The first condition that does not hold.
    fn why_not(&self, request: &impl RequestView) -> String {
        let (its, parts) = (&self.conditions, &Unsplit(request));
        if !its.fits_method(request, MethodReading::InUpperCase) {
            return format!("the method is not {}", listed(&its.methods));
        }
        if !its.fits_client(parts) {
            let client = match parts.client() {
                Some(address) => format!("the client {address}"),
                None => "a client without an address".to_owned(),
            };
            return format!("{client} is not in {}", its.networks);
        }
        if self.fit_path(parts) == Fit::None {
            return format!("the path is not {}", listed(&its.paths));
        }
        if !its.fits_host(parts) {
            let asked = match request.host().map(host::bare_host) {
                Some(host) => format!("the host {host}"),
                None => "a missing host".to_owned(),
            };
            return format!("{asked} is not {}", listed(&its.hosts));
        }
        if let Some(unfit) = its.values.iter().find(|its| !its.holds(request)) {
            return format!("this does not hold: {unfit}");
        }
        let excludes = |exception: &&Conditions| {
            let alone = Self { exceptions: vec![(*exception).clone()], ..self.clone() };
            alone.fit(parts) == Fit::None
        };
        match self.exceptions.iter().find(excludes) {
            Some(exception) => format!("it is excluded: {exception}"),
            None => "each reading of the path is excluded".to_owned(),
        }
    }
}
