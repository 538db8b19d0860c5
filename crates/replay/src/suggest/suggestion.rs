//! The smallest burst at a rate such that few well-behaved keys would ever be denied.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use anyhow::Result;
use tollgate::Quota;

use super::candidate_rates;
use super::keys::Keys;
use super::needed_burst::{Denials, burst_needed, denied};
use super::well_behaved::WellBehaved;

/// The best suggestion admits the least to a key within this span.
const MINUTE: Duration = Duration::from_secs(60);
/// A curve keeps a point if its burst is more than this percentage above the previous one.
const CURVE_STEP_PERCENT: u64 = 1;

/// A percentage of the keys, kept in millionths: `--at-most`. Parses from a text such as `0.25%`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Percentage {
    ppm: u64,
}

/// A suggestion.
#[derive(Debug)]
pub(crate) struct Suggestion {
    pub(crate) at_most: Percentage,
    /// The number of well-behaved keys that may be denied.
    pub(crate) may_deny: u64,
    /// One candidate per rate.
    pub(crate) candidates: Vec<Candidate>,
    /// The index of the candidate that admits the least to a key within a minute.
    pub(crate) best: Option<usize>,
}

/// A rate and its burst.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) rate: Quota,
    /// The rate with the smallest burst that denies few enough well-behaved keys, and its denials;
    /// `None` if no limiter can have such a burst.
    pub(crate) found: Option<(Quota, Denials)>,
    /// The smallest burst that denies no well-behaved key.
    pub(crate) burst_for_none: u64,
    /// The number of well-behaved keys that each burst denies, from the smallest burst to one that
    /// denies none.
    pub(crate) curve: Vec<Point>,
    /// The smallest burst that a well-behaved key needs.
    pub(crate) min_needed_burst: u64,
}

/// A burst, and the number of well-behaved keys that need more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Point {
    pub(crate) burst: u64,
    pub(crate) denied: u64,
}

impl Percentage {
    pub(crate) const ONE_PERCENT: Self = Self { ppm: 10_000 };

    /// The share of `whole`, rounded down.
    fn of(self, whole: u64) -> u64 {
        let part = u128::from(whole) * u128::from(self.ppm) / 1_000_000;
        u64::try_from(part).expect("no more than the whole")
    }

    /// The share as a fraction of 1.
    pub(crate) fn as_f64(self) -> f64 {
        self.ppm as f64 / 1e6
    }
}

impl fmt::Display for Percentage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} %", self.ppm as f64 / 1e4)
    }
}

impl FromStr for Percentage {
    type Err = String;

    /// `1%`, `0.25 %`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a share: write 0% to 100%, such as 1% or 0.25%");
        let number = text.trim().strip_suffix('%').ok_or_else(wrong)?.trim();
        let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
        let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
        if !is_digits(whole) || !is_digits(part) || part.len() > 4 || whole.len() > 3 {
            return Err(wrong());
        }
        let whole: u64 = whole.parse().map_err(|_| wrong())?;
        let part: u64 = format!("{part:0<4}").parse().map_err(|_| wrong())?;
        let ppm = whole * 10_000 + part;
        if ppm > 1_000_000 { Err(wrong()) } else { Ok(Self { ppm }) }
    }
}

impl Suggestion {
    /// Finds the smallest burst for each rate, and the best candidate.
    pub(super) fn of(
        keys: &Keys,
        well_behaved: &WellBehaved,
        rates: &[Quota],
        at_most: Percentage,
    ) -> Result<Self> {
        let may_deny = at_most.of(well_behaved.count);
        let candidates = rates
            .iter()
            .map(|rate| Candidate::of(*rate, keys, well_behaved, may_deny))
            .collect::<Result<Vec<_>>>()?;
        let best = candidates
            .iter()
            .enumerate()
            .filter_map(|(index, candidate)| Some((index, cells_in_a_minute(&candidate.found?.0))))
            .min_by_key(|(_, cells)| *cells)
            .map(|(index, _)| index);
        Ok(Self { at_most, may_deny, candidates, best })
    }

    /// The suggested quota, and its denials.
    pub(crate) fn best(&self) -> Option<(Quota, Denials)> {
        self.candidates.get(self.best?)?.found
    }
}

/// The most cells that a quota admits to a key within a minute.
pub(crate) fn cells_in_a_minute(quota: &Quota) -> u64 {
    let cells = candidate_rates::cells_in(quota, MINUTE) + u128::from(quota.burst_cells());
    u64::try_from(cells).unwrap_or(u64::MAX)
}

