//! A request: one line of words.

use std::time::Duration;

use tollgate::Quota;

/// The words of one line.
pub(crate) struct Request<'a> {
    algorithm: &'a str,
    options: Vec<(&'a str, &'a str)>,
}

impl<'a> Request<'a> {
    pub(crate) fn of(line: &'a str) -> Self {
        let mut words = line.split_whitespace();
        let algorithm = words.next().unwrap_or("");
        let options = words.map(|word| word.split_once('=').unwrap_or((word, ""))).collect();
        Self { algorithm, options }
    }

    pub(crate) fn algorithm(&self) -> &str {
        self.algorithm
    }

    fn option(&self, name: &str) -> Option<&'a str> {
        self.options.iter().find(|(option, _)| *option == name).map(|(_, value)| *value)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.option(name).is_some()
    }

    pub(crate) fn text(&self, name: &str) -> &str {
        self.option(name).unwrap_or("")
    }

    /// 0 if it is not given.
    pub(crate) fn number(&self, name: &str) -> u64 {
        self.option(name).map_or(0, |text| text.parse().expect("a number"))
    }

    pub(crate) fn span(&self, name: &str) -> Duration {
        Duration::from_nanos(self.number(name))
    }

    pub(crate) fn offset(&self) -> i32 {
        self.text("offset").parse().expect("seconds")
    }

    pub(crate) fn quota(&self) -> Quota {
        Quota::new(self.number("limit"), self.span("period")).burst(self.number("burst"))
    }

    pub(crate) fn new_quota(&self) -> Quota {
        let limit = self.number("new_limit");
        Quota::new(limit, self.span("new_period")).burst(self.number("new_burst"))
    }

    /// The ring, with its missing cells empty.
    pub(crate) fn ring(&self, cells: usize) -> Vec<u64> {
        let given = self.text("ring").split(',').filter(|text| !text.is_empty());
        let mut ring: Vec<u64> = given.map(|text| text.parse().expect("a cell")).collect();
        ring.resize(cells, 0);
        ring
    }
}
