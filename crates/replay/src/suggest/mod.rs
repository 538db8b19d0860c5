//! What a log says about limits that nobody has named yet: which rate and burst would do, and what
//! others would deny. It looks at every key by itself, and at the token bucket alone.

mod candidate_rates;
mod grid;
mod keys;
mod needed_burst;
mod suggestion;
mod trace;
mod well_behaved;

use anyhow::Result;
use tollgate::Quota;

pub(crate) use grid::Grid;
use keys::Keys;
pub(crate) use needed_burst::Denials;
pub use suggestion::Share;
pub(crate) use suggestion::{Candidate, Suggestion, cells_in_a_minute};
pub(crate) use trace::{Kept, Trace};
pub(crate) use well_behaved::{WellBehaved, KeyList, Basis};

/// What is to be found out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AnalysisOptions {
    /// `--suggest`.
    pub(crate) suggest: Option<SuggestOptions>,
    /// Whether the grid is to be drawn.
    pub(crate) grid: bool,
    /// The well-behaved keys, if they are listed.
    pub(crate) well_behaved: Option<KeyList>,
}

/// What is to be suggested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SuggestOptions {
    /// None: rates that suit the log.
    pub(crate) rates: Vec<Quota>,
    pub(crate) at_most: Share,
}

/// What was found out.
#[derive(Debug)]
pub(crate) struct Analysis {
    /// Requests and keys that were looked at, and how much of the log they are.
    pub(crate) requests: u64,
    pub(crate) keys: u64,
    pub(crate) kept: Kept,
    pub(crate) well_behaved: WellBehaved,
    pub(crate) suggestion: Option<Suggestion>,
    pub(crate) grid: Option<Grid>,
}

impl AnalysisOptions {
    /// Answers them.
    pub(crate) fn answer(&self, trace: Trace) -> Result<Analysis> {
        let keys = Keys::of(trace);
        let well_behaved = match &self.well_behaved {
            Some(list) => WellBehaved::listed(list, &keys)?,
            None => WellBehaved::infer(&keys),
        };
        let suggest = |wanted: &SuggestOptions| {
            let ladder = || candidate_rates::rates(&keys, &well_behaved);
            let rates = if wanted.rates.is_empty() { ladder() } else { wanted.rates.clone() };
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
            kept: keys.kept(),
            well_behaved,
        })
    }
}
