//! Finds the figures in which tollgate loses.
//!
//! A row's owner and its rivals follow from its name, which reads "limiter, clock" or "table: limiter,
//! clock". The limiter is `tollgate`, the name of one of its types, a peer, or a lock; the clock is "time
//! given" or "own clock". If a name leaves something open, the row is compared with every row that it may
//! belong to: a loss may be listed twice, but none is left out.

use crate::saved::{CallsRow, Item, SHOWN, Saved, TimedRow};

/// The owner of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// A floor: a lower bound that decides nothing.
    Floor,
    Ours,
    /// A peer's, or a lock's.
    Theirs,
}

/// Our types that occur in names of rows.
const OUR_TYPES: [&str; 11] = [
    "tollgate",
    "AnyAlgorithm",
    "Direct",
    "FixedWindow",
    "Gcra",
    "LeakyQueue",
    "Limiter",
    "SlidingCounter",
    "SlidingLog",
    "SubWindows",
    "WarmUp",
];

pub(super) fn is_ours(name: &str) -> bool {
    let limiter = name.split_once(", ").map_or(name, |(limiter, _)| limiter);
    let limiter = limiter.rsplit_once(": ").map_or(limiter, |(_, limiter)| limiter);
    let limiter = limiter.strip_prefix("any ").unwrap_or(limiter);
    OUR_TYPES.into_iter().any(|kind| {
        limiter
            .strip_prefix(kind)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '(']))
    })
}

/// Whether a row is a limiter that threads cannot share, by its name.
pub(super) fn is_for_one_thread(name: &str) -> bool {
    name.contains("for one thread")
}

/// The owner of each row of a comparison. If no name is ours, all rows that decide are ours.
pub(super) fn sides(rows: &[TimedRow]) -> Vec<Side> {
    let all_ours = !rows.iter().any(|row| is_ours(&row.name));
    let side = |row: &TimedRow| match (row.admitted, all_ours || is_ours(&row.name)) {
        (None, _) => Side::Floor,
        (_, true) => Side::Ours,
        (_, false) => Side::Theirs,
    };
    rows.iter().map(side).collect()
}

/// The owner of each row of timed calls.
pub(super) fn sides_of_calls(rows: &[CallsRow]) -> Vec<Side> {
    let is_control = |row: &CallsRow| row.name.starts_with("control");
    let all_ours = !rows.iter().any(|row| is_ours(&row.name));
    let side = |row: &CallsRow| match (is_control(row), all_ours || is_ours(&row.name)) {
        (true, _) => Side::Floor,
        (_, true) => Side::Ours,
        (_, false) => Side::Theirs,
    };
    rows.iter().map(side).collect()
}

/// Whether two rows do the same, by their names.
pub(super) fn alike(ours: &str, theirs: &str) -> bool {
    let agree = |one: Option<usize>, other: Option<usize>| match (one, other) {
        (Some(one), Some(other)) => one == other,
        _ => true,
    };
    let reads = |name: &str| name.contains("reads");
    agree(time(ours), time(theirs))
        && agree(algorithm(ours), algorithm(theirs))
        && reads(ours) == reads(theirs)
}

/// The clock of a row, if its name says it.
pub(super) fn time(name: &str) -> Option<usize> {
    first_of(name, &[&["own clock"], &["time given", "FakeRelativeClock"], &["coarse clock"]])
}

/// The algorithm of a row, if its name says it.
pub(super) fn algorithm(name: &str) -> Option<usize> {
    let words: [&[&str]; 6] = [
        &["SubWindows", "sub-windows"],
        &["SlidingCounter", "sliding counter"],
        &["SlidingLog", "log"],
        &["FixedWindow", "fixed window"],
        &["LeakyQueue", "VecDeque"],
        &["Gcra", "GCRA", "bucket"],
    ];
    first_of(name, &words)
}

fn first_of(name: &str, groups: &[&[&str]]) -> Option<usize> {
    groups.iter().position(|group| group.iter().any(|word| name.contains(word)))
}

/// One figure of ours that is worse than a peer's.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Loss {
    /// The table it is from.
    pub(super) title: String,
    pub(super) threads: Option<usize>,
    pub(super) ours: String,
    pub(super) theirs: String,
    pub(super) our_figure: f64,
    pub(super) their_figure: f64,
    pub(super) unit: String,
}

/// All figures of a bench that are worse than a peer's.
pub(super) fn losses(saved: &Saved) -> Vec<Loss> {
    saved.items().flat_map(of_item).collect()
}

fn of_item(item: &Item) -> Vec<Loss> {
    match item {
        Item::Timed { title, rows } => of_timed(title, rows),
        Item::Calls { title, rows } => of_calls(title, rows),
        Item::Beside { what, unit, ours, peer, theirs } if theirs < ours => vec![Loss {
            title: what.clone(),
            threads: None,
            ours: "tollgate".to_owned(),
            theirs: peer.clone(),
            our_figure: *ours,
            their_figure: *theirs,
            unit: unit.clone(),
        }],
        _ => Vec::new(),
    }
}

fn of_timed(title: &str, rows: &[TimedRow]) -> Vec<Loss> {
    let mut losses = Vec::new();
    for (ours, theirs) in pairs(rows, &sides(rows)) {
        if ours.threads == theirs.threads
            && alike(&ours.name, &theirs.name)
            && theirs.median_nanos < ours.median_nanos
        {
            losses.push(Loss {
                title: title.to_owned(),
                threads: Some(ours.threads),
                ours: ours.name.clone(),
                theirs: theirs.name.clone(),
                our_figure: ours.median_nanos,
                their_figure: theirs.median_nanos,
                unit: "ns".to_owned(),
            });
        }
    }
    losses
}

