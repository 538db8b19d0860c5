//! Round rates and bursts that suit a log.

use std::time::Duration;

use tollgate::Quota;

use super::keys::{Keys, busiest_minute};
use super::well_behaved::WellBehaved;

/// The number of rates, and of bursts.
pub(super) const CANDIDATES: usize = 8;
/// Rates above the one that the busiest minute of a well-behaved key asks for.
const CANDIDATES_ABOVE: usize = 2;

const SECOND: u64 = 1;
const MINUTE: u64 = 60;
const HOUR: u64 = 3_600;
const DAY: u64 = 86_400;

/// Rates from slow to fast, each 2 or 2.5 times the one before, around the rate that the busiest
/// minute of a well-behaved key asks for.
pub(crate) fn rates(keys: &Keys, well_behaved: &WellBehaved) -> Vec<Quota> {
    let busiest = keys
        .each()
        .zip(&well_behaved.is_well_behaved)
        .filter(|(_, is_well_behaved)| **is_well_behaved);
    let busiest = busiest.map(|(requests, _)| busiest_minute(requests)).max().unwrap_or(0);
    let all = round_rates();
    let suits = |rate: &Quota| cells_in(rate, Duration::from_secs(MINUTE)) >= u128::from(busiest);
    let fits = all.iter().position(suits).unwrap_or(all.len() - 1);
    let last = (fits + CANDIDATES_ABOVE).clamp(CANDIDATES - 1, all.len() - 1);
    all[last + 1 - CANDIDATES..=last].to_vec()
}

/// Bursts, of which the last is at least `max` if there is one so large: nearly all keys need at most
/// `max` at the slowest rate.
pub(super) fn bursts(max: u64) -> Vec<u64> {
    let round = round_numbers();
    let fits = round.iter().position(|burst| *burst >= max).unwrap_or(round.len() - 1);
    let last = fits.max(CANDIDATES - 1);
    round[last + 1 - CANDIDATES..=last].to_vec()
}

/// The cells that a rate restores in a span.
pub(super) fn cells_in(rate: &Quota, span: Duration) -> u128 {
    u128::from(rate.limit()) * span.as_nanos() / rate.period().as_nanos().max(1)
}

fn round_rates() -> Vec<Quota> {
    let rate = |limit, secs| Quota::new(limit, Duration::from_secs(secs));
    let days = [1, 2, 5, 10, 20].map(|limit| rate(limit, DAY));
    let hours = [1, 2, 5, 10, 20, 30].map(|limit| rate(limit, HOUR));
    let minutes = [1, 2, 5, 10, 20, 30].map(|limit| rate(limit, MINUTE));
    let seconds = round_numbers().into_iter().take_while(|limit| *limit <= 1_000_000_000);
    let seconds = seconds.map(|limit| rate(limit, SECOND));
    days.into_iter().chain(hours).chain(minutes).chain(seconds).collect()
}

/// 1, 2, 5, 10, and so on, beyond the largest burst.
fn round_numbers() -> Vec<u64> {
    (0..13).flat_map(|power| [1, 2, 5].map(|digit| digit * 10_u64.pow(power))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::keys::tests::keys;
    use super::*;

    #[test]
    fn round_rates_rise_and_can_be_kept() {
        let day = Duration::from_secs(DAY);
        let rates = round_rates();
        assert!(rates.windows(2).all(|pair| {
            let (slow, fast) = (cells_in(&pair[0], day), cells_in(&pair[1], day));
            slow < fast && fast * 2 <= slow * 5
        }));
        assert!(rates.iter().all(|rate| rate.burst(1).validate().is_ok()));
    }

    #[test]
    fn rates_are_around_the_busiest_minute() {
        let log: Vec<_> = (0..25).map(|at| ("a", at, 1)).collect();
        let keys = keys(&log);
        let rates: Vec<String> =
            rates(&keys, &WellBehaved::infer(&keys)).iter().map(Quota::to_string).collect();
        assert_eq!(rates[0], "1/min");
        assert_eq!(rates[5..], ["30/min", "1/s", "2/s"]);
        assert_eq!(bursts(0), [1, 2, 5, 10, 20, 50, 100, 200]);
        assert_eq!(bursts(900), [5, 10, 20, 50, 100, 200, 500, 1_000]);
        assert_eq!(bursts(u64::MAX).len(), CANDIDATES);
    }
}
