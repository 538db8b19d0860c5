//! Compares our rows with the fastest other row that does the same.

use super::losses::{Side, algorithm, alike, is_for_one_thread, sides, time};
use crate::saved::TimedRow;

/// The source of time by which rows are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    OwnClock,
    TimeGiven,
}

impl By {
    /// Whether a row has this source of time.
    pub(super) fn is_of(self, row: &TimedRow) -> bool {
        time(&row.name) == Some(if self == Self::OwnClock { 0 } else { 1 })
    }
}

/// A row of ours, and the fastest other row that does the same.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair<'a> {
    pub(super) ours: &'a TimedRow,
    pub(super) theirs: &'a TimedRow,
}

impl Pair<'_> {
    /// The other row's time divided by ours.
    pub(super) fn times(&self) -> f64 {
        self.theirs.median_nanos / self.ours.median_nanos
    }
}

/// The pair of a table, by one clock, that is worst for us. A limiter for one thread does not do the same:
/// its row is in the tables and among the losses only.
pub(super) fn worst(rows: &[TimedRow], by: By) -> Option<Pair<'_>> {
    let sides = sides(rows);
    let of =
        |side: Side| rows.iter().zip(&sides).filter(move |(row, is)| **is == side && by.is_of(row));
    let others = of(Side::Theirs).map(|(row, _)| row);
    let others: Vec<&TimedRow> = others.filter(|row| !is_for_one_thread(&row.name)).collect();
    let ours = plain(of(Side::Ours).map(|(row, _)| row));
    let pairs = ours.into_iter().filter_map(|ours| {
        let alike = others
            .iter()
            .copied()
            .filter(|theirs| theirs.threads == ours.threads && alike(&ours.name, &theirs.name));
        let theirs = alike.min_by(|a, b| a.median_nanos.total_cmp(&b.median_nanos))?;
        Some(Pair { ours, theirs })
    });
    pairs.min_by(|a, b| a.times().total_cmp(&b.times()))
}

/// The plain call of each algorithm and number of threads: `allow`, where the others answer yes or no
/// only, or else the first. Batches, leases and other clocks have targets of their own.
fn plain<'a>(ours: impl Iterator<Item = &'a TimedRow>) -> Vec<&'a TimedRow> {
    let mut plain: Vec<&TimedRow> = Vec::new();
    for row in ours {
        let same = |other: &&mut &TimedRow| {
            other.threads == row.threads && algorithm(&other.name) == algorithm(&row.name)
        };
        match plain.iter_mut().find(same) {
            None => plain.push(row),
            Some(other) if row.name.contains(" allow") && !other.name.contains(" allow") => {
                *other = row;
            }
            Some(_) => {}
        }
    }
    plain
}

/// The limiter that a row measures: the row's name without the clock and without the table's prefix.
pub(super) fn limiter_of(name: &str) -> &str {
    let name = [", own clock", ", time given", ", FakeRelativeClock"]
        .iter()
        .find_map(|clock| name.split_once(clock))
        .map_or(name, |(limiter, _)| limiter);
    name.split_once(": ").map_or(name, |(_, limiter)| limiter)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::saved::Admitted;

    /// A row as saved, in which all was admitted.
    pub(in crate::publish) fn row(name: &str, threads: usize, median_nanos: f64) -> TimedRow {
        TimedRow {
            name: name.to_owned(),
            threads,
            median_nanos,
            quartiles_nanos: [median_nanos; 2],
            millions_per_second: 1.0,
            admitted: Some(Admitted { count: 1, of: 1 }),
        }
    }

    #[test]
    fn the_plain_call_is_compared_with_the_fastest_other() {
        let rows = [
            row("tollgate, own clock", 1, 20.0),
            row("tollgate batch of 16, own clock", 1, 2.0),
            row("governor, own clock", 1, 15.0),
            row("ratelimit, own clock", 1, 30.0),
            row("DPDK meter for one thread, own clock", 1, 7.0),
            row("tollgate, time given", 1, 5.0),
        ];
        let pair = worst(&rows, By::OwnClock).expect("a pair");
        assert_eq!((pair.ours.median_nanos, pair.times()), (20.0, 0.75));
        assert_eq!(limiter_of(&pair.theirs.name), "governor");
        assert!(worst(&rows, By::TimeGiven).is_none());
    }

    #[test]
    fn of_several_algorithms_and_threads_the_worst_pair_is_taken() {
        let rows = [
            row("SubWindows, own clock", 1, 10.0),
            row("SubWindows allow, own clock", 1, 8.0),
            row("SlidingLog allow, own clock", 1, 10.0),
            row("SlidingLog allow, own clock", 2, 30.0),
            row("locked sub-windows, own clock", 1, 9.0),
            row("locked log, own clock", 1, 11.0),
            row("locked log, own clock", 2, 21.0),
        ];
        let pair = worst(&rows, By::OwnClock).expect("a pair");
        assert_eq!((pair.ours.threads, pair.times()), (2, 0.7));
        let pair = worst(&rows[..5], By::OwnClock).expect("a pair");
        assert_eq!(pair.ours.name, "SubWindows allow, own clock");
    }
}
