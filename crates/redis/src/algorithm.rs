//! The algorithms that the server counts by.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use tollgate::{AnyAlgorithm, FixedWindow, Gcra, Quota, SlidingCounter, SlidingLog};

/// How the server counts. Each variant is the algorithm of the same name in [`tollgate`], on whole
/// microseconds.
///
/// ```
/// use std::time::Duration;
/// use tollgate::Quota;
/// use tollgate_redis::Algorithm;
///
/// let named: Algorithm = "fixed-window-aligned".parse()?;
/// assert_eq!(named, Algorithm::FixedWindow { utc_offset_secs: Some(0) });
/// let log = Algorithm::sliding_log().and(Quota::per_hour(100)).min_gap(Duration::from_millis(5));
/// assert_ne!(log, Algorithm::sliding_log());
/// # Ok::<(), tollgate_redis::UnknownAlgorithm>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Algorithm {
    /// A token bucket: cells come back one by one at an even rate, up to the burst.
    #[default]
    Gcra,
    /// Up to the limit in each window. The burst is not used.
    FixedWindow {
        /// `None`: a window begins with the first cell after the last window has ended. Otherwise
        /// windows follow the wall clock this many seconds east of Greenwich, less than a day.
        utc_offset_secs: Option<i32>,
    },
    /// The current window plus what the sliding window still covers of the older ones, assuming
    /// that their cells are spread evenly. The burst is not used.
    SlidingCounter {
        /// How many older sub-windows there are, each the period divided by this number: 1 to 256.
        older: u32,
        /// Seconds east of Greenwich, less than a day.
        utc_offset_secs: i32,
    },
    /// Every event, exactly. Each cell takes about 130 bytes of the server's memory, so a limit has
    /// [`MAX_LOG_LIMIT`](Self::MAX_LOG_LIMIT) cells at most, and one request
    /// [`MAX_LOG_CELLS_PER_CALL`](Self::MAX_LOG_CELLS_PER_CALL). The burst is not used.
    SlidingLog {
        /// Further rates, at most three.
        more: Vec<Quota>,
        /// Whether denied requests count like admitted ones.
        count_denials: bool,
    },
}

impl Algorithm {
    /// The names that parse. Each one names an algorithm without options.
    ///
    /// ```
    /// use tollgate_redis::Algorithm;
    /// assert!(Algorithm::NAMES.iter().all(|name| name.parse::<Algorithm>().is_ok()));
    /// ```
    pub const NAMES: &[&str] =
        &["gcra", "fixed-window", "fixed-window-aligned", "sliding-counter", "sliding-log"];

    /// The largest limit of a sliding log, in cells: about 1.3 MB of the server's memory a key. A
    /// larger limit is [`RedisLimiterError::LogTooLarge`](crate::RedisLimiterError::LogTooLarge).
    ///
    /// ```
    /// use tollgate::Quota;
    /// use tollgate_redis::{RedisLimiter, RedisLimiterError, Algorithm, Store};
    ///
    /// let store = Store::builder("redis://127.0.0.1:6379").build()?;
    /// let log = |limit| RedisLimiter::builder(&store, "a", Quota::per_hour(limit))
    ///     .algorithm(Algorithm::sliding_log())
    ///     .build();
    /// assert!(log(Algorithm::MAX_LOG_LIMIT).is_ok());
    /// assert_eq!(log(Algorithm::MAX_LOG_LIMIT + 1).unwrap_err(), RedisLimiterError::LogTooLarge);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub const MAX_LOG_LIMIT: u64 = 10_000;

    /// The largest number of cells that one request of a sliding log can have. The server does
    /// nothing else while it enters them. A larger request is denied without a retry time, as is
    /// one for more than the limit: ask for fewer cells at a time, or use the sliding counter.
    ///
    /// ```
    /// use tollgate_redis::Algorithm;
    /// assert!(Algorithm::MAX_LOG_CELLS_PER_CALL < Algorithm::MAX_LOG_LIMIT);
    /// ```
    pub const MAX_LOG_CELLS_PER_CALL: u64 = 1_000;

    /// Windows that begin with their first cell.
    ///
    /// ```
    /// use tollgate_redis::Algorithm;
    /// assert_eq!(Algorithm::fixed_window(), "fixed-window".parse().unwrap());
    /// ```
    #[must_use]
    pub const fn fixed_window() -> Self {
        Self::FixedWindow { utc_offset_secs: None }
    }

    /// Windows of the wall clock in UTC.
    ///
    /// ```
    /// use tollgate_redis::Algorithm;
    /// assert_eq!(Algorithm::aligned_window(), "fixed-window-aligned".parse().unwrap());
    /// ```
    #[must_use]
    pub const fn aligned_window() -> Self {
        Self::FixedWindow { utc_offset_secs: Some(0) }
    }

