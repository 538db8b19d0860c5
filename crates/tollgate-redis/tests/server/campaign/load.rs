//! Who asks, without a pause to speak of, and what was granted when.

use core::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use super::way::Client;

const TASKS_EACH: u32 = 4;

/// A cell that was granted: between when it was asked for and when the answer was there, in
/// microseconds of the episode.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Granted {
    /// Each has a key of its own.
    round: u64,
    asked: u64,
    answered: u64,
}

/// Tasks that ask until they are ended.
pub(crate) struct Load {
    pub(crate) began: Instant,
    over: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<Vec<Granted>>>,
}

impl Load {
    pub(crate) fn start(runtime: &Runtime, clients: &[Client]) -> Self {
        let (over, began) = (Arc::new(AtomicBool::new(false)), Instant::now());
        let mut tasks = Vec::new();
        for client in clients {
            for _ in 0..TASKS_EACH {
                let (client, over) = (client.clone(), Arc::clone(&over));
                tasks.push(runtime.spawn(async move {
                    let micros = || u64::try_from(began.elapsed().as_micros()).expect("short");
                    let mut granted = Vec::new();
                    while !over.load(SeqCst) {
                        let asked = micros();
                        let round = client.round().map_or(0, |span| {
                            asked / u64::try_from(span.as_micros()).expect("short")
                        });
                        if client.is_granted(round).await {
                            granted.push(Granted { round, asked, answered: micros() });
                        }
                        tokio::time::sleep(Duration::from_micros(500)).await;
                    }
                    granted
                }));
            }
        }
        Self { began, over, tasks }
    }

    /// All that was granted.
    pub(crate) fn end(self, runtime: &Runtime) -> Vec<Granted> {
        self.over.store(true, SeqCst);
        runtime.block_on(async {
            let mut granted = Vec::new();
            for task in self.tasks {
                granted.extend(task.await.expect("no panic"));
            }
            granted
        })
    }
}

/// What was granted in a span, for certain, and what may be.
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

/// Of all spans that begin with a request and end with an answer, the one closest to its bound, or
/// furthest beyond it. Spans are in microseconds of the episode.
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

fn worst_of_a_key(granted: &[Granted], bound: impl Fn(&Range<u64>) -> u64) -> Span {
    let mut latest_first = granted.to_vec();
    latest_first.sort_by_key(|cell| core::cmp::Reverse(cell.asked));
    // When all cells were answered that were asked for later.
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
    // What was asked for before the span began may have been granted before.
    let late = cells(&[(0, 51), (50, 51), (51, 52), (52, 53)]);
    assert!(!worst(&late, bound).is_beyond());
}
