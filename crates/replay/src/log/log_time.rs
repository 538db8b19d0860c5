//! The time of the log, made monotonic for a limiter.

use crate::log::fields::Stamp;

/// The latest time of all lines so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogTime {
    first: Stamp,
    latest_unix_nanos: u64,
    back: BackInTime,
}

/// How often and how far a log went back in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BackInTime {
    /// Lines older than a line before them.
    pub(crate) lines: u64,
    /// The largest difference between such a line and the latest time before it.
    pub(crate) max_nanos: u64,
}

impl LogTime {
    /// Time starts with the first line, even if it is not the oldest.
    pub(crate) fn starting(first: Stamp) -> Self {
        Self { first, latest_unix_nanos: first.unix_nanos, back: BackInTime::default() }
    }

    /// The time at which a line is decided: its own, or the latest seen if that is later.
    pub(crate) fn decided_at(&mut self, stamp: Stamp) -> u64 {
        if let Some(behind_nanos) = self.latest_unix_nanos.checked_sub(stamp.unix_nanos) {
            if behind_nanos > 0 {
                self.back.lines += 1;
                self.back.max_nanos = self.back.max_nanos.max(behind_nanos);
            }
        } else {
            self.latest_unix_nanos = stamp.unix_nanos;
        }
        self.latest_unix_nanos
    }

    /// Nanoseconds between the Unix epoch and the first line.
    pub(crate) fn first_unix_nanos(&self) -> u64 {
        self.first.unix_nanos
    }

    /// Nanoseconds between the Unix epoch and the latest time seen.
    pub(crate) fn latest_unix_nanos(&self) -> u64 {
        self.latest_unix_nanos
    }

    /// The offset from UTC of the first line: that of the log's clock.
    pub(crate) fn offset_secs(&self) -> i32 {
        self.first.offset_secs
    }

    /// How often and how far the log went back.
    pub(crate) fn back(&self) -> BackInTime {
        self.back
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_does_not_advance_while_the_log_is_behind() {
        let stamp = |unix_nanos| Stamp { unix_nanos, offset_secs: 0 };
        let mut time = LogTime::starting(stamp(100));
        let decided: Vec<u64> =
            [100, 90, 150, 149, 150, 120, 160].map(|at| time.decided_at(stamp(at))).to_vec();
        assert_eq!(decided, [100, 100, 150, 150, 150, 150, 160]);
        assert_eq!(time.back(), BackInTime { lines: 3, max_nanos: 30 });
        assert_eq!((time.first_unix_nanos(), time.latest_unix_nanos()), (100, 160));
    }
}