fn of_calls(title: &str, rows: &[CallsRow]) -> Vec<Loss> {
    let mut losses = Vec::new();
    for (ours, theirs) in pairs(rows, &sides_of_calls(rows)) {
        let percents = SHOWN.into_iter().filter_map(|percent| {
            let unit = format!("ns, p{percent}");
            Some((unit, ours.nanos(percent)?, theirs.nanos(percent)?))
        });
        let slowest = ("ns, max".to_owned(), ours.max_nanos, theirs.max_nanos);
        for (unit, our_nanos, their_nanos) in percents.chain([slowest]) {
            if their_nanos < our_nanos && alike(&ours.name, &theirs.name) {
                losses.push(Loss {
                    title: title.to_owned(),
                    threads: None,
                    ours: ours.name.clone(),
                    theirs: theirs.name.clone(),
                    our_figure: float(our_nanos),
                    their_figure: float(their_nanos),
                    unit,
                });
            }
        }
    }
    losses
}

/// Pairs each of our rows with each row of a peer.
fn pairs<'a, R>(rows: &'a [R], sides: &'a [Side]) -> impl Iterator<Item = (&'a R, &'a R)> {
    let of = move |wanted: Side| {
        rows.iter().zip(sides).filter(move |(_, side)| **side == wanted).map(|(row, _)| row)
    };
    of(Side::Ours).flat_map(move |ours| of(Side::Theirs).map(move |theirs| (ours, theirs)))
}

#[allow(clippy::cast_precision_loss, reason = "nanoseconds of a call")]
fn float(nanos: u64) -> f64 {
    nanos as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::publish::compare::tests::row;
    use crate::saved::Percentile;

    fn floor(name: &str) -> TimedRow {
        TimedRow { admitted: None, ..row(name, 1, 1.0) }
    }

    fn found(rows: &[TimedRow]) -> Vec<(String, String)> {
        of_timed("", rows).into_iter().map(|loss| (loss.ours, loss.theirs)).collect()
    }

    #[test]
    fn a_row_is_assigned_to_its_owner_by_its_name() {
        let names = ["tollgate, own clock", "any Gcra, time given", "SlidingLog, own clock"];
        assert!(names.into_iter().all(is_ours));
        let names = ["GCRA: tollgate, own clock", "textbook: tollgate Gcra, own clock", "tollgate"];
        assert!(names.into_iter().all(is_ours));
        let names = ["GCRA: 64 std Mutex maps", "GCRA told: tollgate's step, 64 Mutex maps"];
        assert!(!names.into_iter().any(is_ours));
        let names = ["governor, own clock", "locked log, own clock", "Mutex<Gcra>", "Gcraft"];
        assert!(!names.into_iter().any(is_ours));
        let rows = [floor("CAS loop"), row("admit, own clock", 1, 9.0)];
        assert_eq!(sides(&rows), [Side::Floor, Side::Ours]);
    }

    #[test]
    fn a_row_is_compared_with_the_peer_that_does_the_same() {
        let rows = [
            floor("CAS loop"),
            row("tollgate, time given", 1, 10.0),
            row("tollgate, own clock", 1, 20.0),
            row("tollgate, own clock, reads retry_after", 1, 25.0),
            row("governor, own clock", 1, 19.0),
            row("governor, FakeRelativeClock", 1, 11.0),
            row("governor, own clock, reads wait_time_from", 1, 26.0),
            row("DPDK meter for one thread, own clock", 1, 7.0),
        ];
        let loss = |theirs: &str| ("tollgate, own clock".to_owned(), theirs.to_owned());
        let theirs = ["governor, own clock", "DPDK meter for one thread, own clock"];
        assert_eq!(found(&rows), theirs.map(loss));
    }

    #[test]
    fn a_lock_is_compared_with_its_own_algorithm_and_its_own_threads() {
        let rows = [
            row("SubWindows, own clock", 1, 10.0),
            row("SlidingLog, own clock", 1, 20.0),
            row("SlidingLog, own clock", 2, 90.0),
            row("locked sub-windows, own clock", 1, 12.0),
            row("locked log, own clock", 1, 13.0),
            row("a lock that says nothing", 2, 50.0),
        ];
        let losses = found(&rows);
        let of = |name: &str| losses.iter().filter(|loss| loss.1 == name).count();
        assert_eq!(losses.len(), 2, "{losses:?}");
        assert_eq!((of("locked log, own clock"), of("a lock that says nothing")), (1, 1));
    }

    #[test]
    fn percentiles_are_compared_one_by_one() {
        let calls = |name: &str, nanos: [u64; 4], max_nanos| CallsRow {
            name: name.to_owned(),
            calls: 1,
            percentiles: (0..4)
                .map(|index| Percentile { percent: SHOWN[index], nanos: nanos[index] })
                .collect(),
            max_nanos,
            slow: 0,
            preempted: 0,
        };
        let rows = [
            calls("tollgate", [10, 20, 300, 400], 9_000),
            calls("governor", [11, 21, 200, 400], 8_000),
            calls("control, nothing but the timer", [1, 1, 1, 1], 1),
        ];
        let units: Vec<String> = of_calls("", &rows).into_iter().map(|loss| loss.unit).collect();
        assert_eq!(units, ["ns, p99.9", "ns, max"]);
    }

    #[test]
    fn a_peer_that_takes_less_memory_is_named() {
        let beside = |ours, theirs| Item::Beside {
            what: "resident".to_owned(),
            unit: "bytes a key".to_owned(),
            ours,
            peer: "governor".to_owned(),
            theirs,
        };
        assert_eq!(of_item(&beside(29.1, 19.9)).len(), 1);
        assert_eq!(of_item(&beside(29.1, 36.2)).len(), 0);
    }
}
