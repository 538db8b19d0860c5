//! The quota of a block in words, from the numbers that its algorithm encodes it by.

use core::time::Duration;

use crate::algo::CONFIG_WORDS;
use crate::algo::dynamic_gcra::{GcraEpoch, QUOTA_WORDS};
use crate::quota::Quota;
use crate::sync::{SharedValue, VersionedCell};
use crate::table::block::{HEADER_BYTES, piece_bytes};

/// An algorithm by the number that a header has.
pub(super) struct NumberedAlgorithm {
    number: u64,
    name: &'static str,
    /// Bytes of a block before its table.
    pub(super) before_table: u64,
    /// The quota in words.
    pub(super) quota: fn(&QuotaSource<'_>) -> String,
}

/// Where a quota is read from.
pub(super) struct QuotaSource<'a> {
    /// The quota and options in the header.
    pub(super) config: [u64; CONFIG_WORDS],
    /// The length of the block that the header states.
    pub(super) bytes: u64,
    /// Reads words of the block: the index of the first, and their number. It returns fewer if the block ends.
    pub(super) read: &'a dyn Fn(u64, usize) -> Vec<u64>,
}

const fn row(
    number: u64,
    name: &'static str,
    quota: fn(&QuotaSource<'_>) -> String,
) -> NumberedAlgorithm {
    NumberedAlgorithm { number, name, before_table: 0, quota }
}

const FIXED_WINDOW: u64 = 3;

type ChangingQuota = VersionedCell<QUOTA_WORDS>;

/// The creator's quota, which is followed by the one in force.
const CHANGING_QUOTA_BYTES: u64 = piece_bytes::<ChangingQuota>(1) as u64;

/// All algorithms whose states can be shared.
static ALGORITHMS: [NumberedAlgorithm; 9] = [
    row(1, "gcra", |source| source.bucket("at once")),
    row(2, "leaky-queue", |source| source.bucket("may wait")),
    row(FIXED_WINDOW, "fixed-window", |source| source.window()),
    row(4, "warm-up", |source| format!("1 every {:?} when warm", source.span(source.config[3]))),
    row(5, "sub-windows", |source| {
        let count = source.config[3].saturating_add(1);
        format!("{} in {:?}, by {count} sub-windows", source.config[2], source.span(count))
    }),
    row(6, "sliding-counter", |source| {
        format!("about {} in any {:?}", source.config[2], source.span(source.config[3]))
    }),
    row(7, "sliding-log", |source| source.log()),
    NumberedAlgorithm {
        before_table: 2 * CHANGING_QUOTA_BYTES,
        ..row(8, "gcra with a quota that changes", |source| source.changing())
    },
    row(9, "requests in flight", |source| source.in_flight()),
];

/// `None`: this version does not know the number.
pub(super) fn algorithm(number: u64) -> Option<&'static NumberedAlgorithm> {
    ALGORITHMS.iter().find(|known| known.number == number)
}

impl NumberedAlgorithm {
    /// Its name, with these options.
    pub(super) fn name(&self, config: &[u64; CONFIG_WORDS]) -> &'static str {
        match self.number == FIXED_WINDOW && is_aligned(config) {
            true => "fixed-window-aligned",
            false => self.name,
        }
    }
}

/// Whether windows are those of the wall clock: one unit long.
fn is_aligned(config: &[u64; CONFIG_WORDS]) -> bool {
    config[3] == 1
}

impl QuotaSource<'_> {
    fn window(&self) -> String {
        let [_, _, limit, units, ..] = self.config;
        let by = if is_aligned(&self.config) { " by the wall clock" } else { "" };
        format!("{limit} in each window of {:?}{by}", self.span(units))
    }

    /// The time of `count` units of the grid.
    fn span(&self, count: u64) -> Duration {
        let [units, nanos, ..] = self.config;
        let span = u128::from(count) * u128::from(nanos) / u128::from(units.max(1));
        u64::try_from(span).map_or(Duration::MAX, Duration::from_nanos)
    }

    fn bucket(&self, burst_is: &str) -> String {
        let [_, _, cell, burst, _, leased, ..] = self.config;
        let burst = burst.saturating_add(leased);
        format!("1 every {:?}, {burst} {burst_is}", self.span(cell))
    }

    fn log(&self) -> String {
        let [_, _, limits, form, windows @ ..] = self.config;
        // The latest limit has the lowest bits.
        let count =
            usize::try_from(form >> 1).map_or(windows.len(), |count| count.min(windows.len()));
        let rates = windows[..count].iter().enumerate().map(|(index, window)| {
            let limit = (limits >> (16 * (count - 1 - index)) & 0xffff) + 1;
            format!("{limit} in any {:?}", self.span(*window))
        });
        rates.collect::<Vec<_>>().join(", ")
    }

    /// The quota in force.
    fn changing(&self) -> String {
        let place = HEADER_BYTES as u64 + CHANGING_QUOTA_BYTES;
        let words = (self.read)(place, size_of::<ChangingQuota>() / size_of::<u64>());
        let in_force = ChangingQuota::current_in(&words).as_ref().map(GcraEpoch::quota_described);
        let Some(quota) = in_force.filter(|quota| quota.validate().is_ok()) else {
            return "spoilt".to_owned();
        };
        let without_burst = Quota::new(quota.limit(), quota.period());
        let is_default = without_burst.burst_cells() == quota.burst_cells();
        if is_default { without_burst } else { quota }.to_string()
    }

    fn in_flight(&self) -> String {
        let hold = Duration::from_nanos(self.config[0]);
        let place = self.bytes.saturating_sub(piece_bytes::<SharedValue>(1) as u64);
        match (self.read)(place, 1)[..] {
            [limit] => format!("{limit} in flight, each lost after {hold:?}"),
            _ => "spoilt".to_owned(),
        }
    }
}
