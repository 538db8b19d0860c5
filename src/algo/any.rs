//! Any of the algorithms, chosen when the program runs.
//!
//! A limiter of [`AnyAlgorithm`] is one type whatever a rules file says. It decides as the
//! algorithm itself does, at the price of a branch on which one it is.

use core::str::FromStr;
use core::time::Duration;

use super::fixed_window::{FixedWindow, FixedWindowParams};
use super::gcra::{Gcra, GcraParams};
use super::grid::Grid;
use super::leaky_queue::{LeakyQueue, LeakyQueueParams};
#[cfg(feature = "std")]
use super::oracle::AnyOracle;
use super::sliding_counter::SlidingCounter;
use super::sliding_log::{SlidingLog, SlidingLogParams, SlidingLogSeen};
use super::sub_windows::{SubWindowParams, SubWindowSeen, SubWindows};
use super::warm_up::{WarmUp, WarmUpParams};
use super::{
    Algorithm, FIGURES, Rebase, Rebased, Restart, Ring, Standing, StateMachine, Step,
    VisitRevocable, Visitor, sealed::Sealed,
};
use crate::decision::{Denied, Permit};
use crate::quota::{Quota, QuotaError};
use crate::time::Tick;

/// Calls the same of whichever algorithm it is.
macro_rules! whichever {
    ($any:expr, $kind:ident, $each:ident => $call:expr) => {
        match $any {
            $kind::Gcra($each) => $call,
            $kind::FixedWindow($each) => $call,
            $kind::LeakyQueue($each) => $call,
            $kind::WarmUp($each) => $call,
            $kind::SubWindows($each) => $call,
            $kind::SlidingLog($each) => $call,
        }
    };
}

/// Calls the same of a machine and of what it saw; of what another has seen, `$other`.
macro_rules! whichever_saw {
    ($any:expr, $seen:expr, $each:ident, $its:ident => $call:expr, else $other:expr) => {
        match ($any, $seen) {
            (AnyParams::Gcra($each), AnySeen::Word($its)) => $call,
            (AnyParams::FixedWindow($each), AnySeen::Word($its)) => $call,
            (AnyParams::LeakyQueue($each), AnySeen::Word($its)) => $call,
            (AnyParams::WarmUp($each), AnySeen::Word($its)) => $call,
            (AnyParams::SubWindows($each), AnySeen::SubWindows($its)) => $call,
            (AnyParams::SlidingLog($each), AnySeen::SlidingLog($its)) => $call,
            _ => $other,
        }
    };
}

/// Any of the algorithms.
///
/// ```
/// use tollgate::{AnyAlgorithm, Limiter, Quota, SubWindows};
///
/// // From a file, by name; and from the program.
/// let named: AnyAlgorithm = "sliding-log".parse()?;
/// let given = AnyAlgorithm::from(SubWindows::new().count(12));
/// for algorithm in [named, given] {
///     let gate: Limiter<str, AnyAlgorithm> =
///         Limiter::builder(Quota::per_minute(10)).algorithm(algorithm).capacity(100).build()?;
///     assert!(gate.check("somebody").is_ok());
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AnyAlgorithm {
    /// A token bucket.
    Gcra(Gcra),
    /// Fixed windows.
    FixedWindow(FixedWindow),
    /// A leaky bucket as a queue.
    LeakyQueue(LeakyQueue),
    /// An even rate that is reached only as it is used.
    WarmUp(WarmUp),
    /// A sliding window of sub-windows.
    SubWindows(SubWindows),
    /// The two-window weighted estimate.
    SlidingCounter(SlidingCounter),
    /// The exact log.
    SlidingLog(SlidingLog),
}

impl AnyAlgorithm {
    /// The names that parse, each for the algorithm as it is without options.
    ///
    /// ```
    /// use tollgate::AnyAlgorithm;
    /// assert!(AnyAlgorithm::NAMES.iter().all(|name| name.parse::<AnyAlgorithm>().is_ok()));
    /// ```
    pub const NAMES: &[&str] = &[
        "gcra",
        "fixed-window",
        "fixed-window-aligned",
        "leaky-queue",
        "sub-windows",
        "sliding-counter",
        "sliding-log",
    ];
}

/// A name that is none of [`AnyAlgorithm::NAMES`].
///
/// ```
/// use tollgate::AnyAlgorithm;
/// let error = "tocken-bucket".parse::<AnyAlgorithm>().unwrap_err();
/// assert!(error.to_string().starts_with("no algorithm has this name: use one of gcra, "));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnknownAlgorithm;

