//! The sizes of calls and the lengths of pauses: plain arithmetic.

/// The cells that were spent since the answer to the last call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spending {
    /// Cells that were spent.
    pub(super) spent: u64,
    /// In how many nanoseconds.
    pub(super) over_nanos: u64,
    /// Cells that requests wait for.
    pub(super) waiting: u64,
}

/// How many cells to ask for.
///
/// The number of cells that will be spent in half of a lease's lifetime, so that few are left when it ends. At
/// most twice as many as last time, because two requests in quick succession are not a rate yet. No
/// fewer than requests wait for.
pub(super) fn call_size(last: u64, used: Spending, lifetime_nanos: u64, max: u64) -> u64 {
    spent_in(used, lifetime_nanos / 2).min(last.saturating_mul(2)).max(used.waiting).clamp(1, max)
}

/// Cells that are spent in this time at the current rate.
pub(super) fn spent_in(used: Spending, nanos: u64) -> u64 {
    let over = u128::from(used.over_nanos.max(1));
    let spent = u128::from(used.spent) * u128::from(nanos) / over;
    u64::try_from(spent).unwrap_or(u64::MAX)
}

/// The number of cells that makes a call worthwhile while the source is short.
const WORTH_CELLS: u64 = 8;

/// The bounds of a pause.
#[derive(Clone, Copy, Debug)]
pub(super) struct PauseBounds {
    pub(super) min_nanos: u64,
    pub(super) max_nanos: u64,
}

/// How long to make no call after one that brought `cells`, fewer than were asked for.
///
/// While more is asked for than there is, each call finds what has come back since the last call of
/// any process. A process that finds little calls less often. Nothing is lost, as long as the
/// source does not fill up meanwhile. A pause is therefore at most half of a lease's lifetime, in
/// which at most half of the source fills.
pub(super) fn pause(last_nanos: u64, cells: u64, lifetime_nanos: u64, bounds: PauseBounds) -> u64 {
    let half = lifetime_nanos / 2;
    let min = bounds.min_nanos.min(half);
    let max = bounds.max_nanos.min(half).max(min);
    let next = match cells {
        0..WORTH_CELLS => last_nanos.saturating_mul(2),
        _ if cells >= 2 * WORTH_CELLS => last_nanos / 2,
        _ => last_nanos,
    };
    next.clamp(min, max)
}

/// When to fetch more cells before the last is spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LowWater {
    /// Fetch with fewer cells than this.
    pub(super) cells: u64,
    /// Counting only cells that will be alive after this time.
    pub(super) ahead_nanos: u64,
}

/// Fewer cells than are spent in two round trips, counting cells that live longer than that. If
/// that is less than one cell, there is no hurry: a rarely used key would take cells that it does
/// not spend.
pub(super) fn low_water(used: Spending, round_trip_nanos: u64) -> LowWater {
    let ahead_nanos = round_trip_nanos.saturating_mul(2);
    LowWater { cells: spent_in(used, ahead_nanos), ahead_nanos }
}

/// The round trip to expect: it follows the last one up at once, and down slowly.
pub(super) fn round_trip(known_nanos: u64, last_nanos: u64) -> u64 {
    last_nanos.max(known_nanos - known_nanos / 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: u64 = 1_000_000;

    fn spent(spent: u64, over_nanos: u64) -> Spending {
        Spending { spent, over_nanos, waiting: 0 }
    }

    #[test]
    fn call_size_doubles_up_to_the_spending_and_shrinks_at_once() {
        let life = 100 * MILLI;
        let mut wants = vec![1];
        for _ in 0..8 {
            // 1,000 in a second: 50 in half of the lifetime.
            let last = wants[wants.len() - 1];
            wants.push(call_size(last, spent(last, last * MILLI), life, 1_000));
        }
        assert_eq!(wants, [1, 2, 4, 8, 16, 32, 50, 50, 50]);
        assert_eq!(call_size(50, spent(3, life), life, 1_000), 1);
        assert_eq!(call_size(50, spent(0, life), life, 1_000), 1);
    }

    #[test]
    fn call_size_stays_within_bounds() {
        assert_eq!(call_size(900, spent(u64::MAX, 0), u64::MAX, 1_000), 1_000);
        assert_eq!(call_size(u64::MAX, spent(u64::MAX, 1), u64::MAX, u64::MAX), u64::MAX);
        assert_eq!(call_size(0, spent(0, 0), 0, 1_000), 1);
        let waiting = Spending { waiting: 70, ..spent(1, MILLI) };
        assert_eq!(call_size(1, waiting, 100 * MILLI, 1_000), 70);
        assert_eq!(call_size(1, waiting, 100 * MILLI, 30), 30);
    }

    #[test]
    fn calls_that_bring_little_become_rarer() {
        let bounds = PauseBounds { min_nanos: 10 * MILLI, max_nanos: 250 * MILLI };
        let pauses = |cells: u64, life: u64| {
            let mut pauses = vec![0];
            for _ in 0..6 {
                pauses.push(pause(pauses[pauses.len() - 1], cells, life * MILLI, bounds) / MILLI);
                let last = pauses.len() - 1;
                pauses[last] *= MILLI;
            }
            pauses.iter().skip(1).map(|nanos| nanos / MILLI).collect::<Vec<_>>()
        };
        assert_eq!(pauses(1, 1_000), [10, 20, 40, 80, 160, 250]);
        assert_eq!(pauses(1, 100), [10, 20, 40, 50, 50, 50]);
        assert_eq!(pauses(1, 10), [5; 6]);
        assert_eq!(pauses(8, 1_000), [10; 6]);
        assert_eq!(pause(200 * MILLI, 16, 1_000 * MILLI, bounds), 100 * MILLI);
        assert_eq!(pause(u64::MAX, 0, u64::MAX, bounds), 250 * MILLI);
    }

    #[test]
    fn low_water_is_in_time_and_zero_for_rare_keys() {
        let mark = low_water(spent(50, 50 * MILLI), 2 * MILLI);
        assert_eq!(mark, LowWater { cells: 4, ahead_nanos: 4 * MILLI });
        assert_eq!(low_water(spent(10, 50 * MILLI), 2 * MILLI).cells, 0);
        assert_eq!(low_water(spent(u64::MAX, 0), u64::MAX).cells, u64::MAX);
        assert_eq!(round_trip(0, 5), 5);
        assert_eq!(round_trip(800, 5), 700);
    }
}
