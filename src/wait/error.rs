//! What comes of waiting.

use core::fmt;
use core::time::Duration;

/// Its turn has come: the cells have been charged.
///
/// ```
/// use std::time::Duration;
/// use tollgate::wait::WaitQueue;
/// use tollgate::{Direct, Quota};
/// let line = WaitQueue::new(Direct::new(Quota::per_second(9))?);
/// assert_eq!(line.wait(&(), 1, Duration::ZERO)?.waited(), Duration::ZERO);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waited {
    pub(super) waited: Duration,
}

impl Waited {
    /// How long it stood in line, by the limiter's clock; zero if it did not have to.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::wait::WaitQueue;
    /// # use tollgate::{Direct, Quota};
    /// let line = WaitQueue::new(Direct::new(Quota::per_second(10).burst(1))?);
    /// line.wait(&(), 1, Duration::MAX)?;
    /// assert!(line.wait(&(), 1, Duration::MAX)?.waited() > Duration::from_millis(1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn waited(&self) -> Duration {
        self.waited
    }
}

/// Why somebody who was willing to wait is denied. Nothing is charged.
///
/// ```
/// use std::time::Duration;
/// use tollgate::wait::{WaitError, WaitQueue};
/// use tollgate::{Direct, Quota};
///
/// let line = WaitQueue::new(Direct::new(Quota::per_minute(1))?);
/// line.wait(&(), 1, Duration::ZERO)?;
/// let error = line.wait(&(), 1, Duration::from_secs(1)).unwrap_err();
/// assert!(matches!(error, WaitError::TooLate { wait } if wait > Duration::from_secs(58)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitError {
    /// Its turn would come later than it is willing to wait for. It is told so at once.
    TooLate {
        /// How long it would have had to wait.
        wait: Duration,
    },
    /// It stood in line, and others who stand in no line took the cells first, so that its turn would
    /// now come too late. Those in line are no reason, however late they are woken.
    Overtaken {
        /// How long it would have had to wait from then on.
        wait: Duration,
    },
    /// As many are waiting as may wait.
    Crowded {
        /// How many that is.
        waiters: usize,
    },
    /// More cells than the burst: they never come together.
    NeverFits {
        /// The cells that a fully restored key may spend at once.
        burst: u64,
    },
    /// The key finds no place in the limiter's table, whose policy is to deny it then.
    NoPlace {
        /// When to come back, if that is known.
        retry_after: Option<Duration>,
    },
}

impl fmt::Display for WaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLate { wait } => {
                write!(
                    f,
                    "its turn would come in {wait:?}: allow a longer wait, or come back later"
                )
            }
            Self::Overtaken { wait } => write!(
                f,
                "others who did not wait took the cells first, its turn would now come in {wait:?}: \
                 let all of them wait in line, or allow a longer wait"
            ),
            Self::Crowded { waiters } => write!(
                f,
                "{waiters} are waiting, as many as may: come back later, or raise max_waiters"
            ),
            Self::NeverFits { burst } => write!(
                f,
                "more cells than the burst of {burst} never come together: ask for fewer at a time, \
                 or raise the burst"
            ),
            Self::NoPlace { retry_after: Some(wait) } => {
                write!(
                    f,
                    "the key finds no place for {wait:?}: come back then, or raise the capacity"
                )
            }
            Self::NoPlace { retry_after: None } => {
                f.write_str("the key finds no place: come back later, or raise the capacity")
            }
        }
    }
}

impl core::error::Error for WaitError {}