    /// Two windows of one period, of which the older one is weighed.
    ///
    /// ```
    /// use tollgate_redis::Algorithm;
    /// assert_eq!(Algorithm::sliding_counter(), "sliding-counter".parse().unwrap());
    /// ```
    #[must_use]
    pub const fn sliding_counter() -> Self {
        Self::SlidingCounter { older: 1, utc_offset_secs: 0 }
    }

    /// The quota's rate alone. Denied requests are ignored.
    ///
    /// ```
    /// use tollgate_redis::Algorithm;
    /// assert_eq!(Algorithm::sliding_log(), "sliding-log".parse().unwrap());
    /// ```
    #[must_use]
    pub const fn sliding_log() -> Self {
        Self::SlidingLog { more: Vec::new(), count_denials: false }
    }

    /// Adds a further rate to a log. Other algorithms have one rate and stay as they are.
    ///
    /// ```
    /// use tollgate::Quota;
    /// use tollgate_redis::Algorithm;
    /// let log = Algorithm::sliding_log().and(Quota::per_hour(500));
    /// assert!(matches!(log, Algorithm::SlidingLog { more, .. } if more.len() == 1));
    /// ```
    #[must_use]
    pub fn and(mut self, rate: Quota) -> Self {
        if let Self::SlidingLog { more, .. } = &mut self {
            more.push(rate);
        }
        self
    }

    /// Keeps events of a log at least this far apart: a rate of one in a window of that length.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate_redis::Algorithm;
    /// let log = Algorithm::sliding_log().min_gap(Duration::from_millis(2));
    /// assert!(matches!(log, Algorithm::SlidingLog { more, .. } if more[0].limit() == 1));
    /// ```
    #[must_use]
    pub fn min_gap(self, gap: Duration) -> Self {
        self.and(Quota::new(1, gap))
    }

    /// Lets denied requests of a log count like admitted ones. Other algorithms stay as they are.
    ///
    /// ```
    /// use tollgate_redis::Algorithm;
    /// let log = Algorithm::sliding_log().counting_denials();
    /// assert!(matches!(log, Algorithm::SlidingLog { count_denials: true, .. }));
    /// ```
    #[must_use]
    pub fn counting_denials(mut self) -> Self {
        if let Self::SlidingLog { count_denials, .. } = &mut self {
            *count_denials = true;
        }
        self
    }

    /// The same algorithm for a limiter in this process.
    ///
    /// ```
    /// use tollgate::{Direct, Quota};
    /// use tollgate_redis::Algorithm;
    ///
    /// let algorithm = Algorithm::sliding_counter().algorithm();
    /// assert!(Direct::builder(Quota::per_minute(10)).algorithm(algorithm).build().is_ok());
    /// ```
    #[must_use]
    pub fn algorithm(&self) -> AnyAlgorithm {
        match self {
            Self::Gcra => Gcra::new().into(),
            Self::FixedWindow { utc_offset_secs: None } => FixedWindow::anchored().into(),
            Self::FixedWindow { utc_offset_secs: Some(secs) } => {
                FixedWindow::aligned().utc_offset_secs(*secs).into()
            }
            Self::SlidingCounter { older, utc_offset_secs } => {
                SlidingCounter::new().older(*older).utc_offset_secs(*utc_offset_secs).into()
            }
            Self::SlidingLog { more, count_denials } => {
                let log = more.iter().fold(SlidingLog::new(), |log, rate| log.and(*rate));
                if *count_denials { log.count_denials().into() } else { log.into() }
            }
        }
    }
}

/// The name is none of [`Algorithm::NAMES`].
///
/// ```
/// use tollgate_redis::Algorithm;
/// let error = "leaky-queue".parse::<Algorithm>().unwrap_err();
/// assert!(error.to_string().starts_with("a server does not count this way: use one of gcra, "));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnknownAlgorithm;

impl fmt::Display for UnknownAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a server does not count this way: use one of {}", Algorithm::NAMES.join(", "))
    }
}

impl core::error::Error for UnknownAlgorithm {}

impl FromStr for Algorithm {
    type Err = UnknownAlgorithm;

    fn from_str(name: &str) -> Result<Self, UnknownAlgorithm> {
        Ok(match name {
            "gcra" => Self::Gcra,
            "fixed-window" => Self::fixed_window(),
            "fixed-window-aligned" => Self::aligned_window(),
            "sliding-counter" => Self::sliding_counter(),
            "sliding-log" => Self::sliding_log(),
            _ => return Err(UnknownAlgorithm),
        })
    }
}
