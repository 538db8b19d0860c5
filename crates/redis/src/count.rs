//! How a quota is counted on the server: what a script is told, and what its answer means.

mod counter;
mod gcra;
mod log;
mod window;

use core::time::Duration;

use tollgate::Quota;
use tollgate::decision::DecisionParts;

use crate::algorithm::Algorithm;
use crate::central::RedisLimiterError;
use crate::script::Script;

/// What a script's answer means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    /// Cells that were granted; `None`: denied.
    pub(crate) cells: Option<u64>,
    pub(crate) parts: DecisionParts,
    /// Until as much as was wanted at least would be granted.
    pub(crate) retry_after: Duration,
    /// How long granted cells may be kept, where leases are taken.
    pub(crate) lifetime: Duration,
}

/// A quota worked in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    Gcra(gcra::Bucket),
    Window(window::Window),
    Counter(counter::Counter),
    Log(log::Log),
}

/// Calls the same of whichever it is.
macro_rules! whichever {
    ($plan:expr, $each:ident => $call:expr) => {
        match $plan {
            Plan::Gcra($each) => $call,
            Plan::Window($each) => $call,
            Plan::Counter($each) => $call,
            Plan::Log($each) => $call,
        }
    };
}

impl Plan {
    /// `lease`: for how long cells that are taken ahead are to be kept.
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

    /// What two limiters of one name must share to share states.
    pub(crate) fn shape(&self) -> String {
        whichever!(self, each => each.shape())
    }

    /// What the script is told of `least` cells, after what all scripts are told.
    pub(crate) fn arguments(&self, least: u64) -> Vec<u64> {
        whichever!(self, each => each.arguments(least))
    }

    /// The most cells that can ever be granted at once.
    pub(crate) fn most_at_once(&self) -> u64 {
        whichever!(self, each => each.most_at_once())
    }

    /// How long cells that are taken ahead may be kept; zero without leases.
    pub(crate) fn lifetime(&self) -> Duration {
        whichever!(self, each => each.lifetime())
    }

    /// What the script's answer means to who wanted so many; `None`, if it is none of that script.
    pub(crate) fn tell(&self, reply: &[i64], least: u64, most: u64) -> Option<Told> {
        let told = whichever!(self, each => each.tell(reply, least))?;
        let is_possible = match told.cells {
            Some(cells) => (least..=most).contains(&cells),
            None => reply.first() == Some(&DENIED),
        };
        (is_possible && told.parts.remaining <= told.parts.limit).then_some(told)
    }
}

const DAY_SECS: i32 = 24 * 3_600;
const WEEK_MICROS: u64 = 7 * 24 * 3_600 * 1_000_000;
/// 1970-01-01 was a Thursday: the epoch lies three days into a week that begins on Monday.
const EPOCH_INTO_WEEK_MICROS: i128 = 3 * 24 * 3_600 * 1_000_000;
/// A lease that outlives a day is none.
const LEASE_MICROS_MAX: u64 = 24 * 3_600 * 1_000_000;

/// A period in microseconds, if it is a whole number of them.
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

/// What a script returns for cells where it grants none.
const DENIED: i64 = -1;

/// Cells of an answer: `None` is denied.
fn granted(number: i64) -> Option<u64> {
    u64::try_from(number).ok()
}

fn natural(number: i64) -> Option<u64> {
    u64::try_from(number).ok()
}

fn micros(count: u128) -> Duration {
    Duration::from_micros(u64::try_from(count).unwrap_or(u64::MAX))
}