impl core::fmt::Display for UnknownAlgorithm {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("no algorithm has this name: use one of ")?;
        for (index, name) in AnyAlgorithm::NAMES.iter().enumerate() {
            write!(f, "{}{name}", if index == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

impl core::error::Error for UnknownAlgorithm {}

impl FromStr for AnyAlgorithm {
    type Err = UnknownAlgorithm;

    fn from_str(name: &str) -> Result<Self, UnknownAlgorithm> {
        Ok(match name {
            "gcra" => Gcra::new().into(),
            "fixed-window" => FixedWindow::anchored().into(),
            "fixed-window-aligned" => FixedWindow::aligned().into(),
            "leaky-queue" => LeakyQueue::new().into(),
            "sub-windows" => SubWindows::new().into(),
            "sliding-counter" => SlidingCounter::new().into(),
            "sliding-log" => SlidingLog::new().into(),
            _ => return Err(UnknownAlgorithm),
        })
    }
}

macro_rules! from_each {
    ($($each:ident),*) => {
        $(impl From<$each> for AnyAlgorithm {
            fn from(algorithm: $each) -> Self {
                Self::$each(algorithm)
            }
        })*
    };
}

from_each!(Gcra, FixedWindow, LeakyQueue, WarmUp, SubWindows, SlidingCounter, SlidingLog);

impl Sealed for AnyAlgorithm {}

impl Algorithm for AnyAlgorithm {
    type Params = AnyParams;

    fn params(&self, quota: &Quota, origin: u64) -> Result<AnyParams, QuotaError> {
        Ok(match self {
            Self::Gcra(gcra) => AnyParams::Gcra(gcra.params(quota, origin)?),
            Self::FixedWindow(window) => AnyParams::FixedWindow(window.params(quota, origin)?),
            Self::LeakyQueue(queue) => AnyParams::LeakyQueue(queue.params(quota, origin)?),
            Self::WarmUp(pace) => AnyParams::WarmUp(pace.params(quota, origin)?),
            Self::SubWindows(windows) => AnyParams::SubWindows(windows.params(quota, origin)?),
            Self::SlidingCounter(counter) => AnyParams::SubWindows(counter.params(quota, origin)?),
            Self::SlidingLog(log) => AnyParams::SlidingLog(log.params(quota, origin)?),
        })
    }

    fn compact_params(&self, quota: &Quota, origin: u64) -> Result<Option<AnyParams>, QuotaError> {
        Ok(match self {
            Self::Gcra(gcra) => gcra.compact_params(quota, origin)?.map(AnyParams::Gcra),
            Self::LeakyQueue(queue) => {
                queue.compact_params(quota, origin)?.map(AnyParams::LeakyQueue)
            }
            Self::FixedWindow(window) => {
                window.compact_params(quota, origin)?.map(AnyParams::FixedWindow)
            }
            Self::WarmUp(_)
            | Self::SubWindows(_)
            | Self::SlidingCounter(_)
            | Self::SlidingLog(_) => quota.validate().map(|()| None)?,
        })
    }
}

/// [`AnyAlgorithm`] with a quota worked in.
///
/// ```
/// use tollgate::algorithm::Algorithm;
/// use tollgate::internals::StateMachine;
/// use tollgate::{AnyAlgorithm, Quota};
///
/// let log: AnyAlgorithm = "sliding-log".parse()?;
/// assert_eq!(log.params(&Quota::per_minute(10), 0)?.ring_cells(), 12);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AnyParams {
    /// Of a token bucket.
    Gcra(GcraParams),
    /// Of fixed windows.
    FixedWindow(FixedWindowParams),
    /// Of a queue.
    LeakyQueue(LeakyQueueParams),
    /// Of a rate that warms up.
    WarmUp(WarmUpParams),
    /// Of sub-windows, weighed or not.
    SubWindows(SubWindowParams),
    /// Of the log.
    SlidingLog(SlidingLogParams),
}

/// What a decision is judged by.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum AnySeen {
    /// The word.
    Word(u64),
    /// The word, and what was in its ring.
    SubWindows(SubWindowSeen),
    /// The word, and what was in its ring.
    SlidingLog(SlidingLogSeen),
}

/// As the algorithm itself does: a snapshot of the one can be restored to the other.
impl Rebase for AnyParams {
    fn algorithm(&self) -> u64 {
        whichever!(self, Self, each => each.algorithm())
    }

    fn figures(&self, unix_origin_nanos: u64) -> [u64; FIGURES] {
        whichever!(self, Self, each => each.figures(unix_origin_nanos))
    }

    fn passage(&self, restart: &Restart) -> Rebased {
        whichever!(self, Self, each => each.passage(restart))
    }

    fn rebase(&self, word: u64, ring: &mut [u64], passage: &Rebased) -> Option<u64> {
        whichever!(self, Self, each => each.rebase(word, ring, passage))
    }
}

impl Sealed for AnyParams {}

impl StateMachine for AnyParams {
    #[cfg(feature = "std")]
    type Oracle = AnyOracle;
    type View = AnySeen;
    const RINGED: bool = true;
    const MAY_DELAY: bool = true;
    const OWED_BY_RING: bool = true;