impl Candidate {
    fn of(rate: Quota, keys: &Keys, well_behaved: &WellBehaved, may_deny: u64) -> Result<Self> {
        let mut needed_bursts: Vec<u64> = keys
            .each()
            .zip(&well_behaved.is_well_behaved)
            .filter(|(_, is_well_behaved)| **is_well_behaved)
            .map(|(requests, _)| burst_needed(&rate, requests).max(1))
            .collect();
        needed_bursts.sort_unstable();
        // The keys with the largest needs may be denied. The next key must not.
        let may_deny = usize::try_from(may_deny).unwrap_or(usize::MAX);
        let burst = match needed_bursts.len().checked_sub(may_deny.saturating_add(1)) {
            Some(index) => needed_bursts[index],
            None => 1,
        };
        let quota = rate.burst(burst);
        let found = match quota.validate() {
            Ok(()) => Some((quota, denied(&quota, keys, &well_behaved.is_well_behaved)?)),
            Err(_) => None,
        };
        let burst_for_none = needed_bursts.last().copied().unwrap_or(1);
        let min_needed_burst = needed_bursts.first().copied().unwrap_or(1);
        Ok(Self { rate, found, burst_for_none, curve: curve(&needed_bursts), min_needed_burst })
    }
}

/// The number of keys that need more than a burst, for each burst that makes a difference. Of nearly
/// equal bursts, one is kept.
fn curve(sorted_needs: &[u64]) -> Vec<Point> {
    let mut points: Vec<Point> = Vec::new();
    for (index, needed_burst) in sorted_needs.iter().enumerate() {
        let is_last_of_its_kind = sorted_needs.get(index + 1) != Some(needed_burst);
        let denied = (sorted_needs.len() - 1 - index) as u64;
        let step = |before: &Point| before.burst / 100 * CURVE_STEP_PERCENT;
        let is_new = points.last().is_none_or(|before| needed_burst - before.burst > step(before));
        if is_last_of_its_kind && (is_new || denied == 0) {
            points.push(Point { burst: *needed_burst, denied });
        }
    }
    if points.first().is_some_and(|first| first.burst > 1) {
        points.insert(0, Point { burst: 1, denied: sorted_needs.len() as u64 });
    }
    points
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::keys::tests::keys;
    use super::*;

    #[test]
    fn shares_parse_exactly() {
        for (text, of_a_million) in
            [("1%", 10_000), ("0.25 %", 2_500), ("0%", 0), ("100%", 1_000_000), ("0.0001%", 1)]
        {
            assert_eq!(text.parse::<Percentage>().unwrap().of(1_000_000), of_a_million, "{text}");
        }
        for text in ["1", "", "%", "-1%", "101%", "1.%", ".5%", "1e2%", "0.00001%", "1 %%"] {
            assert!(text.parse::<Percentage>().unwrap_err().contains("such as 1%"), "{text}");
        }
        assert_eq!("0.25%".parse::<Percentage>().unwrap().to_string(), "0.25 %");
        assert_eq!("1%".parse::<Percentage>().unwrap().of(199), 1);
    }

    #[test]
    fn a_curve_falls_to_zero() {
        let point = |burst, denied| Point { burst, denied };
        assert_eq!(curve(&[1, 1, 3, 7, 7]), [point(1, 3), point(3, 2), point(7, 0)]);
        assert_eq!(curve(&[4, 4]), [point(1, 2), point(4, 0)]);
        assert_eq!(curve(&[]), []);
        assert!(curve(&(1..100_000).collect::<Vec<_>>()).len() < 1_500);
    }

    #[test]
    fn without_a_possible_burst_there_is_no_suggestion() {
        let keys = keys(&[("a", 0, u64::MAX)]);
        let well_behaved = WellBehaved::infer(&keys);
        let rates = ["1/s".parse().unwrap()];
        let one_percent = "1%".parse().unwrap();
        let suggestion = Suggestion::of(&keys, &well_behaved, &rates, one_percent).unwrap();
        assert!(suggestion.best().is_none() && suggestion.candidates[0].found.is_none());
        let all = Suggestion::of(&keys, &well_behaved, &rates, "100%".parse().unwrap()).unwrap();
        assert_eq!(all.best().unwrap().0.burst_cells(), 1);
    }

    proptest! {
        /// The burst denies at most the allowed keys; with one cell less, it denies more.
        #[test]
        fn the_suggested_burst_is_the_smallest_that_is_allowed(
            steps in prop::collection::vec((0_u64..900, 0_usize..9, 1_u64..4), 1..200),
            at_most in prop::sample::select(vec!["0%", "12%", "34%", "60%"]),
        ) {
            let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];
            let mut at = 0;
            let log: Vec<_> = steps.iter().map(|(millis, key, cells)| {
                at += millis * 1_000_000;
                (names[*key], at, *cells)
            }).collect();
            let keys = keys(&log);
            let well_behaved = WellBehaved::infer(&keys);
            let rates = ["1/s".parse().unwrap(), "20/min".parse().unwrap()];
            let found =
                Suggestion::of(&keys, &well_behaved, &rates, at_most.parse().unwrap()).unwrap();
            for candidate in &found.candidates {
                let (quota, denials) = candidate.found.unwrap();
                prop_assert!(denials.well_behaved <= found.may_deny);
                if quota.burst_cells() > 1 {
                    let less = quota.burst(quota.burst_cells() - 1);
                    let less = denied(&less, &keys, &well_behaved.is_well_behaved).unwrap();
                    prop_assert!(less.well_behaved > found.may_deny);
                }
            }
        }
    }
}
