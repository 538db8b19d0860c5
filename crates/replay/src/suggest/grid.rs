//! Rates against bursts: how many requests each pair would have denied, and of how many keys.

use tollgate::Quota;

use super::candidate_rates;
use super::keys::Keys;
use super::needed_burst::{Denials, burst_needed, denied};
use super::well_behaved::WellBehaved;

/// The largest burst is enough for this many of a thousand keys at the slowest rate.
const FITTING_PER_MILLE: usize = 999;

/// One cell for each of 8 rates with each of 8 bursts.
#[derive(Debug)]
pub(crate) struct Grid {
    pub(crate) rates: Vec<Quota>,
    pub(crate) bursts: Vec<u64>,
    /// One row per rate; `None` if no limiter can have that burst at that rate.
    pub(crate) denied: Vec<Vec<Option<Denials>>>,
    /// All requests that were examined.
    pub(crate) requests: u64,
    pub(crate) keys: u64,
}

impl Grid {
    /// Runs the token bucket once for each cell.
    pub(super) fn of(keys: &Keys, well_behaved: &WellBehaved) -> Self {
        let rates = candidate_rates::rates(keys, well_behaved);
        let mut needed_bursts: Vec<u64> =
            keys.each().map(|requests| burst_needed(&rates[0], requests)).collect();
        needed_bursts.sort_unstable();
        let rank = (needed_bursts.len() * FITTING_PER_MILLE / 1_000)
            .min(needed_bursts.len().saturating_sub(1));
        let bursts = candidate_rates::bursts(needed_bursts.get(rank).copied().unwrap_or(0));
        let row = |rate: &Quota| {
            let cell =
                |burst: &u64| denied(&rate.burst(*burst), keys, &well_behaved.is_well_behaved).ok();
            bursts.iter().map(cell).collect()
        };
        let denied = rates.iter().map(row).collect();
        Self { rates, bursts, denied, requests: keys.requests(), keys: keys.count() as u64 }
    }
}

#[cfg(test)]
mod tests {
    use super::super::keys::tests::keys;
    use super::*;

    #[test]
    fn a_higher_rate_or_burst_denies_less() {
        let names = ["a", "b", "c"];
        let log: Vec<_> = (0..900_u64)
            .map(|step| (names[usize::try_from(step % 3).unwrap()], step * step * 1_000_000, 1))
            .collect();
        let keys = keys(&log);
        let grid = Grid::of(&keys, &WellBehaved::infer(&keys));
        assert_eq!(
            (grid.denied.len(), grid.denied[0].len()),
            (candidate_rates::CANDIDATES, candidate_rates::CANDIDATES)
        );
        for row in &grid.denied {
            assert!(row.is_sorted_by(|one, next| one.unwrap().requests >= next.unwrap().requests));
        }
        for (slow, fast) in grid.denied.iter().zip(&grid.denied[1..]) {
            assert!(
                slow.iter()
                    .zip(fast)
                    .all(|(slow, fast)| slow.unwrap().requests >= fast.unwrap().requests)
            );
        }
        // The keys denied are those that need more than the burst.
        for (rate, row) in grid.rates.iter().zip(&grid.denied) {
            for (burst, cell) in grid.bursts.iter().zip(row) {
                let needed_bursts = keys.each().map(|requests| burst_needed(rate, requests));
                assert_eq!(
                    cell.unwrap().keys,
                    needed_bursts.filter(|needed_burst| needed_burst > burst).count() as u64
                );
            }
        }
    }
}
