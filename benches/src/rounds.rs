//! Interleaved measuring: the rows of a comparison take turns in each round. A disturbance of the
//! machine then affects all rows, and a ratio compares measurements that are close in time.

use std::sync::Barrier;

use quanta::{Clock, Instant};

use crate::options::Options;

pub use crate::saved::Admitted;

/// One turn of one thread.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// The index of the thread in its row.
    pub thread: usize,
    /// The number of the round.
    pub round: usize,
    /// Decisions to make.
    pub decisions: usize,
}

impl Turn {
    /// Nanoseconds from one given time to the next.
    const STEP_NANOS: u64 = 16;

    /// The given time of the first decision of this turn, in nanoseconds; [`Turn::later`] gives the
    /// next ones. The time continues over the rounds.
    #[must_use]
    pub fn start_nanos(&self) -> u64 {
        1_000_000_000 + (self.round * self.decisions) as u64 * Self::STEP_NANOS
    }

    /// The given time of the next decision.
    #[inline]
    #[must_use]
    pub fn later(nanos: u64) -> u64 {
        nanos + Self::STEP_NANOS
    }

    /// The part of `sequence` for this turn, in two runs (the second after the wrap). Threads start
    /// at different positions, and each round starts where the last one ended.
    #[must_use]
    pub fn part<'a, T>(&self, sequence: &'a [T], threads: usize) -> (&'a [T], &'a [T]) {
        let len = sequence.len();
        assert!(self.decisions <= len, "a turn is at most one pass");
        let start = (self.round * self.decisions + self.thread * (len / threads)) % len;
        let first = &sequence[start..len.min(start + self.decisions)];
        (first, &sequence[..self.decisions - first.len()])
    }
}

/// One row of a comparison: something to measure.
pub struct Row<'a> {
    name: String,
    threads: usize,
    /// Makes the decisions of a turn and returns how many were admitted.
    body: Box<dyn Fn(Turn) -> usize + Sync + 'a>,
    /// A floor decides nothing.
    decides: bool,
}

impl std::fmt::Debug for Row<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Row").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<'a> Row<'a> {
    /// A row that decides; `body` returns how many decisions of its turn were admitted.
    pub fn new(name: &str, threads: usize, body: impl Fn(Turn) -> usize + Sync + 'a) -> Self {
        Self { name: name.to_owned(), threads, body: Box::new(body), decides: true }
    }

    /// A row without decisions, to compare with.
    pub fn floor(name: &str, threads: usize, body: impl Fn(Turn) + Sync + 'a) -> Self {
        let body = Box::new(move |turn| {
            body(turn);
            0
        });
        Self { name: name.to_owned(), threads, body, decides: false }
    }

    /// The wall time of one round in nanoseconds, and the number of admitted decisions.
    fn run(&self, clock: &Clock, round: usize, decisions: usize) -> (f64, usize) {
        if self.threads == 1 {
            let begin = clock.now();
            let admitted = (self.body)(Turn { thread: 0, round, decisions });
            return (nanos(begin, clock.now()), admitted);
        }
        let barrier = Barrier::new(self.threads);
        let turn_of = |thread| {
            barrier.wait();
            let begin = clock.now();
            let admitted = (self.body)(Turn { thread, round, decisions });
            (begin, clock.now(), admitted)
        };
        let turn_of = &turn_of;
        let turns: Vec<(Instant, Instant, usize)> = std::thread::scope(|scope| {
            let handles: Vec<_> =
                (0..self.threads).map(|thread| scope.spawn(move || turn_of(thread))).collect();
            handles.into_iter().map(|handle| handle.join().expect("no panic")).collect()
        });
        let begin = turns.iter().map(|turn| turn.0).min().expect("threads");
        let end = turns.iter().map(|turn| turn.1).max().expect("threads");
        (nanos(begin, end), turns.iter().map(|turn| turn.2).sum())
    }
}

#[allow(clippy::cast_precision_loss, reason = "rounds take milliseconds")]
fn nanos(begin: Instant, end: Instant) -> f64 {
    end.duration_since(begin).as_nanos() as f64
}

/// The results of a row.
#[derive(Clone, Debug)]
pub struct Figures {
    /// The row's name.
    pub name: String,
    /// Threads that decide at the same time.
    pub threads: usize,
    /// Wall nanoseconds times threads per decision, for each round.
    pub nanos: Vec<f64>,
    /// The measured decisions, and how many of them were admitted; `None` for a floor.
    pub admitted: Option<Admitted>,
}

/// Runs the rows in turns: one round to warm up, then the measured rounds.
#[must_use]
#[allow(clippy::cast_precision_loss, reason = "counts of decisions are far below 2^52")]
pub fn compare(options: &Options, decisions: usize, rows: &[Row<'_>]) -> Vec<Figures> {
    let clock = Clock::new();
    let rows: Vec<&Row<'_>> = rows.iter().filter(|row| options.wants(&row.name)).collect();
    let mut nanos = vec![Vec::with_capacity(options.rounds); rows.len()];
    let mut admitted = vec![0_usize; rows.len()];
    for round in 0..=options.rounds {
        for (index, row) in rows.iter().enumerate() {
            let (wall, count) = row.run(&clock, round, decisions);
            if round > 0 {
                nanos[index].push(wall / decisions as f64);
                admitted[index] += count;
            }
        }
    }
    let share = |count, threads| Admitted { count, of: options.rounds * decisions * threads };
    let figures = rows.iter().zip(nanos).zip(admitted).map(|((row, nanos), count)| Figures {
        name: row.name.clone(),
        threads: row.threads,
        nanos,
        admitted: row.decides.then(|| share(count, row.threads)),
    });
    figures.collect()
}
