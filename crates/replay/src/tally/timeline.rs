//! Counts over time in bounded memory: as the log gets longer, the buckets get wider.

const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MILLISECOND;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// The largest number of buckets.
const BUCKETS_MAX: u64 = 4_096;

/// The widths of buckets, each a multiple of the one before. At the widest, the 584 years of a u64
/// of nanoseconds are 60 buckets.
const WIDTHS_NANOS: [u64; 16] = [
    MILLISECOND,
    10 * MILLISECOND,
    100 * MILLISECOND,
    SECOND,
    5 * SECOND,
    15 * SECOND,
    MINUTE,
    5 * MINUTE,
    15 * MINUTE,
    HOUR,
    6 * HOUR,
    DAY,
    7 * DAY,
    28 * DAY,
    364 * DAY,
    3_640 * DAY,
];

/// Round spans, for the width of a chart's column and the distance of the labels on its axis.
pub(crate) const ROUND_NANOS: [u64; 34] = [
    MILLISECOND,
    2 * MILLISECOND,
    5 * MILLISECOND,
    10 * MILLISECOND,
    20 * MILLISECOND,
    50 * MILLISECOND,
    100 * MILLISECOND,
    200 * MILLISECOND,
    500 * MILLISECOND,
    SECOND,
    2 * SECOND,
    5 * SECOND,
    10 * SECOND,
    15 * SECOND,
    30 * SECOND,
    MINUTE,
    2 * MINUTE,
    5 * MINUTE,
    10 * MINUTE,
    15 * MINUTE,
    30 * MINUTE,
    HOUR,
    2 * HOUR,
    3 * HOUR,
    6 * HOUR,
    12 * HOUR,
    DAY,
    2 * DAY,
    7 * DAY,
    14 * DAY,
    28 * DAY,
    364 * DAY,
    3_640 * DAY,
    36_400 * DAY,
];

/// Counts of several series, in buckets aligned to the log's clock.
#[derive(Debug)]
pub(crate) struct Timeline {
    offset_secs: i32,
    series: usize,
    /// Index into [`WIDTHS_NANOS`].
    width: usize,
    /// The number of the first bucket, counted from the local epoch.
    first: u64,
    /// One row of `series` counts per bucket.
    counts: Vec<u64>,
}

/// A timeline at the width of a chart.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Columns {
    /// The time of the log's clock at the start of the first column, as if it were UTC.
    pub(crate) first_local_nanos: u64,
    /// The width of a column.
    pub(crate) width_nanos: u64,
    /// For each series, one count per column.
    pub(crate) counts: Vec<Vec<u64>>,
}

impl Timeline {
    /// An empty timeline for a clock at the given offset from UTC.
    pub(crate) fn new(series: usize, offset_secs: i32) -> Self {
        Self { offset_secs, series, width: 0, first: 0, counts: Vec::new() }
    }

    /// Adds buckets up to this time, which never goes back.
    pub(crate) fn advance(&mut self, unix_nanos: u64) {
        let local = self.local_nanos(unix_nanos);
        if self.counts.is_empty() {
            self.first = local / WIDTHS_NANOS[self.width];
        }
        while local / WIDTHS_NANOS[self.width] - self.first >= BUCKETS_MAX {
            self.widen();
        }
        let buckets = local / WIDTHS_NANOS[self.width] - self.first + 1;
        let buckets = usize::try_from(buckets).expect("at most BUCKETS_MAX");
        if self.counts.len() < buckets * self.series {
            self.counts.resize(buckets * self.series, 0);
        }
    }

    /// Adds one to a series in the last bucket.
    pub(crate) fn count(&mut self, series: usize) {
        let last_row = self.counts.len() - self.series;
        self.counts[last_row + series] += 1;
    }

    /// The counts in at most `columns_max` columns of a round width.
    pub(crate) fn columns(&self, columns_max: usize) -> Columns {
        let fine = WIDTHS_NANOS[self.width];
        let from = self.first * fine;
        let rows = self.counts.len() / self.series.max(1);
        let last = from + (rows.max(1) as u64 - 1) * fine;
        let width_nanos = ROUND_NANOS
            .into_iter()
            .filter(|width| width % fine == 0)
            .find(|width| last / width - from / width < columns_max as u64)
            .unwrap_or(ROUND_NANOS[ROUND_NANOS.len() - 1]);
        let columns = usize::try_from(last / width_nanos - from / width_nanos).unwrap_or(0) + 1;
        let mut counts = vec![vec![0; columns]; self.series];
        for (row, bucket) in self.counts.chunks(self.series.max(1)).zip(self.first..) {
            let column = bucket * fine / width_nanos - from / width_nanos;
            let column = usize::try_from(column).unwrap_or(columns - 1);
            for (series, count) in counts.iter_mut().zip(row) {
                series[column] += count;
            }
        }
        Columns { first_local_nanos: from / width_nanos * width_nanos, width_nanos, counts }
    }

