//! The meaning of the scripts' numbers, computed from their description in `src/lua/` in plain
//! 128-bit arithmetic.

use std::time::Duration;

use tollgate::Quota;
use tollgate_redis::Algorithm;

use super::bucket::Bucket;

/// A quota as a script counts it.
pub(crate) enum Means {
    Bucket(Bucket),
    Window {
        limit: u128,
    },
    Counter(Counter),
    /// The smallest limit of its rates.
    Log {
        min: u128,
    },
}

#[derive(Clone, Copy)]
pub(crate) struct Counter {
    limit: u128,
    /// In microseconds, including the lifetime of leases. A period has `older` sub-windows.
    period: u128,
    older: u128,
    /// How far into a period the epoch lies.
    ahead: u128,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Meaning {
    /// `None` is a denial.
    pub(crate) cells: Option<u64>,
    pub(crate) remaining: u128,
    pub(crate) reset_micros: u128,
}

impl Means {
    /// The algorithm must be one that a limiter can be built with.
    pub(crate) fn new(algorithm: &Algorithm, quota: Quota, lease: Option<Duration>) -> Self {
        let lease_micros = lease.unwrap_or_default().as_micros();
        let limit = u128::from(quota.limit());
        match algorithm {
            Algorithm::Gcra => {
                let nanos = u64::try_from(quota.period().as_nanos()).expect("in range");
                let micros = u64::try_from(lease_micros).expect("50 ms");
                Self::Bucket(Bucket::new(quota.limit(), nanos, quota.burst_cells(), micros))
            }
            Algorithm::FixedWindow { .. } => Self::Window { limit },
            Algorithm::SlidingCounter { older, utc_offset_secs } => {
                let asked = quota.period().as_micros();
                let period = asked + lease_micros.min(asked / 2);
                let ahead = u128::from(utc_offset_secs.unsigned_abs()) * 1_000_000 % period;
                assert!(*utc_offset_secs >= 0, "no negative offset is drawn");
                Self::Counter(Counter { limit, period, older: (*older).into(), ahead })
            }
            Algorithm::SlidingLog { more, .. } => {
                let limits = more.iter().map(|rate| u128::from(rate.limit()));
                Self::Log { min: limits.fold(limit, u128::min) }
            }
            other => unreachable!("{other:?} is not drawn"),
        }
    }

    /// The limit that decisions state.
    pub(crate) fn limit(&self) -> u64 {
        let limit = match self {
            Self::Bucket(bucket) => bucket.capacity / bucket.cell,
            Self::Window { limit } | Self::Counter(Counter { limit, .. }) => *limit,
            Self::Log { min } => *min,
        };
        u64::try_from(limit).expect("a limit")
    }

    pub(crate) fn max_at_once(&self) -> u64 {
        match self {
            Self::Log { .. } => self.limit().min(Algorithm::MAX_LOG_CELLS_PER_CALL),
            _ => self.limit(),
        }
    }

    /// Asserts that a denial's wait is enough, and that one microsecond less is not.
    pub(crate) fn is_the_wait(&self, numbers: &[i64], n: u64, wait: u128) {
        let natural = |place: usize| u128::try_from(numbers[place]).expect("a natural number");
        match self {
            Self::Bucket(bucket) => {
                let debt = natural(1) * bucket.parts + natural(2);
                let owed = debt + u128::from(n) * bucket.cell;
                let too_much = owed.saturating_sub(bucket.capacity);
                assert_eq!(wait, longest(too_much.div_ceil(bucket.parts)));
            }
            Self::Window { .. } => assert_eq!(wait, longest(natural(2))),
            Self::Log { .. } => assert_eq!(wait, longest(natural(3))),
            Self::Counter(counter) => {
                let now = natural(1) + counter.ahead;
                let fits = |at| counter.estimate(numbers, at) + u128::from(n) <= counter.limit;
                if wait < longest(u128::MAX) && wait > 0 {
                    assert!(fits(now + wait), "{wait} us are not enough");
                    // A denial despite enough room states the shortest wait.
                    assert!(wait == 1 || !fits(now + wait - 1), "{wait} us are too much");
                }
            }
        }
    }
}

/// The longest span that is stated, in microseconds. It stands for all longer ones.
pub(crate) fn longest(micros: u128) -> u128 {
    micros.min(u128::from(u64::MAX - 1).div_ceil(1_000))
}

impl Counter {
    /// The oldest sub-window counts by the fraction of it that is still covered. A clock behind the
    /// latest charge is taken to be at the beginning of the charged sub-window.
    fn estimate(&self, numbers: &[i64], at: u128) -> u128 {
        let [_, _, latest, counts @ ..] = numbers else { unreachable!("it has been read") };
        let Ok(latest) = u128::try_from(*latest) else { return 0 };
        // In parts of a microsecond, of which there are `older`.
        let at = (at * self.older).max(latest * self.period);
        let mut sum = 0;
        for (back, count) in counts.iter().enumerate() {
            let Some(index) = latest.checked_sub(back as u128) else { continue };
            // A sub-window weighs no more than the limit.
            let count = u128::try_from(*count).expect("a natural number").min(self.limit);
            let left_at = (index + self.older + 1) * self.period;
            sum += match left_at.saturating_sub(at) {
                covered if covered >= self.period => count,
                covered => count * covered / self.period,
            };
        }
        sum
    }
}

/// The meaning of a reply, if the script can have returned it to this request.
pub(crate) fn of_reply(means: &Means, numbers: &[i64], (min, max): (u64, u64)) -> Option<Meaning> {
    let (first, rest) = numbers.split_first()?;
    let cells = match *first {
        -1 => None,
        cells => Some(u64::try_from(cells).ok().filter(|cells| (min..=max).contains(cells))?),
    };
    let natural = |place: usize| rest.get(place).and_then(|number| u128::try_from(*number).ok());
    let has = |count: usize| (rest.len() == count).then_some(());
    let (remaining, reset_micros) = match means {
        Means::Bucket(bucket) => {
            has(2)?;
            let debt = natural(0)? * bucket.parts + natural(1)?;
            (bucket.capacity.saturating_sub(debt) / bucket.cell, debt.div_ceil(bucket.parts))
        }
        Means::Window { limit } => {
            has(2)?;
            let (counted, ends) = (natural(0)?, natural(1)?);
            (limit.saturating_sub(counted), if counted == 0 { 0 } else { ends })
        }
        Means::Counter(counter) => {
            let (now, _) = (natural(0)? + counter.ahead, rest.get(1)?);
            (2..rest.len()).try_for_each(|place| natural(place).map(|_| ()))?;
            let left = natural(1).map_or(0, |latest| {
                ((latest + counter.older + 1) * counter.period).div_ceil(counter.older)
            });
            let room = counter.limit.saturating_sub(counter.estimate(numbers, now));
            (room, left.saturating_sub(now))
        }
        Means::Log { min } => {
            has(3)?;
            natural(2)?;
            (natural(0).filter(|remaining| remaining <= min)?, natural(1)?)
        }
    };
    Some(Meaning { cells, remaining, reset_micros })
}
