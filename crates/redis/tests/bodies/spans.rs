//! Cells that were granted, and the span of time that is closest to its bound.

use core::ops::Range;

/// A cell that was granted at some moment between its request and the answer, in microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Granted {
    /// Each round has a key of its own.
    pub(crate) round: u64,
    pub(crate) asked: u64,
    pub(crate) answered: u64,
}

/// The cells granted in a span for certain, and its bound.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Span {
    pub(crate) granted: u64,
    pub(crate) bound: u64,
    pub(crate) micros: u64,
}

impl Span {
    pub(crate) fn is_beyond(&self) -> bool {
        self.granted > self.bound
    }

    pub(crate) fn is_closer_than(&self, other: &Self) -> bool {
        self.granted * other.bound.max(1) > other.granted * self.bound.max(1)
    }
}

/// The span closest to its bound, or furthest beyond it, of all spans that begin with a request and
/// end with an answer. Spans are in microseconds.
pub(crate) fn worst(granted: &[Granted], bound: impl Fn(&Range<u64>) -> u64) -> Span {
    let mut rounds = granted.to_vec();
    rounds.sort_by_key(|cell| cell.round);
    let mut worst = Span { granted: 0, bound: 1, micros: 0 };
    for round in rounds.chunk_by(|one, other| one.round == other.round) {
        let span = worst_of_a_key(round, &bound);
        if span.is_closer_than(&worst) {
            worst = span;
        }
    }
    worst
}

/// The number of keys that cells were granted of, and the number of spans that [`worst`] checks.
pub(crate) fn looked_at(granted: &[Granted]) -> (u64, u64) {
    let mut rounds: Vec<_> = granted.iter().map(|cell| cell.round).collect();
    rounds.sort_unstable();
    let cells_of_keys = rounds.chunk_by(|one, other| one == other).map(|key| key.len() as u64);
    cells_of_keys.fold((0, 0), |(keys, spans), cells| (keys + 1, spans + cells * (cells + 1) / 2))
}

fn worst_of_a_key(granted: &[Granted], bound: impl Fn(&Range<u64>) -> u64) -> Span {
    let mut latest_first = granted.to_vec();
    latest_first.sort_by_key(|cell| core::cmp::Reverse(cell.asked));
    // The answer times of all cells that were asked for later.
    let mut answered = Vec::new();
    let mut worst = Span { granted: 0, bound: 1, micros: 0 };
    for cell in latest_first {
        let place = answered.partition_point(|at| *at < cell.answered);
        answered.insert(place, cell.answered);
        for (granted, at) in (1..).zip(&answered) {
            let micros = at - cell.asked;
            let span = Span { granted, bound: bound(&(cell.asked..*at)), micros };
            if span.is_closer_than(&worst) {
                worst = span;
            }
        }
    }
    worst
}

#[test]
fn the_worst_span_is_found() {
    let cells = |times: &[(u64, u64)]| -> Vec<Granted> {
        times.iter().map(|&(asked, answered)| Granted { round: 0, asked, answered }).collect()
    };
    let bound = |span: &Range<u64>| 3 + (span.end - span.start) / 10;
    let even = cells(&[(0, 1), (0, 1), (1, 2), (10, 11), (20, 21)]);
    let closest = worst(&even, bound);
    assert!(!closest.is_beyond() && closest.granted == closest.bound, "{closest:?}");
    let rush = cells(&[(0, 1), (50, 51), (51, 52), (52, 53), (53, 55)]);
    assert_eq!((worst(&rush, bound).granted, worst(&rush, bound).bound), (4, 3));
    assert_eq!(looked_at(&rush), (1, 15));
    // A cell that was asked for before the span began may have been granted before it.
    let late = cells(&[(0, 51), (50, 51), (51, 52), (52, 53)]);
    assert!(!worst(&late, bound).is_beyond());
}
