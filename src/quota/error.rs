//! Errors of quotas: why a quota cannot be used, and what to write instead.

use core::fmt;

/// Why a quota cannot be used. Its text says what to do instead.
///
/// ```
/// use tollgate::{Quota, QuotaError};
///
/// let error = "10 per fortnight".parse::<Quota>().unwrap_err();
/// assert!(matches!(error, QuotaError::Syntax { column: 8, .. }));
/// assert_eq!(
///     error.to_string(),
///     "column 8: expected a unit of time (ns, us, ms, s, min, h, d, w, y), as in \"10 per minute\"",
/// );
/// let error = "10/s burst 0".parse::<Quota>().unwrap_err();
/// assert_eq!(error, QuotaError::Range { column: 12, error: &QuotaError::ZeroBurst });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum QuotaError {
    /// A limit of zero cells.
    ZeroLimit,
    /// A period of zero length.
    ZeroPeriod,
    /// A burst of zero cells.
    ZeroBurst,
    /// More than 10^9 cells a second.
    TooFast,
    /// Less than one cell in 366 days.
    TooSlow,
    /// A period of more than 100 years.
    PeriodTooLong,
    /// A limit of more than 2^40 cells.
    LimitTooLarge,
    /// A burst of more than 2^40 cells.
    BurstTooLarge,
    /// The whole burst would take more than 146 years to come back.
    RefillTooLong,
    /// The state of a fixed window has no room for this limit beside the time.
    WindowLimitTooLarge,
    /// The state of sub-windows has no room for this limit beside the time.
    SubWindowLimitTooLarge,
    /// A window cannot be divided into this many sub-windows.
    SubWindowCount,
    /// A log of more than 65,536 events.
    LogLimitTooLarge,
    /// A log has more than four rates.
    TooManyRates,
    /// The state of a log has no room for these limits and windows together.
    LogWindowsTooFarApart,
    /// The UTC offset of an aligned window is a day or more.
    UtcOffsetTooLarge,
    /// The UTC offset of a limiter cannot change while it is in use.
    UtcOffsetFixed,
    /// The cold factor of a warm-up is 0, or above 100.
    ColdFactorOutOfRange,
    /// The state of a warm-up has no room for this period at this rate.
    WarmUpTooLong,
    /// Leases take more than half of the burst, or of the limit of a window.
    LeaseCellsTooMany,
    /// The quota of a plan is too fast for the states of its limiter.
    PlanTooFast,
    /// The quota of a plan has a limit too large for the states of its limiter, which has fixed windows.
    PlanLimitTooLarge,
    /// The quota of a plan has a period too long for the states of its limiter, or windows of
    /// another length.
    PlanTooLong,
    /// The new quota is faster than the states of a `DynamicGcra` can express.
    ChangeTooFast,
    /// The new burst is larger than the states of a `DynamicGcra` can hold.
    ChangeBurstTooLarge,
    /// The burst has grown too much for keys to keep their share of it, at once or by many changes in proportion.
    InheritTooFar,
    /// The quota is being changed by another thread.
    ChangeUnderWay,
    /// The text is not a quota.
    Syntax {
        /// Where, counted in characters from 1.
        column: usize,
        /// The text that is expected there, or how to write what was probably meant.
        expected: &'static str,
    },
    /// A number of the text is out of range.
    Range {
        /// Where the number begins, counted in characters from 1.
        column: usize,
        /// The error that [`Quota::validate`](crate::Quota::validate) returns for the same quota.
        error: &'static Self,
    },
}

