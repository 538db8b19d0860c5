//! The codec of the scripts: the arguments of each, and the meaning of its reply.

mod counter;
mod gcra;
mod log;
mod window;

use core::time::Duration;

use tollgate::Quota;
use tollgate::decision::DecisionParts;

use super::RedisLimiterError;
use crate::algorithm::Algorithm;
use crate::script::Script;

/// The meaning of a script's reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decoded {
    /// Cells granted. `None` is a denial.
    pub(crate) cells: Option<u64>,
    pub(crate) parts: DecisionParts,
    /// How long until the smallest number of cells asked for would be granted.
    pub(crate) retry_after: Duration,
    /// How long granted cells may be kept, if leases are taken.
    pub(crate) lifetime: Duration,
}

/// A quota translated to the arguments of one script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Codec {
    Gcra(gcra::Bucket),
    Window(window::Window),
    Counter(counter::Counter),
    Log(log::Log),
}

/// Calls the same method of whichever codec it is.
macro_rules! whichever {
    ($codec:expr, $each:ident => $call:expr) => {
        match $codec {
            Codec::Gcra($each) => $call,
            Codec::Window($each) => $call,
            Codec::Counter($each) => $call,
            Codec::Log($each) => $call,
        }
    };
}

impl Codec {
    /// `lease` is how long cells that are taken ahead may be kept.
    pub(crate) fn new(
        algorithm: &Algorithm,
        quota: &Quota,
        lease: Option<Duration>,
    ) -> Result<Self, RedisLimiterError> {
        quota.validate().map_err(RedisLimiterError::Quota)?;
        let lease_micros = match lease {
            None => 0,
            Some(lease) => match u64::try_from(lease.as_micros()) {
                Ok(micros @ 1..=LEASE_MICROS_MAX) => micros,
                _ => return Err(RedisLimiterError::LeaseLifetime),
            },
        };
        Ok(match algorithm {
            Algorithm::Gcra => Self::Gcra(gcra::Bucket::new(quota, lease_micros)?),
            Algorithm::FixedWindow { utc_offset_secs } => {
                Self::Window(window::Window::new(quota, *utc_offset_secs, lease_micros)?)
            }
            Algorithm::SlidingCounter { older, utc_offset_secs } => {
                Self::Counter(counter::Counter::new(quota, *older, *utc_offset_secs, lease_micros)?)
            }
            Algorithm::SlidingLog { .. } if lease.is_some() => {
                return Err(RedisLimiterError::LeaseOfLog);
            }
            Algorithm::SlidingLog { more, count_denials } => {
                Self::Log(log::Log::new(quota, more, *count_denials)?)
            }
        })
    }

    pub(crate) fn script(&self) -> Script {
        match self {
            Self::Gcra(_) => Script::gcra(),
            Self::Window(_) => Script::window(),
            Self::Counter(_) => Script::counter(),
            Self::Log(_) => Script::log(),
        }
    }

    /// The part of a key's name that two limiters of one name must have in common to share state.
    pub(crate) fn shape(&self) -> String {
        whichever!(self, each => each.shape())
    }

    /// The script's own arguments for at least `min` cells. They follow the arguments that all
    /// scripts have.
    pub(crate) fn arguments(&self, min: u64) -> Vec<u64> {
        whichever!(self, each => each.arguments(min))
    }

    /// The largest number of cells that can ever be granted at once.
    pub(crate) fn max_at_once(&self) -> u64 {
        whichever!(self, each => each.max_at_once())
    }

    /// How long cells that are taken ahead may be kept. Zero without leases.
    pub(crate) fn lifetime(&self) -> Duration {
        whichever!(self, each => each.lifetime())
    }

    /// Decodes a reply to a request for `min` to `max` cells. `None` if the script cannot have
    /// returned it.
    pub(crate) fn decode(&self, reply: &[i64], min: u64, max: u64) -> Option<Decoded> {
        let decoded = whichever!(self, each => each.decode(reply, min))?;
        let is_possible = match decoded.cells {
            Some(cells) => (min..=max).contains(&cells),
            None => reply.first() == Some(&DENIED),
        };
        (is_possible && decoded.parts.remaining <= decoded.parts.limit).then_some(decoded)
    }
}

const DAY_SECS: i32 = 24 * 3_600;
const WEEK_MICROS: u64 = 7 * 24 * 3_600 * 1_000_000;
/// 1970-01-01 was a Thursday: the epoch lies three days into a week that begins on Monday.
const EPOCH_INTO_WEEK_MICROS: i128 = 3 * 24 * 3_600 * 1_000_000;
/// The longest lease: a day.
const LEASE_MICROS_MAX: u64 = 24 * 3_600 * 1_000_000;

/// A period in microseconds, if it is a whole number of microseconds.
fn whole_micros(period: Duration) -> Result<u64, RedisLimiterError> {
    match u64::try_from(period.as_micros()) {
        Ok(micros @ 1..) if period.subsec_nanos().is_multiple_of(1_000) => Ok(micros),
        _ => Err(RedisLimiterError::NotWholeMicros),
    }
}

/// How far into its window of `period` microseconds the epoch lies.
fn epoch_into(period: u64, utc_offset_secs: i32) -> Result<u64, RedisLimiterError> {
    if utc_offset_secs <= -DAY_SECS || utc_offset_secs >= DAY_SECS {
        return Err(RedisLimiterError::Quota(tollgate::QuotaError::UtcOffsetTooLarge));
    }
    let week = if period.is_multiple_of(WEEK_MICROS) { EPOCH_INTO_WEEK_MICROS } else { 0 };
    let local = i128::from(utc_offset_secs) * 1_000_000 + week;
    Ok(u64::try_from(local.rem_euclid(i128::from(period))).unwrap_or(0))
}

/// The number that a script returns in place of cells if it denies.
const DENIED: i64 = -1;

/// The cells in a reply. `None` is a denial.
fn granted(number: i64) -> Option<u64> {
    u64::try_from(number).ok()
}

fn natural(number: i64) -> Option<u64> {
    u64::try_from(number).ok()
}

fn micros(count: u128) -> Duration {
    Duration::from_micros(u64::try_from(count).unwrap_or(u64::MAX))
}