    #[inline(always)]
    fn dispatch<V: Visitor>(&self, visit: V) -> V::Out {
        whichever!(self, Self, each => visit.by(each))
    }

    fn as_gcra(&self) -> Option<&GcraParams> {
        whichever!(self, Self, each => each.as_gcra())
    }

    #[inline(always)]
    fn meet_revocable<V: VisitRevocable>(&self, visit: V) -> Option<V::Out> {
        whichever!(self, Self, each => each.meet_revocable(visit))
    }

    fn ring_cells(&self) -> usize {
        whichever!(self, Self, each => each.ring_cells())
    }

    #[inline]
    fn has_note(&self) -> bool {
        whichever!(self, Self, each => each.has_note())
    }

    fn cells_to_clear(&self) -> usize {
        whichever!(self, Self, each => each.cells_to_clear())
    }

    fn fresh(&self, now: Tick) -> u64 {
        whichever!(self, Self, each => each.fresh(now))
    }

    fn starts_in_debt(&self) -> bool {
        whichever!(self, Self, each => each.starts_in_debt())
    }

    fn remembers_denials(&self) -> bool {
        whichever!(self, Self, each => each.remembers_denials())
    }

    #[inline]
    fn read<R: Ring>(&self, word: u64, ring: R, now: Tick, n: u64) -> AnySeen {
        match self {
            Self::Gcra(_) | Self::FixedWindow(_) | Self::LeakyQueue(_) | Self::WarmUp(_) => {
                AnySeen::Word(word)
            }
            Self::SubWindows(each) => AnySeen::SubWindows(each.read(word, ring, now, n)),
            Self::SlidingLog(each) => AnySeen::SlidingLog(each.read(word, ring, now, n)),
        }
    }

    #[inline]
    fn step(&self, seen: AnySeen, now: Tick, n: u64) -> Step {
        // No state of another algorithm is ever seen; if it were, nothing would be granted.
        whichever_saw!(self, seen, each, its => each.step(its, now, n), else Step::Deny)
    }

    #[inline]
    fn publish<R: Ring>(
        &self,
        seen: AnySeen,
        ring: R,
        put: impl FnMut(usize, u64) -> bool,
    ) -> bool {
        whichever_saw!(self, seen, each, its => each.publish(its, ring, put), else true)
    }

    #[inline]
    fn note(&self, seen: AnySeen, n: u64) -> u64 {
        whichever_saw!(self, seen, each, its => each.note(its, n), else 0)
    }

    #[inline]
    fn permit(&self, seen: AnySeen, now: Tick, n: u64) -> Permit {
        whichever_saw!(self, seen, each, its => each.permit(its, now, n), else {
            unreachable!("{self:?} saw {seen:?}")
        })
    }

    #[inline]
    fn denied(&self, seen: AnySeen, now: Tick, n: u64) -> Denied {
        whichever_saw!(self, seen, each, its => each.denied(its, now, n), else {
            unreachable!("{self:?} saw {seen:?}")
        })
    }

    fn instant(&self, now: Tick) -> u64 {
        whichever!(self, Self, each => each.instant(now))
    }

    fn standing(&self, word: u64, instant: u64) -> Standing {
        whichever!(self, Self, each => each.standing(word, instant))
    }

    fn owed<R: Ring>(&self, word: u64, ring: R, instant: u64) -> u64 {
        whichever!(self, Self, each => each.owed(word, ring, instant))
    }

    fn no_place(&self, word: u64, now: Tick, skew: Duration) -> Denied {
        whichever!(self, Self, each => each.no_place(word, now, skew))
    }

    fn grid(&self) -> &Grid {
        whichever!(self, Self, each => each.grid())
    }

    fn skew_tolerance(&self) -> Option<Duration> {
        whichever!(self, Self, each => each.skew_tolerance())
    }

    fn horizon(&self) -> Option<Duration> {
        whichever!(self, Self, each => each.horizon())
    }

    #[cfg(feature = "std")]
    fn oracle(&self) -> AnyOracle {
        match self {
            Self::Gcra(each) => AnyOracle::Gcra(each.oracle()),
            Self::FixedWindow(each) => AnyOracle::FixedWindow(each.oracle()),
            Self::LeakyQueue(each) => AnyOracle::LeakyQueue(each.oracle()),
            Self::WarmUp(each) => AnyOracle::WarmUp(each.oracle()),
            Self::SubWindows(each) => AnyOracle::SubWindows(each.oracle()),
            Self::SlidingLog(each) => AnyOracle::SlidingLog(each.oracle()),
        }
    }
}

#[cfg(all(test, feature = "std"))]
mod tests;