impl fmt::Display for QuotaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ZeroLimit => {
                "the limit is 0: a quota needs at least 1 cell per period \
                 (to deny everything, do not ask a limiter)"
            }
            Self::ZeroPeriod => "the period is 0: give it a length, for example 1 s",
            Self::ZeroBurst => {
                "the burst is 0, so nothing could ever pass: use 1 for strict spacing, \
                 or leave the burst out to have it equal the limit"
            }
            Self::TooFast => {
                "the rate is above 1,000,000,000 cells a second: lower the limit, \
                 or count in larger cells (kilobytes instead of bytes)"
            }
            Self::TooSlow => {
                "the rate is below one cell in 366 days: raise the limit or shorten the period"
            }
            Self::PeriodTooLong => "the period is longer than 100 years: shorten it",
            Self::LimitTooLarge => {
                "the limit is above 2^40 cells: count in larger cells, or shorten limit and \
                 period by the same factor"
            }
            Self::BurstTooLarge => "the burst is above 2^40 cells: count in larger cells",
            Self::RefillTooLong => {
                "the whole burst would take more than 146 years to come back: lower the burst \
                 or raise the rate"
            }
            Self::WindowLimitTooLarge => {
                "a fixed window counts at most 1,073,741,823 cells: use the token bucket, \
                 or count in larger cells"
            }
            Self::SubWindowLimitTooLarge => {
                "the limit is too large for sub-windows this short: use fewer of them, a longer \
                 period, the token bucket, or count in larger cells"
            }
            Self::SubWindowCount => {
                "a window has 2 to 256 sub-windows (a sliding counter 1 to 256 older windows) of \
                 at least a nanosecond each"
            }
            Self::LogLimitTooLarge => {
                "a log keeps at most 65,536 events a window: use sub-windows or the token \
                 bucket, or count in larger cells"
            }
            Self::TooManyRates => {
                "a log has up to four rates, the quota's own and a minimum gap included: leave \
                 out those that another one implies"
            }
            Self::LogWindowsTooFarApart => {
                "the log's windows are too far apart to be told from one log of so many events: \
                 lower the largest limit, or use two limiters"
            }
            Self::UtcOffsetTooLarge => {
                "the UTC offset is a day or more: give seconds east of Greenwich, \
                 for example 3600 for +01:00"
            }
            Self::UtcOffsetFixed => {
                "the windows of this limiter do not follow the wall clock, so its UTC offset cannot \
                 change: use FixedWindow::aligned()"
            }
            Self::ColdFactorOutOfRange => {
                "the cold factor is not within 1 and 100: 3 is usual, 1 is no warm-up at all"
            }
            Self::WarmUpTooLong => {
                "the warm-up is too long for so high a rate: shorten it or the longest wait, \
                 lower the burst, or count in larger cells"
            }
            Self::LeaseCellsTooMany => {
                "a lease takes at most half of the burst, or of the limit of a window, at a time: raise it, \
                 or let leases take fewer cells"
            }
            Self::PlanTooFast => {
                "the limiter's states cannot tell so fast a quota: build the limiter with the fastest \
                 quota of all, and with Gcra::for_plans; if it is built so, count in larger cells"
            }
            Self::PlanLimitTooLarge => {
                "the limiter's states cannot count so many cells: build the limiter with the largest limit of all"
            }
            Self::PlanTooLong => {
                "the limiter's states cannot hold so long a debt, or windows of that length: build the \
                 limiter with Gcra::for_plans, or fixed windows of the same period; if it is built so, give \
                 slow plans a slower limiter of their own"
            }
            Self::ChangeTooFast => {
                "the rate is so much above the one that the limiter was built with that its states \
                 cannot tell it: build it with the fastest quota that it will have, and lower that"
            }
            Self::ChangeBurstTooLarge => {
                "the burst is so much above the one that the limiter was built with that its states \
                 cannot hold it: build it with the largest burst that it will have, and lower that"
            }
            Self::InheritTooFar => {
                "the burst grows too much, at once or by many changes in proportion, to leave keys their \
                 shares of it: inherit as is, additively, or reset; or build the limiter anew"
            }
            Self::ChangeUnderWay => {
                "another thread is changing the quota at this moment: try again"
            }
            Self::Syntax { column, expected } => {
                return write!(f, "column {column}: expected {expected}");
            }
            Self::Range { column, error } => return write!(f, "column {column}: {error}"),
        })
    }
}

impl core::error::Error for QuotaError {}
