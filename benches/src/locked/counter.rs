//! The sliding window counter, as textbooks write it.

use super::Locked;

/// The counts of this window and of the last one, which weighs as much as the sliding window overlaps it.
#[derive(Debug, Default)]
pub struct TwoWindows {
    current: u32,
    last: u32,
    end_nanos: u64,
}

/// At most `limit` cells in a period, estimated.
#[derive(Clone, Copy, Debug)]
pub struct WeighedRate {
    limit: f64,
    period_nanos: u64,
}

impl Locked for TwoWindows {
    type Rule = WeighedRate;

    fn rule(limit: usize, period_nanos: u64) -> WeighedRate {
        let limit = u32::try_from(limit).expect("a small limit");
        WeighedRate { limit: limit.into(), period_nanos }
    }

    fn new(_: &WeighedRate) -> Self {
        Self::default()
    }

    #[inline]
    #[allow(clippy::cast_precision_loss, reason = "as textbooks do")]
    fn check(&mut self, rule: &WeighedRate, now_nanos: u64) -> bool {
        if now_nanos >= self.end_nanos {
            let passed = (now_nanos - self.end_nanos) / rule.period_nanos + 1;
            let last = if passed == 1 { self.current } else { 0 };
            *self =
                Self { current: 0, last, end_nanos: self.end_nanos + passed * rule.period_nanos };
        }
        let overlap = (self.end_nanos - now_nanos) as f64 / rule.period_nanos as f64;
        let estimate = f64::from(self.current) + f64::from(self.last) * overlap;
        let admitted = estimate + 1.0 <= rule.limit;
        self.current += u32::from(admitted);
        admitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_window_weighs_by_its_overlap() {
        let rule = TwoWindows::rule(7, 60);
        let mut state = TwoWindows::new(&rule);
        let granted =
            |state: &mut TwoWindows, now| (0..20).filter(|_| state.check(&rule, now)).count();
        assert_eq!(granted(&mut state, 119), 7);
        // Three quarters of the seven: 5.25, and one more fits.
        assert_eq!(granted(&mut state, 135), 1);
        assert_eq!(granted(&mut state, 300), 7, "both windows have passed");
    }
}
