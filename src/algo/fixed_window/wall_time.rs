//! From an instant of the limiter's clock to wall time.

use crate::time::Tick;

/// The offset of wall time, which is ahead of the clock or behind it. Wall time saturates at both ends of the
/// range of instants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WallTime {
    /// The first instant whose wall time is in range.
    first: u64,
    /// The wall time of that instant.
    at_first: u64,
    /// Nanoseconds from the first to the last such instant.
    span: u64,
    /// The wall time of all other instants, which lie beyond one end.
    elsewhere: u64,
}

impl WallTime {
    pub(super) const fn ahead_by(nanos: i64) -> Self {
        let by = nanos.unsigned_abs();
        match nanos < 0 {
            true => Self { first: by, at_first: 0, span: u64::MAX - by, elsewhere: 0 },
            false => Self { first: 0, at_first: by, span: u64::MAX - by, elsewhere: u64::MAX },
        }
    }

    pub(super) const fn ahead_nanos(&self) -> i64 {
        self.at_first.wrapping_sub(self.first).cast_signed()
    }

    /// Four instructions less than an addition that saturates by its sign.
    #[inline(always)]
    pub(super) fn at(&self, now: Tick) -> Tick {
        let passed = now.as_nanos().wrapping_sub(self.first);
        let sum = passed.wrapping_add(self.at_first);
        Tick::from_nanos(if passed > self.span { self.elsewhere } else { sum })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn wall_time_is_the_sum_that_ends_where_instants_end(now: u64, nanos: i64, near: bool) {
            let now = if near { nanos.unsigned_abs().wrapping_add(now % 3).wrapping_sub(1) } else { now };
            for now in [now, 0, u64::MAX, u64::MAX - nanos.unsigned_abs()] {
                let expected = Tick::from_nanos(now.saturating_add_signed(nanos));
                prop_assert_eq!(WallTime::ahead_by(nanos).at(Tick::from_nanos(now)), expected);
            }
            prop_assert_eq!(WallTime::ahead_by(nanos).ahead_nanos(), nanos);
        }
    }
}
