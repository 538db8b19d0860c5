//! Results of waiting.

use core::fmt;
use core::time::Duration;

/// The waiter's turn has come, and its cells are charged.
///
/// ```
/// use std::time::Duration;
/// use tollgate::wait::WaitQueue;
/// use tollgate::{Direct, Quota};
/// let queue = WaitQueue::new(Direct::new(Quota::per_second(9))?);
/// assert_eq!(queue.ask(&()).wait()?.waited(), Duration::ZERO);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waited {
    pub(super) waited: Duration,
}

impl Waited {
    /// How long the caller was in the queue, by the limiter's clock; zero if it did not have to
    /// wait.
    #[must_use]
    pub fn waited(&self) -> Duration {
        self.waited
    }
}

/// Why a waiter is denied. Nothing is charged.
///
/// ```
/// use std::time::Duration;
/// use tollgate::wait::{WaitError, WaitQueue};
/// use tollgate::{Direct, Quota};
///
/// let queue = WaitQueue::new(Direct::new(Quota::per_minute(1))?);
/// queue.ask(&()).wait()?;
/// let error = queue.ask(&()).max_delay(Duration::from_secs(1)).wait().unwrap_err();
/// assert!(matches!(error, WaitError::TooLate { wait } if wait > Duration::from_secs(58)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitError {
    /// The turn would come after the deadline. The caller learns this immediately.
    TooLate {
        /// The time until that turn.
        wait: Duration,
    },
    /// The waiter was in the queue, and requests outside the queue took the cells first, so that
    /// its turn would now come too late. With a token bucket, other waiters never cause this error,
    /// however late they are woken. With other algorithms, it may be caused by an earlier waiter that is
    /// woken late, or by a queue that holds more than the limit.
    Overtaken {
        /// The time until that turn, from now.
        wait: Duration,
    },
    /// The maximum number of waiters is reached.
    Crowded {
        /// The number of waiters.
        waiters: usize,
    },
    /// The request asks for more cells than the burst. They are never available at once.
    NeverFits {
        /// The cells that a fully restored key may spend at once.
        burst: u64,
    },
    /// The key finds no slot in the limiter's table, and the limiter's policy denies such keys.
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
                    "the turn would come in {wait:?}: allow a longer wait, or come back later"
                )
            }
            Self::Overtaken { wait } => write!(
                f,
                "requests outside the queue took the cells first, and the turn would now come in \
                 {wait:?}: let all requests wait in the queue, or allow a longer wait"
            ),
            Self::Crowded { waiters } => write!(
                f,
                "{waiters} are waiting, which is the maximum: come back later, or raise max_waiters"
            ),
            Self::NeverFits { burst } => write!(
                f,
                "the request exceeds the burst of {burst} cells: ask for fewer at a time, or raise the \
                 burst"
            ),
            Self::NoPlace { retry_after: Some(wait) } => {
                write!(
                    f,
                    "the key finds no slot for {wait:?}: come back then, or raise the capacity"
                )
            }
            Self::NoPlace { retry_after: None } => {
                f.write_str("the key finds no slot: come back later, or raise the capacity")
            }
        }
    }
}

impl core::error::Error for WaitError {}
