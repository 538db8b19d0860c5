//! The numbers of algorithms in the headers of shared blocks and of snapshots, and the quotas beside them in words.

#![cfg_attr(
    not(feature = "shared-memory"),
    allow(dead_code, reason = "blocks are described by it")
)]

use core::fmt::{self, Formatter};
use core::time::Duration;

use super::CONFIG_WORDS;

/// An algorithm that has a number.
pub(crate) trait Numbered {
    /// The same in every version of this crate, and used by no other algorithm.
    const NUMBER: u64;

    /// Which of the names in its row of the [table](super::any) a configuration has.
    fn name_index(_: &Config) -> usize {
        0
    }

    /// Writes the quota of a configuration in words.
    fn write_quota(config: &Config, f: &mut Formatter<'_>) -> fmt::Result;
}

/// The values of [`Rebase::config_words`](super::Rebase::config_words), which any file may have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Config(pub(crate) [u64; CONFIG_WORDS]);

impl Config {
    /// The time of `count` units, on a grid that the first two words give.
    pub(super) fn span(&self, count: u64) -> Duration {
        let [units, nanos, ..] = self.0;
        let span = u128::from(count) * u128::from(nanos) / u128::from(units.max(1));
        u64::try_from(span).map_or(Duration::MAX, Duration::from_nanos)
    }
}

/// A row of the table, without its types.
#[cfg(feature = "shared-memory")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct NumberedAlgorithm {
    pub(super) number: u64,
    pub(super) names: &'static [&'static str],
    pub(super) name_index: fn(&Config) -> usize,
    pub(super) write_quota: fn(&Config, &mut Formatter<'_>) -> fmt::Result,
}

#[cfg(feature = "shared-memory")]
impl NumberedAlgorithm {
    /// `None`: no row has the number.
    pub(crate) fn by_number(number: u64) -> Option<&'static Self> {
        super::any::NUMBERED.iter().find(|known| known.number == number)
    }

    /// The name, with the options of this configuration.
    pub(crate) fn name(&self, config: &Config) -> &'static str {
        self.names[(self.name_index)(config)]
    }

    /// The quota of this configuration, in words.
    pub(crate) fn quota<'a>(&'a self, config: &'a Config) -> impl fmt::Display {
        QuotaText { algorithm: self, config }
    }
}

#[cfg(feature = "shared-memory")]
struct QuotaText<'a> {
    algorithm: &'a NumberedAlgorithm,
    config: &'a Config,
}

#[cfg(feature = "shared-memory")]
impl fmt::Display for QuotaText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        (self.algorithm.write_quota)(self.config, f)
    }
}
