//! Suggests limits from a log: which rate and burst fit, and what other pairs would deny. Keys are
//! examined independently, and only for the token bucket.

mod candidate_rates;
mod grid;
mod keys;
mod needed_burst;
mod suggestion;
mod trace;
mod well_behaved;

use std::net::Ipv6Addr;

use anyhow::Result;
use tollgate::Quota;

use crate::log::charge::JOINT;
pub(crate) use grid::Grid;
use keys::Keys;
pub(crate) use needed_burst::Denials;
pub use suggestion::Percentage;
pub(crate) use suggestion::{Candidate, Suggestion, cells_in_a_minute};
pub(crate) use trace::{Kept, Trace};
pub(crate) use well_behaved::{Basis, KeyList, WellBehaved};

/// The options of an analysis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AnalysisOptions {
    /// `--suggest`.
    pub(crate) suggest: Option<SuggestOptions>,
    /// Whether to compute the grid of rates and bursts.
    pub(crate) grid: bool,
    /// The well-behaved keys, if the caller lists them.
    pub(crate) well_behaved: Option<KeyList>,
}

/// The options of a suggestion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SuggestOptions {
    /// Rates to suggest a burst for; empty means rates that suit the log.
    pub(crate) rates: Vec<Quota>,
    pub(crate) at_most: Percentage,
}

/// The result of an analysis.
#[derive(Debug)]
pub(crate) struct Analysis {
    /// Requests and keys that were examined, and how much of the log they are.
    pub(crate) requests: u64,
    pub(crate) keys: u64,
    /// Whether a key has an IPv6 address as a part.
    pub(crate) has_ipv6: bool,
    pub(crate) kept: Kept,
    pub(crate) well_behaved: WellBehaved,
    pub(crate) suggestion: Option<Suggestion>,
    pub(crate) grid: Option<Grid>,
}

impl AnalysisOptions {
    /// An empty trace, for the requests of a log.
    pub(crate) fn trace(&self) -> Trace<'_> {
        Trace::new(self.well_behaved.as_ref())
    }

    /// Examines the log.
    pub(crate) fn analyze(&self, trace: Trace<'_>) -> Result<Analysis> {
        let keys = Keys::of(trace);
        let well_behaved = match &self.well_behaved {
            Some(list) => WellBehaved::listed(list, &keys)?,
            None => WellBehaved::infer(&keys),
        };
        let suggest = |wanted: &SuggestOptions| {
            let default_rates = || candidate_rates::rates(&keys, &well_behaved);
            let rates =
                if wanted.rates.is_empty() { default_rates() } else { wanted.rates.clone() };
            Suggestion::of(&keys, &well_behaved, &rates, wanted.at_most)
        };
        let is_empty = keys.count() == 0;
        let suggestion = self.suggest.as_ref().filter(|_| !is_empty).map(suggest).transpose()?;
        let grid = self.grid && !is_empty;
        Ok(Analysis {
            suggestion,
            grid: grid.then(|| Grid::of(&keys, &well_behaved)),
            requests: keys.requests(),
            keys: keys.count() as u64,
            has_ipv6: keys.names().any(has_ipv6),
            kept: keys.kept(),
            well_behaved,
        })
    }
}

fn has_ipv6(key: &str) -> bool {
    key.split(JOINT).any(|part| part.parse::<Ipv6Addr>().is_ok())
}