    /// Merges the buckets into buckets of the next width.
    fn widen(&mut self) {
        let factor = WIDTHS_NANOS[self.width + 1] / WIDTHS_NANOS[self.width];
        let first = self.first / factor;
        let mut merged: Vec<u64> = Vec::new();
        for (row, bucket) in self.counts.chunks(self.series).zip(self.first..) {
            let to = usize::try_from(bucket / factor - first).expect("fewer buckets than before");
            merged.resize((to + 1) * self.series, 0);
            for (sum, count) in merged[to * self.series..].iter_mut().zip(row) {
                *sum += count;
            }
        }
        self.width += 1;
        self.first = first;
        self.counts = merged;
    }

    fn local_nanos(&self, unix_nanos: u64) -> u64 {
        unix_nanos.saturating_add_signed(i64::from(self.offset_secs) * 1_000_000_000)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const AUGUST: u64 = 807_256_800 * SECOND;

    #[test]
    fn widths_are_multiples_of_each_other() {
        assert!(WIDTHS_NANOS.is_sorted() && ROUND_NANOS.is_sorted());
        assert!(WIDTHS_NANOS.windows(2).all(|pair| pair[1] % pair[0] == 0));
        assert!(u64::MAX / WIDTHS_NANOS[WIDTHS_NANOS.len() - 1] < BUCKETS_MAX);
        // Each width divides a round span, so a narrow terminal has room for the columns.
        for width in WIDTHS_NANOS {
            assert!(ROUND_NANOS.iter().any(|round| round % width == 0), "{width}");
        }
    }

    #[test]
    fn half_a_day_is_shown_in_quarters_of_an_hour() {
        let mut timeline = Timeline::new(1, 0);
        for second in (0..46_321).step_by(7) {
            timeline.advance(AUGUST + second * SECOND);
            timeline.count(0);
        }
        let columns = timeline.columns(66);
        assert_eq!(columns.width_nanos, 15 * MINUTE);
        assert_eq!(columns.first_local_nanos, AUGUST);
        assert_eq!(columns.counts[0].len(), 52);
        assert_eq!(columns.counts[0].iter().sum::<u64>(), 46_321_u64.div_ceil(7));
        assert_eq!(timeline.columns(20).width_nanos, HOUR);
    }

    #[test]
    fn columns_start_at_midnight_of_the_logs_clock() {
        let mut timeline = Timeline::new(1, 5 * 3_600 + 1_800);
        for hour in 0..200 {
            timeline.advance(AUGUST + hour * HOUR);
            timeline.count(0);
        }
        let columns = timeline.columns(10);
        assert_eq!(columns.width_nanos, DAY);
        assert_eq!(columns.first_local_nanos % DAY, 0);
    }

    #[test]
    fn zero_or_one_instant_is_one_column() {
        let mut timeline = Timeline::new(2, 0);
        assert_eq!(timeline.columns(60).counts, [[0], [0]]);
        timeline.advance(0);
        timeline.count(1);
        assert_eq!(timeline.columns(60).counts, [[0], [1]]);
    }

    proptest! {
        #[test]
        fn no_count_is_lost_and_memory_is_bounded(
            mut times in prop::collection::vec(
                prop_oneof![0..u64::MAX, 0..DAY, 0..SECOND], 1..60),
            columns_max in 1_usize..200,
            offset_secs in -86_000..86_000,
        ) {
            times.sort_unstable();
            let mut timeline = Timeline::new(2, offset_secs);
            for time in &times {
                timeline.advance(*time);
                timeline.count(0);
            }
            prop_assert!(timeline.counts.len() as u64 <= 2 * BUCKETS_MAX);
            let columns = timeline.columns(columns_max);
            prop_assert!(columns.counts[0].len() <= columns_max.max(7));
            prop_assert_eq!(columns.counts[0].iter().sum::<u64>(), times.len() as u64);
            prop_assert_eq!(columns.counts[1].iter().sum::<u64>(), 0);
        }
    }
}
