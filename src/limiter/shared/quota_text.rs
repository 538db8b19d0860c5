//! The algorithm and the quota of a block in words, from the numbers in its header.

use core::time::Duration;

use crate::algo::dynamic_gcra::{GcraEpoch, QUOTA_WORDS};
use crate::algo::numbered::{Config, NumberedAlgorithm};
use crate::quota::Quota;
use crate::sync::{SharedValue, VersionedCell};
use crate::table::block::{HEADER_BYTES, piece_bytes};

/// The number of a bucket with a quota that changes.
pub(crate) const DYNAMIC_GCRA: u64 = 8;
/// The number of a limit of requests in flight.
pub(crate) const IN_FLIGHT: u64 = 9;

/// The algorithm that a header's number stands for.
#[derive(Clone, Copy)]
pub(super) enum CountedBy {
    /// A row of the table of algorithms.
    Row(&'static NumberedAlgorithm),
    DynamicGcra,
    InFlight,
}

/// Where a quota is read from.
pub(super) struct QuotaSource<'a> {
    /// The quota and options in the header.
    pub(super) config: Config,
    /// The length of the block that the header states.
    pub(super) bytes: u64,
    /// Reads words of the block: the index of the first, and their number. It returns fewer if the block ends.
    pub(super) read: &'a dyn Fn(u64, usize) -> Vec<u64>,
}

type ChangingQuota = VersionedCell<QUOTA_WORDS>;

/// The creator's quota, which is followed by the one in force.
const CHANGING_QUOTA_BYTES: u64 = piece_bytes::<ChangingQuota>(1) as u64;

impl CountedBy {
    /// `None`: this version does not know the number.
    pub(super) fn number(number: u64) -> Option<Self> {
        match number {
            DYNAMIC_GCRA => Some(Self::DynamicGcra),
            IN_FLIGHT => Some(Self::InFlight),
            _ => NumberedAlgorithm::by_number(number).map(Self::Row),
        }
    }

    /// The name, with these options.
    pub(super) fn name(self, config: &Config) -> &'static str {
        match self {
            Self::Row(algorithm) => algorithm.name(config),
            Self::DynamicGcra => "gcra with a quota that changes",
            Self::InFlight => "requests in flight",
        }
    }

    /// Bytes of a block before its table.
    pub(super) fn bytes_before_table(self) -> u64 {
        match self {
            Self::Row(_) | Self::InFlight => 0,
            Self::DynamicGcra => 2 * CHANGING_QUOTA_BYTES,
        }
    }

    /// The quota in words.
    pub(super) fn quota(self, source: &QuotaSource<'_>) -> String {
        match self {
            Self::Row(algorithm) => algorithm.quota(&source.config).to_string(),
            Self::DynamicGcra => source.changing(),
            Self::InFlight => source.in_flight(),
        }
    }
}

impl QuotaSource<'_> {
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
        let hold = Duration::from_nanos(self.config.0[0]);
        let place = self.bytes.checked_sub(piece_bytes::<SharedValue>(1) as u64);
        let place = place.filter(|place| *place >= HEADER_BYTES as u64);
        match place.map(|place| (self.read)(place, 1)).as_deref() {
            Some([limit]) => format!("{limit} in flight, each lost after {hold:?}"),
            _ => "spoilt".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algo::CONFIG_WORDS;
    use crate::algo::any::NUMBERED;

    /// Two rows with one number would leave another number without a row.
    #[test]
    fn the_numbers_are_those_from_one_on_and_each_is_that_of_one_algorithm() {
        let config = Config([0; CONFIG_WORDS]);
        let name = |number| CountedBy::number(number).map(|known| known.name(&config));
        let last = NUMBERED.len() as u64 + 2;
        assert!((1..=last).all(|number| name(number).is_some()));
        assert_eq!((name(0), name(last + 1)), (None, None));
    }
}
