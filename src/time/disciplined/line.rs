//! The line by which counter readings become nanoseconds, and the next line from a new sample.
//!
//! Pure: no clock is read here, and everything is total.

use core::ops::RangeInclusive;

/// Nanoseconds for which the first line is used, and each line after a jump of the counter.
pub(super) const FIRST_NANOS: u64 = 1_000_000;

/// The most nanoseconds for which a line is used.
pub(super) const LAST_NANOS: u64 = 500_000_000;

/// A line is used for at most this many times as long as its frequency was measured.
const GROWTH: u64 = 8;

/// A line is used until its error could reach this many nanoseconds. The error of its frequency is assumed to be
/// as large as the last change of frequency.
const BUDGET_NANOS: u64 = 50_000;

/// A clock that is ahead by up to this many nanoseconds runs slower until it is not; one that is
/// further ahead is set back.
pub(super) const SLEW_MAX_NANOS: u64 = 900_000;

const _: () =
    assert!(SLEW_MAX_NANOS <= FIRST_NANOS, "a clock that runs slower never runs backwards");

/// After a longer time without a sample, a large change of frequency is taken for a suspension.
const IDLE_NANOS: u64 = 2_000_000_000;

/// Nanoseconds are kept below half their range, 292 years, so that no sum overflows.
const NANOS_MAX: u64 = u64::MAX / 2;

/// The words of a line after its beginning, those for [`reading`] first.
pub(super) const WORDS: usize = 5;

/// The words that [`reading`] needs.
pub(super) const READING_WORDS: usize = 3;

/// The counter and the system's clock, read at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(unreachable_pub, clippy::exhaustive_structs, reason = "models see it")]
pub struct Sample {
    /// The counter, in ticks of its own. It may wrap around.
    pub ticks: u64,
    /// Nanoseconds of the system's clock. They never decrease.
    pub nanos: u64,
}

/// Nanoseconds as a linear function of the counter, for a limited span.
///
/// The words are in the order of the fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// The counter where the line begins.
    pub(super) from: u64,
    /// The clock's reading there.
    pub(super) at: u64,
    /// Nanoseconds in a tick, in 2^-32: the frequency, less what brings the clock back to the system's.
    pub(super) rate: u64,
    /// Ticks for which the line is used. In this time it advances by less than 2^32 nanoseconds.
    pub(super) span: u64,
    /// The system clock's reading at the beginning.
    pub(super) truth: u64,
    /// The last measured frequency: nanoseconds in a tick, in 2^-32.
    pub(super) frequency: u64,
}

/// The reading of a line at `ticks`, from the line's beginning and its first words. `None`: the line is not used
/// there.
#[inline]
pub(super) fn reading(
    from: u64,
    &[at, rate, span]: &[u64; READING_WORDS],
    ticks: u64,
) -> Option<u64> {
    let since = ticks.wrapping_sub(from);
    // Neither wraps: see `span` and `NANOS_MAX`.
    (since < span).then(|| at.wrapping_add(since.wrapping_mul(rate) >> 32))
}

impl Line {
    /// The first line. `frequency` is approximate.
    pub(super) fn first(sample: Sample, frequency: u64) -> Self {
        let (at, frequency) = (sample.nanos.min(NANOS_MAX), frequency.max(1));
        let span = ticks_in(FIRST_NANOS, frequency);
        Self { from: sample.ticks, at, rate: frequency, span, truth: at, frequency }
    }

    pub(super) fn from_words(
        from: u64,
        &[at, rate, span, truth, frequency]: &[u64; WORDS],
    ) -> Self {
        Self { from, at, rate, span, truth, frequency }
    }

    /// The words after the line's beginning.
    pub(super) fn words(&self) -> [u64; WORDS] {
        let Self { from: _, at, rate, span, truth, frequency } = *self;
        [at, rate, span, truth, frequency]
    }

    /// The line's reading at `ticks`. `None`: it is not used there.
    pub(super) fn reading(&self, ticks: u64) -> Option<u64> {
        reading(self.from, &[self.at, self.rate, self.span], ticks)
    }

    /// No reading of this line is later than this.
    pub(super) fn end(&self) -> u64 {
        self.at + (self.span.wrapping_mul(self.rate) >> 32)
    }

    /// Whether the line begins after the sample. It does if the sample's system time is earlier than the line's, or
    /// if its counter is behind the line's beginning by no more than the counters of two cores may differ. (A
    /// counter that is further behind was reset.)
    pub(super) fn is_newer_than(&self, sample: Sample) -> bool {
        let is_behind =
            self.from.wrapping_sub(sample.ticks) < ticks_in(FIRST_NANOS, self.frequency);
        sample.nanos < self.truth || is_behind
    }

    /// The line after this one, which is not used at the sample any more.
    ///
    /// - It begins at the sample, with the system's time, or where this line's readings end if that is
    ///   later by up to [`SLEW_MAX_NANOS`]. So the clock is not set back, unless it is further ahead.
    /// - It ends at the system's time, if the frequency stays as it was since the last sample.
    /// - The less the frequency has changed, the longer it is used.
    pub(super) fn next(&self, sample: Sample) -> Self {
        let truth = sample.nanos.clamp(self.truth, NANOS_MAX);
        let elapsed = truth - self.truth;
        let measured = frequency(elapsed, sample.ticks.wrapping_sub(self.from));
        let change = measured.abs_diff(self.frequency);
        // A suspension stops one of the two clocks, and says nothing about the frequency.
        let believed = change <= self.frequency / if elapsed <= IDLE_NANOS { 3 } else { 512 };
        let frequency = if believed { measured.max(1) } else { self.frequency };
        let span_nanos =
            if believed { span_nanos(elapsed, change, frequency) } else { FIRST_NANOS };
        let ahead = match self.end().saturating_sub(truth) {
            ahead @ 0..=SLEW_MAX_NANOS => ahead,
            _ => 0,
        };
        let slowed = u128::from(frequency) * u128::from(ahead) / u128::from(span_nanos);
        Self {
            from: sample.ticks,
            at: (truth + ahead).min(NANOS_MAX),
            rate: frequency - narrow(slowed),
            span: ticks_in(span_nanos, frequency),
            truth,
            frequency,
        }
    }
}

/// How long a line is used whose frequency was measured for `elapsed` nanoseconds, and had changed by
/// `change`.
fn span_nanos(elapsed: u64, change: u64, frequency: u64) -> u64 {
    const SPANS: RangeInclusive<u64> = FIRST_NANOS..=LAST_NANOS;
    let affordable = u128::from(BUDGET_NANOS) * u128::from(frequency) / u128::from(change.max(1));
    let longest = narrow(affordable).min(elapsed.saturating_mul(GROWTH));
    longest.clamp(*SPANS.start(), *SPANS.end())
}

/// Nanoseconds in a tick, in 2^-32.
fn frequency(nanos: u64, ticks: u64) -> u64 {
    narrow((u128::from(nanos) << 32) / u128::from(ticks.max(1)))
}

/// Ticks in a number of nanoseconds, at least 1.
fn ticks_in(nanos: u64, frequency: u64) -> u64 {
    narrow((u128::from(nanos) << 32) / u128::from(frequency.max(1))).max(1)
}

fn narrow(wide: u128) -> u64 {
    u64::try_from(wide).unwrap_or(u64::MAX)
}
