//! Maps numbers to pixels, and chooses the ticks of an axis.

/// A linear scale from 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct Linear {
    max: f64,
    pixels: f64,
}

impl Linear {
    /// A scale on which `max` is at `pixels`.
    pub(super) fn new(max: u64, pixels: f64) -> Self {
        Self { max: max.max(1) as f64, pixels }
    }

    pub(super) fn at(self, value: u64) -> f64 {
        value as f64 / self.max * self.pixels
    }
}

/// A logarithmic scale.
#[derive(Clone, Copy, Debug)]
pub(super) struct Log {
    min_log: f64,
    span_log: f64,
    pixels: f64,
}

impl Log {
    /// A scale that starts at `min`, with `max` at `pixels`.
    pub(super) fn new(min: u64, max: u64, pixels: f64) -> Self {
        let min = min.max(1) as f64;
        let min_log = min.ln();
        Self { min_log, span_log: (max as f64).max(min * 2.0).ln() - min_log, pixels }
    }

    pub(super) fn at(self, value: u64) -> f64 {
        let part = ((value.max(1) as f64).ln() - self.min_log) / self.span_log;
        part.clamp(0.0, 1.0) * self.pixels
    }
}

/// Two to five evenly spaced round numbers from 0 to `max`; just 0 if `max` is 0.
pub(super) fn ticks(max: u64) -> Vec<u64> {
    let steps = (0..19).flat_map(|power| [1, 2, 5].map(|digit| digit * 10_u64.pow(power)));
    let step = steps.into_iter().find(|step| max / step <= 4).unwrap_or(u64::MAX);
    (0..=max / step).map(|index| index * step).collect()
}

/// 1, 2, 5, 10 and so on from `min` to `max`. A wide range has only powers of ten, and a wider range
/// only some of them.
pub(super) fn log_ticks(min: u64, max: u64) -> Vec<u64> {
    let (first, last) = (min.max(1).ilog10(), max.max(1).ilog10());
    let powers = last.saturating_sub(first) + 1;
    let digits: &[u64] = if powers <= 3 { &[1, 2, 5] } else { &[1] };
    let step = powers.div_ceil(8).max(1) as usize;
    let tick = |power, digit| 10_u64.checked_pow(power)?.checked_mul(digit);
    (first..=last)
        .step_by(step)
        .flat_map(|power| digits.iter().filter_map(move |digit| tick(power, *digit)))
        .filter(|tick| (min..=max).contains(tick))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(ticks(0), [0]);
        assert_eq!(ticks(1), [0, 1]);
        assert_eq!(ticks(9), [0, 2, 4, 6, 8]);
        assert_eq!(ticks(242), [0, 50, 100, 150, 200]);
        assert!(ticks(u64::MAX).len() <= 5);
        assert_eq!(log_ticks(1, 75), [1, 2, 5, 10, 20, 50]);
        assert_eq!(log_ticks(1, 1), [1]);
        assert_eq!(log_ticks(1, 123_456), [1, 10, 100, 1_000, 10_000, 100_000]);
        assert_eq!(log_ticks(1_000, 9_000), [1_000, 2_000, 5_000]);
        assert!(log_ticks(1, u64::MAX).len() <= 10);
    }

    #[test]
    fn scales_clamp_to_their_ends() {
        assert_eq!((Linear::new(8, 100.0).at(4), Linear::new(0, 100.0).at(0)), (50.0, 0.0));
        let log = Log::new(1, 100, 80.0);
        assert_eq!((log.at(1), log.at(0), log.at(200)), (0.0, 0.0, 80.0));
        assert!((log.at(10) - 40.0).abs() < 1e-9);
        let late = Log::new(1_000, 10_000, 10.0);
        assert_eq!((late.at(1), late.at(1_000), late.at(10_000)), (0.0, 0.0, 10.0));
    }
}
